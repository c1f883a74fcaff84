"""The events of one batch as columns of attribute values. The gateway checks a whole column at once instead
of each event."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from app.bindings.modes import is_of_family
from app.bindings.record import ContentMode, Decoded, Header
from app.formats.json_columns import BatchColumns

_BATCH = ContentMode.BATCH
_TYPED = "datacontenttype"


class EventColumns(Sequence[Decoded]):
    """The events of a batch whose events all have the same attributes, stored by column. Indexing creates a
    single ``Decoded`` on demand.

    Attributes:
        columns: The attribute values and data of all events, by column.
        foreign: Headers of the request that are forwarded next to each event.
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

    def with_foreign(self, foreign: tuple[Header, ...]) -> EventColumns:
        """Return the same events with ``foreign`` as the headers next to each event. Earlier foreign headers
        are dropped."""
        return EventColumns(self.columns, self._media_type, foreign)

    def column(self, name: str) -> list[bytes] | None:
        """Return the values of one attribute, one per event, or None if the events do not have the attribute."""
        names = self.columns.names
        return self.columns.values[names.index(name)] if name in names else None

    def has_one(self, names: Collection[str]) -> bool:
        """Return True if every attribute of ``names`` has the same value in all events, or no value in any."""
        columns = [each for each in map(self.column, names) if each is not None]
        return all(column.count(column[0]) == len(column) for column in columns)

    def holds_events(self) -> bool:
        """Return True if the data of any event is itself an event: its content type is a CloudEvents media
        type.
        """
        return any(is_of_family(value.decode()) for value in set(self.column(_TYPED) or ()))
