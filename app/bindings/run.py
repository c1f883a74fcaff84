"""Events of one batch that look alike, by column: so that a batch costs a look at each attribute, not at each event."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.bindings.modes import is_of_family
from app.bindings.record import ContentMode, Decoded, Header
from app.formats.json_columns import BatchColumns

_BATCH = ContentMode.BATCH
_TYPED = "datacontenttype"


class Run(Sequence[Decoded]):
    """The events of ``columns`` as a binding has read them; each by itself is made when it is asked for.

    ``media_type``  the content type of each document. ``foreign``: what stands beside each event (I3).
    """

    __slots__ = ("_media_type", "columns", "foreign")

    def __init__(
        self, columns: BatchColumns, media_type: str, foreign: tuple[Header, ...] = ()
    ) -> None:
        self.columns = columns
        self.foreign = foreign
        self._media_type = media_type

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, index: int) -> Decoded:  # type: ignore[override]  # no slices
        event, document = self.columns[index]
        return Decoded(event, _BATCH, document, self._media_type, self.foreign)

    def with_foreign(self, foreign: tuple[Header, ...]) -> Run:
        """Beside each event stand these headers instead."""
        return Run(self.columns, self._media_type, foreign)

    def column(self, name: str) -> list[bytes] | None:
        """The values of one attribute; None where the events do not have it."""
        names = self.columns.names
        return self.columns.values[names.index(name)] if name in names else None

    def has_one(self, names: Collection[str]) -> bool:
        """Whether all events have the same value of each of these attributes, or none has any."""
        columns = [each for each in map(self.column, names) if each is not None]
        return all(column.count(column[0]) == len(column) for column in columns)

    def holds_events(self) -> bool:
        """Whether the data of one is itself an event, by its content type."""
        return any(is_of_family(value.decode()) for value in set(self.column(_TYPED) or ()))
