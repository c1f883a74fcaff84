"""Redact an event for a caller: show all of it, its data under a mask, or no data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from app.event.masking import Mask
from app.event.value import CloudEvent

NOT_SHOWN = "not shown: the token lacks the scope data"
"""The replacement of a text that may quote event data."""

Withheld = Literal["", "masked", "data"]
"""The part of an event that was withheld: nothing, the masked places, or all data."""


class Redaction:
    """The redaction of events for one caller.

    Without the scope ``data``, a caller sees attributes, positions and masked data. Keys, extra headers, raw
    records and answers of webhooks stay hidden.

    Args:
        mask: The compiled mask, or None to show everything.
        masks: The JSON Pointers of the mask. Without pointers, no data is shown.
    """

    def __init__(self, mask: Mask | None, masks: Sequence[str] = ()) -> None:
        self._mask = mask
        self._masks = tuple(masks)

    @property
    def shows_data(self) -> bool:
        """Return True if the caller may see at least a part of the data of events."""
        return self._mask is None or bool(self._masks)

    @property
    def shows_everything(self) -> bool:
        """Return True if the caller may see everything, so that nothing is redacted."""
        return self._mask is None

    def covers(self, other: Redaction) -> bool:
        """Return True if a caller of this redaction may see everything that ``other`` shows."""
        return self.shows_everything or (not other.shows_everything and self._masks == other._masks)

    def event(self, event: CloudEvent) -> tuple[CloudEvent, Withheld]:
        """Return the redacted event, and which part of the event was withheld."""
        if self._mask is None:
            return event, ""
        if event.data is None:
            return event, ""
        masked = self._mask(event)
        return (replace(event, data=None), "data") if masked is None else (masked, "masked")

    def text(self, text: str) -> str:
        """Return the text, or the replacement NOT_SHOWN if the caller may not see event data."""
        return text if self.shows_everything or not text else NOT_SHOWN


ALL = Redaction(None)
"""The redaction that shows everything."""
