"""Encode records as frames of Pulsar's protocol: alone, or several as one batch.

A frame of records is ``total size | command size | command | 0x0e01 | checksum | metadata size | metadata | payload``. The
checksum (CRC-32C) covers what follows it. The payload of a batch is, for each record, ``size | metadata | payload``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple

import cramjam
from crc32c import crc32c

from app.brokers.pulsar.wire.commands import SEND, SIZES
from app.brokers.pulsar.wire.properties import EncodedRecord
from app.brokers.pulsar.wire.protobuf import varint

_SIZE = Struct(">I")
_MAGIC = b"\x0e\x01"
_OVERHEAD = 10  # bytes after the command and before the metadata: magic, checksum and size

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


class RecordTags(NamedTuple):
    """The tags of a record's fields (number << 3 | wire type): in the metadata of a frame, or in a batch. ``pair`` is
    the tag of a property, and ``null`` is a whole field."""

    pair: bytes
    key: bytes
    time: bytes
    null: bytes


_IN_MESSAGE = RecordTags(pair=b"\x22", key=b"\x32", time=b"\x60", null=b"\xc8\x01\x01")
_IN_BATCH = RecordTags(pair=b"\x0a", key=b"\x12", time=b"\x28", null=b"\x48\x01")
_PUBLISHED, _COUNT, _PAYLOAD_SIZE = b"\x18", b"\x58", b"\x18"
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

    def single(self, record: EncodedRecord, sequence: int, now_ms: int) -> bytes:
        """Return the frame of one record."""
        about = [_published(now_ms), *_about(record, _IN_MESSAGE)]
        return self._frame(sequence, b"", about, record.content or b"")

    def batch(self, records: Sequence[EncodedRecord], sequence: int, now_ms: int) -> bytes:
        """Return the frame of several records, which have one entry in the log. If all have one key, the frame has
        it too, so that brokers can distribute batches by key."""
        parts: list[bytes] = []
        for record in records:
            content = record.content or b""
            inner = b"".join([*_about(record, _IN_BATCH), _PAYLOAD_SIZE, varint(len(content))])
            parts += (_SIZE.pack(len(inner)), inner, content)
        count = varint(len(records))
        about = [_published(now_ms), _COUNT, count]
        key = records[0].key
        if key is not None and all(each.key == key for each in records):
            about += (_IN_MESSAGE.key, varint(len(key)), key)
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


@lru_cache(maxsize=4)  # the frames of one turn of the loop have one time
def _published(now_ms: int) -> bytes:
    """Return the encoded publish time."""
    return _PUBLISHED + varint(now_ms)


def _about(record: EncodedRecord, tags: RecordTags) -> list[bytes]:
    """Return the encoded properties, key, event time and null mark of a record."""
    found: list[bytes] = []
    if record.properties:
        found += (tags.pair, tags.pair.join(record.properties))
    key = record.key
    if key is not None:
        found += (tags.key, varint(len(key)), key)
    if record.time_ms is not None:
        found += (tags.time, varint(record.time_ms))
    if record.content is None:
        found.append(tags.null)
    return found
