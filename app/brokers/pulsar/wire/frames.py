"""Encode records as frames of Pulsar's protocol: alone, or several as one batch.

A frame of records is ``total size | command size | command | 0x0e01 | checksum | metadata size | metadata | payload``. The
checksum (CRC-32C) covers what follows it. The payload of a batch is, for each record, ``size | metadata | payload``.
Properties repeat themselves, so the encoded pairs of a name are cached.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple

import cramjam
from crc32c import crc32c

from app.brokers.pulsar.messages import PublishArguments
from app.brokers.pulsar.wire.commands import SEND, SIZES
from app.brokers.pulsar.wire.protobuf import text, varint

_SIZE = Struct(">I")
_MAGIC = b"\x0e\x01"
_OVERHEAD = 10  # bytes after the command and before the metadata: magic, checksum and size
MOST_VALUES = 64  # values of one property that are cached
MOST_NAMES = 256
MOST_CACHED = 256  # bytes of a cached value

Compress = Callable[[bytes], Any]


class Compression(NamedTuple):
    """A compression of payloads: its number in the protocol, and its function."""

    number: int
    compress: Compress


COMPRESSIONS: Mapping[str, Compression] = MappingProxyType(
    {
        "lz4": Compression(1, lambda data: cramjam.lz4.compress_block(data, store_size=False)),
        "zlib": Compression(2, zlib.compress),
        "zstd": Compression(3, cramjam.zstd.compress),
        "snappy": Compression(4, cramjam.snappy.compress_raw),
    }
)

# Tags of fields: number << 3 | wire type.
_IN_MESSAGE = {"properties": b"\x22", "key": b"\x32", "time": b"\x60", "null": b"\xc8\x01\x01"}
_IN_BATCH = {"properties": b"\x0a", "key": b"\x12", "time": b"\x28", "null": b"\x48\x01"}
_PUBLISHED, _COUNT, _PAYLOAD_SIZE, _VALUE = b"\x18", b"\x58", b"\x18", b"\x12"
_PRODUCER, _SEQUENCE = b"\x0a", b"\x10"
_SEND_SEQUENCE, _SEND_COUNT = b"\x10", b"\x18"
_COMPRESSION, _PLAIN_SIZE = b"\x40", b"\x48"


class FrameWriter:
    """Writes the frames of one producer.

    Args:
        number: the number of the producer on its connection.
        name: the name that the broker gave to the producer.
        compression: the compression of payloads; None for none.
    """

    def __init__(self, number: int, name: bytes, compression: Compression | None) -> None:
        self._send = b"\x08" + varint(number) + _SEND_SEQUENCE
        self._metadata = _PRODUCER + varint(len(name)) + name + _SEQUENCE
        self._compression = compression

    def single(self, record: PublishArguments, sequence: int, now_ms: int) -> bytes:
        """Return the frame of one record."""
        about = [_PUBLISHED, varint(now_ms), *_about(record, _IN_MESSAGE)]
        return self._frame(sequence, b"", about, record.content or b"")

    def batch(self, records: Sequence[PublishArguments], sequence: int, now_ms: int) -> bytes:
        """Return the frame of several records, which have one entry in the log. If all have one key, the frame has
        it too, so that brokers can distribute batches by key."""
        parts: list[bytes] = []
        for record in records:
            content = record.content or b""
            inner = b"".join([*_about(record, _IN_BATCH), _PAYLOAD_SIZE, varint(len(content))])
            parts += (_SIZE.pack(len(inner)), inner, content)
        count = varint(len(records))
        about = [_PUBLISHED, varint(now_ms), _COUNT, count]
        key = records[0].partition_key
        if key is not None and all(each.partition_key == key for each in records):
            about += _text(_IN_MESSAGE["key"], key)
        return self._frame(sequence, _SEND_COUNT + count, about, b"".join(parts))

    def _frame(self, sequence: int, count: bytes, about: list[bytes], payload: bytes) -> bytes:
        number = varint(sequence)
        if self._compression is not None:
            about += (_COMPRESSION, varint(self._compression.number))
            about += (_PLAIN_SIZE, varint(len(payload)))
            payload = bytes(self._compression.compress(payload))
        send = b"".join((self._send, number, count))
        command = b"".join((b"\x08", varint(SEND), b"\x32", varint(len(send)), send))
        metadata = b"".join((self._metadata, number, *about))
        tail = b"".join((_SIZE.pack(len(metadata)), metadata, payload))
        sizes = SIZES.pack(len(command) + len(tail) + _OVERHEAD, len(command))
        return b"".join((sizes, command, _MAGIC, _SIZE.pack(crc32c(tail)), tail))


def _about(record: PublishArguments, tags: Mapping[str, bytes]) -> list[bytes]:
    """Return the encoded properties, key, event time and null mark of a record."""
    found: list[bytes] = []
    tag = tags["properties"]
    for name, value in (record.properties or {}).items():
        found += (tag, _pair(name, value))
    if record.partition_key is not None:
        found += _text(tags["key"], record.partition_key)
    if record.event_timestamp is not None:
        found += (tags["time"], varint(record.event_timestamp))
    if record.content is None:
        found.append(tags["null"])
    return found


def _text(tag: bytes, value: str) -> tuple[bytes, bytes, bytes]:
    data = value.encode()
    return tag, varint(len(data)), data


_pairs: dict[str, tuple[bytes, dict[str, bytes]]] = {}
"""The encoded start of each property name, and the encoded pairs of its first values."""


def _pair(name: str, value: str) -> bytes:
    """Return a property as a pair with its length."""
    known = _pairs.get(name)
    if known is None:
        known = text(1, name) + _VALUE, {}
        if len(_pairs) < MOST_NAMES:
            _pairs[name] = known
    start, values = known
    pair = values.get(value)
    if pair is None:
        data = value.encode()
        size = varint(len(data))
        pair = b"".join((varint(len(start) + len(size) + len(data)), start, size, data))
        if len(values) < MOST_VALUES and len(data) <= MOST_CACHED:
            values[value] = pair
    return pair
