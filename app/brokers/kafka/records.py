"""Iterate over the records of one fetch, also if their header names are not UTF-8.

Kafka allows any bytes as a header name, but aiokafka's parser raises for names that are not UTF-8. Without
this module, such a partition could never be read further. A batch that raises is parsed again here. Invalid
bytes become lone surrogates (``surrogateescape``), which no valid name contains. The reader decides what to
do with the record. Batches that aiokafka can parse cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from struct import Struct
from struct import error as BadStruct  # noqa: N812 - an exception
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException

from app.brokers.aiokafka_adapter import batches_of
from app.formats.content_coding import DecodedTooLarge
from app.formats.kafka_compression import DamagedBatch, expand

_HEADER = Struct(">qiibIhiqqqhii")
_BATCH_HEAD = Struct(">qi")  # base offset, length of the remaining bytes
_SHORTEST = 14  # bytes of the shortest batch after its length: a message of format 0
_MAGIC, _FORMAT = 16, 2  # place and number of the format of batches with headers
_MARKER = Struct(">hh")  # key of a control record: version, kind
_ABORT = 0
_ATTRIBUTES, _FIRST_TIME, _LAST_TIME, _COUNT = 5, 7, 8, 12  # indexes of the header's fields
_CODEC, _APPEND_TIME = 0x07, 0x08
_LARGEST = 1 << 30  # most bytes of a decompressed batch
_LONGEST_VARINT = 10

Header = tuple[str, bytes | None]
Aborted = Sequence[tuple[int, int]]
"""Aborted transactions: pairs of producer id and first offset."""


class LenientRecord(NamedTuple):
    """A record whose header names may be any bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class FetchedRecords:
    """The committed records of a fetch from ``position`` on.

    Iteration raises CorruptRecordException for a damaged batch.

    Attributes:
        next_fetch_offset: The offset after the records that were yielded or skipped.
    """

    def __init__(self, raw: bytes, aborted: Aborted | None, position: int) -> None:
        self.next_fetch_offset = position
        self._open = sorted(aborted or (), key=itemgetter(1))
        self._aborted: set[int] = set()  # ids of producers with an aborted transaction
        self._records = self._read(raw)

    def __iter__(self) -> Iterator[Any]:
        return self._records

    def _read(self, raw: bytes) -> Iterator[Any]:
        try:
            yield from self._read_batches(raw)
        except CorruptRecordException:
            raise
        except Exception as error:  # aiokafka and its codecs raise many kinds
            raise CorruptRecordException(f"a batch cannot be read: {error!r}") from error

    def _read_batches(self, raw: bytes) -> Iterator[Any]:
        for data in _complete_batches(raw):
            for batch in batches_of(data):
                if not batch.validate_crc():
                    raise CorruptRecordException("the checksum of a batch is wrong")
                if not self._is_hidden(batch):
                    yield from self._records_of(batch, data)
                self.next_fetch_offset = max(self.next_fetch_offset, batch.next_offset)

    def _is_hidden(self, batch: Any) -> bool:
        """Return True for a control batch, and for a batch of an aborted transaction."""
        producer = batch.producer_id
        if producer is None:
            return bool(batch.is_control_batch)
        while self._open and self._open[0][1] <= batch.base_offset:
            self._aborted.add(self._open.pop(0)[0])
        if batch.is_control_batch:
            if any(_MARKER.unpack_from(record.key)[1] == _ABORT for record in batch):
                self._aborted.discard(producer)
            return True
        return batch.is_transactional and producer in self._aborted

    def _records_of(self, batch: Any, data: bytes) -> Iterator[Any]:
        """Yield the records from ``next_fetch_offset`` on. If aiokafka cannot parse the batch, it is parsed
        again leniently."""
        try:
            yield from self._from_position(batch)
        except Exception:  # noqa: BLE001 - as above; the lenient parser decides
            yield from self._from_position(_parse_leniently(data, batch.base_offset))

    def _from_position(self, records: Any) -> Iterator[Any]:
        for record in records:
            if record.offset >= self.next_fetch_offset:
                self.next_fetch_offset = record.offset + 1
                yield record


def _complete_batches(raw: bytes) -> Iterator[bytes]:
    """Yield the complete batches. A fetch may end with an incomplete batch, which is dropped.

    Raises CorruptRecordException for a length that no batch can have. A negative one would never end."""
    at, size = 0, len(raw)
    while size - at >= _BATCH_HEAD.size:
        length = _BATCH_HEAD.unpack_from(raw, at)[1]
        if length < _SHORTEST:
            raise CorruptRecordException(f"a batch of {length} bytes")
        end = at + _BATCH_HEAD.size + length
        if end > size:
            return
        yield raw[at:end]
        at = end


def _parse_leniently(data: bytes, base: int) -> Iterator[LenientRecord]:
    """Yield the records of a batch of format 2. Header names may be any bytes. Batches of older formats need
    no such parsing, because they have no headers."""
    if data[_MAGIC] != _FORMAT:
        raise CorruptRecordException(f"a message of format {data[_MAGIC]} cannot be read")
    try:
        fields = _HEADER.unpack_from(data)
        codec = fields[_ATTRIBUTES] & _CODEC
        rest = data[_HEADER.size :]
        cursor = _Cursor(bytes(expand(codec, rest, _LARGEST) if codec else rest))
        for _ in range(fields[_COUNT]):
            yield _record(cursor, base, fields)
    except (BadStruct, IndexError, KeyError, DamagedBatch, DecodedTooLarge) as error:
        raise CorruptRecordException(f"a batch cannot be read: {error!r}") from error


def _record(cursor: _Cursor, base: int, fields: tuple[Any, ...]) -> LenientRecord:
    length = cursor.number()
    end = cursor.at + length
    cursor.number()  # attributes, which Kafka does not use yet
    since, delta = cursor.number(), cursor.number()
    key, value = cursor.text(), cursor.text()
    headers = tuple([_header(cursor) for _ in range(cursor.number())])
    if cursor.at != end:
        raise CorruptRecordException(f"the length of a record, {length} bytes, is wrong")
    appended = fields[_ATTRIBUTES] & _APPEND_TIME
    time_ms = fields[_LAST_TIME] if appended else fields[_FIRST_TIME] + since
    return LenientRecord(base + delta, time_ms, key, value, headers)


class _Cursor:
    """A read position in the bytes of a batch. Raises IndexError after the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def number(self) -> int:
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:  # noqa: PLR2004 - the top bit means that more bytes follow
                return (value >> 1) ^ -(value & 1)
        raise CorruptRecordException("a variable-length number is too long")

    def text(self) -> bytes | None:
        """Return bytes that follow their length, or None for a negative length."""
        length = self.number()
        if length < 0:
            return None
        begin, self.at = self.at, self.at + length
        if self.at > len(self._data):
            raise IndexError(self.at)
        return self._data[begin : self.at]


def _header(cursor: _Cursor) -> Header:
    name = cursor.text()
    if name is None:
        raise CorruptRecordException("a header without a name")
    return name.decode("utf-8", "surrogateescape"), cursor.text()
