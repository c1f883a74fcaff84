"""A record as one binary value and back: MessagePack of (key, headers, body, content type).

Null and empty keys, header values and bodies stay apart; header order and repeats are kept. A CRC-32
stands beside each record, because SQLite checks its write-ahead log but not its pages: a record
whose bytes changed on the disk is reported, never served (reliability R10).
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from app.bindings.record import Header, Record

_Fields = tuple[bytes | None, tuple[Header, ...], bytes | None, str | None]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Fields).decode


def encode_record(record: Record) -> tuple[int, bytes]:
    """Checksum and bytes. A header name that is no valid text raises ValueError."""
    data = _encode((record.key, record.headers, record.body, record.content_type))
    return crc32(data), data


def decode_record(checksum: int, data: bytes) -> Record | None:
    """None: these are not the bytes that were written."""
    if crc32(data) != checksum:
        return None
    key, headers, body, content_type = _decode(data)
    return Record(key, headers, body, content_type)
