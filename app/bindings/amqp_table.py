"""The header table of AMQP 0-9-1 and the neutral record: typed values to canonical text (R9).

A record holds bytes only. What a table holds beside strings is kept next to the record, as it came
from the client library, so that nothing is lost and a type that no attribute can have is refused.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from app.bindings.record import Record
from app.event.types import INTEGER_MAX, INTEGER_MIN
from app.event.value import AttributeType

KEY_HEADER = "x-skybridge-key"

# A table inside a table is a dict, an array a list; no attribute can be one.
Native: TypeAlias = (
    bool | int | float | Decimal | bytes | bytearray | datetime | dict[str, object] | list[object]
)
TableValue: TypeAlias = Native | str | None
Table: TypeAlias = Mapping[str, TableValue]

NO_NATIVES: Mapping[str, Native] = MappingProxyType({})


class Received(msgspec.Struct, frozen=True):
    """A message as a consumer was given it.

    ``record``   its headers hold the canonical text of every value that has one, else null.
    ``natives``  header values that are no strings, by header name, as the client library typed them.
    """

    record: Record
    natives: Mapping[str, Native] = NO_NATIVES


def from_table(table: Table, content_type: str | None, body: bytes) -> Received:
    """A message from its properties. The record key is taken out of its header again."""
    natives = {
        name: value
        for name, value in table.items()
        if name != KEY_HEADER and not isinstance(value, str | None)
    }
    headers = tuple((name, _bytes_of(value)) for name, value in table.items() if name != KEY_HEADER)
    key = _bytes_of(table.get(KEY_HEADER))
    return Received(Record(key, headers, body, content_type), natives or NO_NATIVES)


def _bytes_of(value: TableValue) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    text = native_text(value)
    return None if text is None else text.encode()


def to_table(record: Record, natives: Mapping[str, Native] = NO_NATIVES) -> dict[str, TableValue]:
    """The header table of a record: strings, and bytes for what is not UTF-8. A table holds a name
    once, so of a repeated header the first is kept.
    """
    table: dict[str, TableValue] = {}
    for name, value in record.headers:
        table.setdefault(name, natives[name] if name in natives else _string_of(value))
    if record.key is not None:
        table[KEY_HEADER] = _string_of(record.key)
    return table


def _string_of(value: bytes | None) -> TableValue:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def native_text(value: Native) -> str | None:
    """The canonical text of a typed value (core 1.3); None for a type or a number that no attribute
    can be: tables, arrays, floats, decimals, integers beyond 32 bits.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if INTEGER_MIN <= value <= INTEGER_MAX else None
    if isinstance(value, bytes | bytearray):
        return _text_of_bytes(bytes(value))
    if isinstance(value, datetime):
        return _timestamp(value)
    return None


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b2a_base64(value, newline=False).decode()


def _timestamp(value: datetime) -> str:
    """Whole seconds in UTC, as AMQP has them; one without an offset is in UTC already."""
    moment = value.astimezone(UTC) if value.tzinfo else value
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def native_type(value: Native) -> AttributeType:
    """What the wire told about the type of an attribute."""
    if isinstance(value, bool):
        return AttributeType.BOOLEAN
    return AttributeType.INTEGER if isinstance(value, int) else AttributeType.STRING
