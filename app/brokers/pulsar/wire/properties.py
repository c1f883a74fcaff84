"""Encode a record's properties, key and event time once, for a frame of its own or for a batch.

Senders repeat the names of properties. So the bytes before a value are prepared once for each name and length.
"""

from __future__ import annotations

from typing import NamedTuple

from app.bindings.record import Record
from app.brokers.pulsar.messages import PublishArguments, build
from app.brokers.pulsar.wire.protobuf import text, varint
from app.event.memo import Memo

_VALUE = b"\x12"  # tag of the value of a property
MOST_LENGTHS = 64  # lengths of the values of one property that are prepared


class EncodedRecord(NamedTuple):
    """A record whose parts are encoded.

    Attributes:
        properties: Each property as a pair with its length, without the tag of its field.
        key: The partition key, or None.
        time_ms: The event time in ms since 1970, or None.
        content: The payload, or None for a null value.
    """

    properties: list[bytes]
    key: bytes | None
    time_ms: int | None
    content: bytes | None

    @property
    def size(self) -> int:
        """Return about how many bytes the record has in a batch, and never less."""
        texts = sum(map(len, self.properties)) + len(self.properties) + len(self.key or b"")
        return len(self.content or b"") + texts + 64


class PropertyName(dict[int, bytes]):
    """The bytes before the value of a property, by the length of the value."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._start = text(1, name) + _VALUE

    def __missing__(self, length: int) -> bytes:
        start = self._start + varint(length)
        found = varint(len(start) + length) + start
        if length < MOST_LENGTHS:
            self[length] = found
        return found


def encode(record: Record) -> EncodedRecord:
    """Return the encoded record. Raise ValueError for a property name that is not UTF-8."""
    return _plain(record) or _any(build(record))


def _plain(record: Record) -> EncodedRecord | None:
    """Return a record whose properties have different names and, as its key, are ASCII. Return None for others."""
    key, moment = record.key, record.time_ms
    if key is not None and not (key and key.isascii()):
        return None
    names, values = zip(*record.headers) if record.headers else ((), ())  # noqa: B905 - pairs
    known = _names[names]
    try:
        if known is None or not b"".join(values).isascii():
            return None
    except TypeError:  # a null
        return None
    pairs = [name[len(value)] + value for name, value in zip(known, values)]  # noqa: B905 - equal lengths, and hot
    return EncodedRecord(pairs, key, moment if moment and moment > 0 else None, record.body)


def _any(message: PublishArguments) -> EncodedRecord:
    pairs = []
    for name, value in (message.properties or {}).items():
        data = value.encode()
        pairs.append(_name[name][len(data)] + data)
    key = message.partition_key
    encoded = None if key is None else key.encode()
    return EncodedRecord(pairs, encoded, message.event_timestamp, message.content)


def _names_of(names: tuple[str, ...]) -> tuple[PropertyName, ...] | None:
    """Return the names of properties, or None if a name comes twice."""
    return None if len(set(names)) < len(names) else tuple([_name[name] for name in names])


_name: Memo[str, PropertyName] = Memo(PropertyName)
_names: Memo[tuple[str, ...], tuple[PropertyName, ...] | None] = Memo(_names_of)
