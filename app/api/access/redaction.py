"""How much of an event a caller is shown: all of it, its data under a mask, or no data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from app.event.masking import Mask
from app.event.value import CloudEvent

NOT_SHOWN = "not shown: the token lacks the scope data"
"""In the place of a text that may quote event data."""

Withheld = Literal["", "masked", "data"]


class Shown:
    """``mask`` None: everything. ``masks``: the places that it hides; without any it lets no data through. Else
    attributes and positions are shown, and data as the mask lets it; never keys, headers beside the event, records
    as they are, and answers of webhooks."""

    def __init__(self, mask: Mask | None, masks: Sequence[str] = ()) -> None:
        self._mask = mask
        self._masks = tuple(masks)

    @property
    def some(self) -> bool:
        """Whether any data may be shown."""
        return self._mask is None or bool(self._masks)

    @property
    def everything(self) -> bool:
        return self._mask is None

    def covers(self, other: Shown) -> bool:
        """Whether all that ``other`` shows may be shown here."""
        return self.everything or (not other.everything and self._masks == other._masks)

    def event(self, event: CloudEvent) -> tuple[CloudEvent, Withheld]:
        if self._mask is None:
            return event, ""
        if event.data is None:
            return event, ""
        masked = self._mask(event)
        return (replace(event, data=None), "data") if masked is None else (masked, "masked")

    def text(self, text: str) -> str:
        return text if self.everything or not text else NOT_SHOWN


ALL = Shown(None)
