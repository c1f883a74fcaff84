"""Records as the bytes of one row and back: a MessagePack list of (key, headers, body, content type).

Null and empty keys, header values and bodies stay apart; header order and repeats are kept. A CRC-32
of the row stands beside it, because SQLite checks its write-ahead log but not its pages: records
whose bytes changed on the disk are reported, never served (reliability R10).
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec

from app.bindings.record import Header, Record

Fields = tuple[bytes | None, tuple[Header, ...], bytes | None, str | None]
"""What of a record is stored, in the order of ``Record``."""

Row = tuple[int, int, int, int, bytes]
"""Base offset, count of records, time in milliseconds, checksum, the records."""

ROW_RECORDS = 256  # a row is decoded as a whole, also for one record of it
ROW_BYTES = 256 << 10  # a row of several records is no larger
Unstorable = (ValueError, TypeError, OverflowError)
"""What encoding raises for a record that cannot be written, as a header name that is no text."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Fields]).decode


def fields_of(record: Record) -> Fields:
    return record.key, record.headers, record.body, record.content_type


def check(record: Record) -> None:
    """Raises one of ``Unstorable`` when it cannot be stored."""
    _encode(fields_of(record))


def encode_rows(base: int, time_ms: int, records: Sequence[Fields]) -> list[Row]:
    """The rows of consecutive records from offset ``base`` on, halved until they are small enough.
    Raises one of ``Unstorable``."""
    count = len(records)
    if count <= ROW_RECORDS:
        data = _encode(records)
        if len(data) <= ROW_BYTES or count == 1:
            return [(base, count, time_ms, _checksum(base, count, time_ms, data), data)]
    half = count // 2
    return [
        *encode_rows(base, time_ms, records[:half]),
        *encode_rows(base + half, time_ms, records[half:]),
    ]


def decode_row(row: Row) -> list[Fields] | None:
    """None: this is not the row that was written."""
    base, count, time_ms, checksum, data = row
    return _decode(data) if _checksum(base, count, time_ms, data) == checksum else None


def _checksum(base: int, count: int, time_ms: int, data: bytes) -> int:
    """Of all columns: a row must not pass for another."""
    return crc32(data, crc32(b"%d %d %d" % (base, count, time_ms)))
