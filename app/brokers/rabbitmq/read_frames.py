"""Read the record of a delivery from its AMQP 0-9-1 frames (sections 4.2.5.5 and 4.2.6.1). Pure.

The client library creates some fifty objects for each message, at a quarter of what a delivery costs. A message
whose properties and headers are of the usual kinds is read here; ``record_of`` takes the others from the library.
"""

from __future__ import annotations

from struct import Struct
from struct import error as BadStruct  # noqa: N812 - an exception
from typing import Any, NamedTuple

from msgspec import structs

from app.bindings.amqp_table import KEY_HEADER, Table, from_table
from app.bindings.record import NO_NATIVES, Header, Record
from app.event.memo import Memo

STREAM_OFFSET = "x-stream-offset"
_OF_THE_BROKER = frozenset({"x-delivery-count", STREAM_OFFSET})
"""Headers that the broker adds to a delivery. They are no part of the record."""

_SIZE_AND_FLAGS = Struct(">QH")  # of a content header, after class and weight
_NUMBER = Struct(">Q")
_SIGNED = Struct(">q")
_FRAME, _CLASS = 7, 4  # bytes of the head of a frame, and of class and weight
_CONTENT_TYPE, _HEADERS, _DELIVERY_MODE, _MESSAGE_ID, _TIMESTAMP = (
    0x8000,
    0x2000,
    0x1000,
    0x80,
    0x40,
)
_RARE = 0xFFFF ^ (_CONTENT_TYPE | _HEADERS | _DELIVERY_MODE | _MESSAGE_ID | _TIMESTAMP)
_TEXT, _VOID, _LONG = b"SVl"  # kinds of values: long string, no value, signed 64 bits
_LAST_SECOND = 0xFFFFFFFF  # a later time is in milliseconds for the library

_texts: Memo[bytes, str] = Memo(lambda raw: raw.decode())  # names of headers, and content types


class Delivered(NamedTuple):
    """A message that arrived on a channel.

    ``tag`` is its delivery tag. ``offset`` is its offset in a stream, or None in a queue."""

    tag: int
    record: Record
    offset: int | None = None


def tag_of(raw: bytes) -> tuple[bytes, int]:
    """Return consumer tag and delivery tag of the frame of a ``basic.deliver``. Raises BadStruct for a damaged frame."""
    at = _FRAME + _CLASS + 1
    end = at + raw[at - 1]
    return raw[at:end], _NUMBER.unpack_from(raw, end)[0]


def size_of(raw: bytes) -> int:
    """Return the bytes of the body that follows the frame of a content header. Raises BadStruct for a damaged frame."""
    return int(_NUMBER.unpack_from(raw, _FRAME + _CLASS)[0])


class _Unusual(Exception):
    """The error for a header that the library must decode."""


def read_plain(tag: int, raw: bytes, body: bytes) -> Delivered | None:
    """Return the message with this frame of its content header and this body.

    Return None if the library must decode the header, because it has a rare property or kind of value, or is
    damaged."""
    try:
        record, offset = _record(raw, body)
    except (_Unusual, UnicodeDecodeError, IndexError, BadStruct):
        return None
    return Delivered(tag, record, offset)


def _record(raw: bytes, body: bytes) -> tuple[Record, int | None]:
    """Return the record and its offset in a stream. Raises _Unusual, and UnicodeDecodeError, IndexError or BadStruct
    for a damaged frame."""
    at = _FRAME + _CLASS
    flags = _SIZE_AND_FLAGS.unpack_from(raw, at)[1]
    if flags & _RARE:
        raise _Unusual
    at += _SIZE_AND_FLAGS.size
    content_type = message_id = time_ms = key = offset = None
    headers: tuple[Header, ...] = ()
    if flags & _CONTENT_TYPE:
        end = at + 1 + raw[at]
        content_type, at = _texts[raw[at + 1 : end]], end
    if flags & _HEADERS:
        end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
        headers, key, offset = _table(raw, at + 4, end)
        at = end
    at += (flags & _DELIVERY_MODE) // _DELIVERY_MODE
    if flags & _MESSAGE_ID:
        end = at + 1 + raw[at]
        message_id, at = raw[at + 1 : end].decode(), end
    if flags & _TIMESTAMP:
        time_ms = _time_ms(raw, at)
        at += _NUMBER.size
    if at != len(raw) - 1:  # a value ends beyond the frame, or before its end
        raise _Unusual
    return Record(key, headers, body, content_type, NO_NATIVES, message_id, time_ms), offset


def _table(raw: bytes, at: int, end: int) -> tuple[tuple[Header, ...], bytes | None, int | None]:
    """Return the headers, the key and the offset in a header table. Raises _Unusual, and UnicodeDecodeError,
    IndexError or BadStruct for a damaged table."""
    found: dict[str, bytes | None] = {}
    numbers: dict[str, int] = {}
    count = 0
    while at < end:
        begin = at + 1
        at = begin + raw[at]
        name, kind = _texts[raw[begin:at]], raw[at]
        begin = at + 5
        if kind == _TEXT:
            at = begin + int.from_bytes(raw[at + 1 : begin], "big")
            found[name] = raw[begin:at]
            count += 1
        elif kind == _VOID:
            at += 1
            found[name] = None
            count += 1
        elif kind == _LONG and name in _OF_THE_BROKER:
            numbers[name] = _SIGNED.unpack_from(raw, at + 1)[0]
            at += 9
        else:
            raise _Unusual
    if at != end or len(found) != count:  # a name may come twice
        raise _Unusual
    if not _OF_THE_BROKER.isdisjoint(found):  # a publisher may set them too, to any value
        raise _Unusual
    key = found.pop(KEY_HEADER, None)
    return tuple(found.items()), key, numbers.get(STREAM_OFFSET)


def _time_ms(raw: bytes, at: int) -> int:
    seconds = int(_NUMBER.unpack_from(raw, at)[0])
    if seconds > _LAST_SECOND:
        raise _Unusual
    return seconds * 1000


def record_of(properties: Any, body: bytes) -> tuple[Record, int | None]:
    """Return the record of a delivery whose properties the library has decoded, and its offset in a stream.

    Headers that the broker added are left out. Text that is not UTF-8 is still kept as text."""
    table: Table = properties.headers or {}
    offset = table.get(STREAM_OFFSET)
    if any(name in table for name in _OF_THE_BROKER):
        table = {name: value for name, value in table.items() if name not in _OF_THE_BROKER}
    moment = properties.timestamp
    time_ms = None if moment is None else round(moment.timestamp() * 1000)
    record = from_table(
        table,
        properties.content_type,
        body,
        properties.message_id,
        time_ms,
        properties.content_encoding,
    )
    if record.natives:
        natives = {n: v for n, v in record.natives.items() if type(v) is not bytes}
        record = structs.replace(record, natives=natives or NO_NATIVES)
    return record, offset if type(offset) is int else None
