"""Records of which a header's name is not UTF-8, which nothing in Kafka forbids a producer to write.

aiokafka's parser raises at such a record, and at the same one again each time: its partition would
stand still for ever. Here the rest of that fetch is read once more, with those bytes kept as
lone surrogates (``surrogateescape``), which no other name can contain. What becomes of the record is
for its reader to say; whatever parses at once pays nothing.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from itertools import dropwhile
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy, _DefaultRecordPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

_BATCH_HEAD = struct.Struct(">qiib")  # base offset, length of the rest, leader epoch, magic
_BEFORE_LENGTH_COUNTS = 12  # bytes of a batch that its length leaves out
_WITH_HEADERS = 2  # the first magic whose records have them

Header = tuple[str, bytes | None]


class KeptRecords(MemoryRecords):  # type: ignore[misc]  # final in name only
    """The batches of one fetch, and the bytes that they came from."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.raw = raw


class PatientRecords(PartitionRecords):  # type: ignore[misc]  # aiokafka has no types
    """The records of one fetch. At the first one that cannot be parsed it goes on patiently, from the
    batch in which that happened; the client's own loop passes over what it has handed out already.
    """

    _records: Any
    _patient = False

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except (UnicodeDecodeError, CorruptRecordException):
            if self._patient:
                raise  # damaged indeed
        self._patient = True
        self._records = _Batches(self._records.raw, self.next_fetch_offset)
        self._records_iterator = self._unpack_records()  # knows what is aborted up to here
        return super().__next__()


class _Batches:
    """Batches as ``MemoryRecords`` gives them, but for those that end before ``position``: a cut-off
    one at the end of a fetch is none."""

    def __init__(self, raw: bytes, position: int) -> None:
        batches = map(_batch, _cut(memoryview(raw)))
        self._left = deque(dropwhile(lambda batch: batch.next_offset <= position, batches))

    def has_next(self) -> bool:
        return bool(self._left)

    def next_batch(self) -> Any:
        return self._left.popleft()


def _cut(raw: memoryview) -> Iterator[memoryview]:
    while len(raw) >= _BATCH_HEAD.size:
        length = _BEFORE_LENGTH_COUNTS + int(_BATCH_HEAD.unpack_from(raw)[1])
        if length > len(raw):
            return
        yield raw[:length]
        raw = raw[length:]


def _batch(whole: memoryview) -> Any:
    magic = _BATCH_HEAD.unpack_from(whole)[3]
    if magic < _WITH_HEADERS:
        return MemoryRecords(bytes(whole)).next_batch()
    return _PatientBatch(whole)


class _PatientBatch(_DefaultRecordBatchPy):  # type: ignore[misc]  # final in name only
    """A batch whose header names may be any bytes."""

    _pos: int

    def _read_msg(self) -> _DefaultRecordPy:
        cursor = _Cursor(self._buffer, self._pos)
        length = cursor.number()
        end = cursor.at + length
        cursor.number()  # attributes, of which there are none yet
        since, delta = cursor.number(), cursor.number()
        key, value = cursor.text(), cursor.text()
        headers = [_header(cursor) for _ in range(cursor.number())]
        if cursor.at != end:
            raise CorruptRecordException(f"a record of {length} bytes ends elsewhere")
        self._pos = end
        broker_says = self.timestamp_type == self.LOG_APPEND_TIME
        time_ms = self.max_timestamp if broker_says else self.first_timestamp + since
        return _DefaultRecordPy(
            self.base_offset + delta, time_ms, self.timestamp_type, key, value, headers
        )


class _Cursor:
    def __init__(self, buffer: bytearray, at: int) -> None:
        self._buffer = buffer
        self.at = at

    def number(self) -> int:
        number: int
        number, self.at = decode_varint(self._buffer, self.at)
        return number

    def text(self) -> bytes | None:
        """Bytes behind their length; a negative one means none."""
        length = self.number()
        if length < 0:
            return None
        begin, self.at = self.at, self.at + length
        return bytes(self._buffer[begin : self.at])


def _header(cursor: _Cursor) -> Header:
    name = cursor.text()
    if name is None:
        raise CorruptRecordException("a header without a name")
    return name.decode("utf-8", "surrogateescape"), cursor.text()


def install() -> None:
    """Let the client's fetcher use these; ``test_internals`` guards that it asks for them by name."""
    fetcher.MemoryRecords = KeptRecords
    fetcher.PartitionRecords = PatientRecords
