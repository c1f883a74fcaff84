"""The header table of AMQP 0-9-1 and the neutral record: typed values to canonical text (R9).

What a table holds beside strings stands in the record's ``natives`` too, as it came from the client
library, so that nothing is lost and a type that no attribute can have is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from app.bindings.content_coding import coded
from app.bindings.record import NO_NATIVES, Native, Record
from app.bindings.values import native_text

KEY_HEADER = "x-skybridge-key"

TableValue: TypeAlias = Native | str | None
Table: TypeAlias = Mapping[str, TableValue]


def from_table(
    table: Table,
    content_type: str | None,
    body: bytes,
    message_id: str | None = None,
    time_ms: int | None = None,
    content_encoding: str | None = None,
) -> Record:
    """A record from a message's properties: the key is taken out of its header again, and of typed
    values the headers have the canonical text, or null where none is.

    ``time_ms``  the timestamp property, in milliseconds since the epoch.
    ``content_encoding``  that property, which becomes a header: no other broker has one.
    """
    key = _bytes_of(table.get(KEY_HEADER))
    others = {name: value for name, value in table.items() if name != KEY_HEADER}
    if (
        key is None and table.get(KEY_HEADER) is not None
    ):  # a list or a table, which decoding refuses
        others = dict(table)
    natives = {name: value for name, value in others.items() if not isinstance(value, str | None)}
    headers = coded(((name, _bytes_of(value)) for name, value in others.items()), content_encoding)
    return Record(key, headers, body, content_type, natives or NO_NATIVES, message_id, time_ms)


def _bytes_of(value: TableValue) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    text = native_text(value)
    return None if text is None else text.encode()
