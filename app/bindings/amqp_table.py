"""Convert the header table of AMQP 0-9-1 to the neutral record: typed values get their canonical text.

Every value that is no string is also kept in ``natives`` of the record, as the client library returned it. So
no value is lost, and decoding can refuse a type that no attribute has.
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
    """Return the record of an AMQP message. The key is moved out of its header.

    Typed values have their canonical text in the headers, or null if they have none.

    Args:
        table: The header table.
        content_type: The content-type property.
        body: The body.
        message_id: The property of that name.
        time_ms: The timestamp property, in ms since 1970.
        content_encoding: The property of that name. It becomes a header, because no other broker has such a
            property.
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
