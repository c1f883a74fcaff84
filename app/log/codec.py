"""Encode records as the bytes of one row: a MessagePack list of (key, headers, body, content type).

Null and empty keys, header values and bodies are distinct, and the order and repeats of headers are kept. The row
has a CRC-32 of its columns, because SQLite checks its write-ahead log but not its pages. Records whose bytes
changed on the disk are reported and never served."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec

from app.bindings.record import Header, Record

Fields = tuple[bytes | None, tuple[Header, ...], bytes | None, str | None]
"""The stored fields of a record, in the order of ``Record``."""

Row = tuple[int, int, int, int, bytes]
"""Base offset, number of records, time in ms since the epoch, checksum, and the encoded records."""

ROW_RECORDS = 256  # a row is decoded as a whole, also for one record of it
ROW_BYTES = 256 << 10  # a row of several records is no larger
Unstorable = (ValueError, TypeError, OverflowError)
"""The exceptions that encoding raises for a record that cannot be stored, such as one with a header name that is
not text."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Fields]).decode


def fields_of(record: Record) -> Fields:
    return record.key, record.headers, record.body, record.content_type


def check(record: Record) -> None:
    """Raise one of ``Unstorable`` if the record cannot be stored."""
    _encode(fields_of(record))


def encode_rows(base: int, time_ms: int, records: Sequence[Fields]) -> list[Row]:
    """Return the rows of consecutive records, halved until each row is small enough.

    Args:
        base: the offset of the first record.
        time_ms: the time of the records, in ms since the epoch.
        records: the fields of the records.

    Raises:
        ValueError: a record cannot be stored, as for the other exceptions of ``Unstorable``.
    """
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
    """Return the records of a row, or None if its checksum does not match."""
    base, count, time_ms, checksum, data = row
    return _decode(data) if _checksum(base, count, time_ms, data) == checksum else None


def _checksum(base: int, count: int, time_ms: int, data: bytes) -> int:
    """Return the checksum over all columns. A row with columns of another row is then detected."""
    return crc32(data, crc32(b"%d %d %d" % (base, count, time_ms)))
