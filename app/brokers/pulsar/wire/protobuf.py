"""Encode and decode the parts of Protocol Buffers that Pulsar's commands use: integers and byte strings."""

from __future__ import annotations

from typing import Any

_CONTINUES = 0x80
_SEVEN = 0x7F
_BYTES = 2  # wire type of a value with its length in front
_VARINT = 0
_SIZES = {1: 8, 5: 4}  # bytes of values of a fixed size, by wire type
_LONGEST = 10  # bytes of an integer of 64 bits


class MalformedMessage(ValueError):
    """The bytes are not a message of Protocol Buffers."""


def _encoded(number: int) -> bytes:
    out = bytearray()
    while number > _SEVEN:
        out.append(number & _SEVEN | _CONTINUES)
        number >>= 7
    out.append(number)
    return bytes(out)


_SHORT = [_encoded(number) for number in range(1 << 14)]  # nearly every length and tag


def varint(number: int) -> bytes:
    """Return an integer that is not negative, as a varint."""
    return _SHORT[number] if number < 1 << 14 else _encoded(number)


def integer(field: int, value: int) -> bytes:
    """Return an integer with its field number."""
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes | str) -> bytes:
    """Return bytes or text with its field number and length."""
    data = value.encode() if isinstance(value, str) else value
    return b"".join((varint(field << 3 | _BYTES), varint(len(data)), data))


def fields(data: bytes) -> dict[int, Any]:
    """Return the last value of each field: an integer, or bytes. Raise MalformedMessage."""
    found: dict[int, Any] = {}
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint_at(data, at)
        kind = tag & 7
        if kind == _VARINT:
            found[tag >> 3], at = _varint_at(data, at)
            continue
        size, at = _varint_at(data, at) if kind == _BYTES else (_SIZES.get(kind, -1), at)
        if size < 0 or at + size > end:
            raise MalformedMessage("a field ends beyond its message")
        found[tag >> 3] = data[at : at + size]
        at += size
    return found


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a place, and the place after it."""
    number = shift = 0
    for place in range(at, min(at + _LONGEST, len(data))):
        byte = data[place]
        number |= (byte & _SEVEN) << shift
        if byte < _CONTINUES:
            return number, place + 1
        shift += 7
    raise MalformedMessage("an integer has no end")
