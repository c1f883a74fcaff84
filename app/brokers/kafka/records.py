"""Records of one fetch, whatever their producers wrote into them.

Nothing in Kafka forbids a header whose name is not UTF-8, and aiokafka's parser raises at such a record, each time
again: its partition would stand still for ever. Here that batch is read once more, with those bytes kept as lone
surrogates (``surrogateescape``), which no other name can contain. What becomes of the record is for its reader to
say; whatever parses at once pays nothing.
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
from app.formats.kafka_compression import Damaged, expand

_HEADER = Struct(">qiibIhiqqqhii")
_BATCH_HEAD = Struct(">qi")  # base offset, length of the rest
_MARKER = Struct(">hh")  # key of a control record: version, kind
_ABORT = 0
_ATTRIBUTES, _FIRST_TIME, _LAST_TIME, _COUNT = 5, 7, 8, 12  # of the header's fields
_CODEC, _APPEND_TIME = 0x07, 0x08
_LARGEST = 1 << 30  # bytes that a batch may become
_LONGEST_VARINT = 10

Header = tuple[str, bytes | None]
Aborted = Sequence[tuple[int, int]]
"""Transactions that were taken back: producer id and first offset."""


class Patient(NamedTuple):
    """A record whose header names may be any bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class FetchedRecords:
    """Committed records from ``position`` on. Iteration raises CorruptRecordException for a damaged batch.

    ``next_fetch_offset``  where the next fetch goes on: behind what was handed out and what is passed over.
    """

    def __init__(self, raw: bytes, aborted: Aborted | None, position: int) -> None:
        self.next_fetch_offset = position
        self._open = sorted(aborted or (), key=itemgetter(1))
        self._taken_back: set[int] = set()  # producers
        self._records = self._read(raw)

    def __iter__(self) -> Iterator[Any]:
        return self._records

    def _read(self, raw: bytes) -> Iterator[Any]:
        for data in _cut(raw):
            for batch in batches_of(data):
                if not batch.validate_crc():
                    raise CorruptRecordException("a batch is not what its checksum says")
                if not self._is_hidden(batch):
                    yield from self._records_of(batch, data)
                self.next_fetch_offset = batch.next_offset

    def _is_hidden(self, batch: Any) -> bool:
        """Return True for a control batch, and for one that a transaction took back."""
        producer = batch.producer_id
        if producer is None:
            return bool(batch.is_control_batch)
        while self._open and self._open[0][1] <= batch.base_offset:
            self._taken_back.add(self._open.pop(0)[0])
        if batch.is_control_batch:
            if any(_MARKER.unpack_from(record.key)[1] == _ABORT for record in batch):
                self._taken_back.discard(producer)
            return True
        return batch.is_transactional and producer in self._taken_back

    def _records_of(self, batch: Any, data: bytes) -> Iterator[Any]:
        """Yield the records from ``next_fetch_offset`` on; patiently from the first one that cannot be parsed."""
        try:
            yield from self._wanted(batch)
        except (UnicodeDecodeError, CorruptRecordException):
            yield from self._wanted(_patiently(data, batch.base_offset))

    def _wanted(self, records: Any) -> Iterator[Any]:
        for record in records:
            if record.offset >= self.next_fetch_offset:
                self.next_fetch_offset = record.offset + 1
                yield record


def _cut(raw: bytes) -> Iterator[bytes]:
    """Yield whole batches: a cut-off one at the end of a fetch is none."""
    at, size = 0, len(raw)
    while size - at >= _BATCH_HEAD.size:
        end = at + _BATCH_HEAD.size + _BATCH_HEAD.unpack_from(raw, at)[1]
        if end > size:
            return
        yield raw[at:end]
        at = end


def _patiently(data: bytes, base: int) -> Iterator[Patient]:
    """Yield the records of a batch of format 2, the first whose records have headers."""
    try:
        fields = _HEADER.unpack_from(data)
        codec = fields[_ATTRIBUTES] & _CODEC
        rest = data[_HEADER.size :]
        cursor = _Cursor(bytes(expand(codec, rest, _LARGEST) if codec else rest))
        for _ in range(fields[_COUNT]):
            yield _record(cursor, base, fields)
    except (BadStruct, IndexError, KeyError, Damaged, DecodedTooLarge) as error:
        raise CorruptRecordException(f"a batch cannot be read: {error!r}") from error


def _record(cursor: _Cursor, base: int, fields: tuple[Any, ...]) -> Patient:
    length = cursor.number()
    end = cursor.at + length
    cursor.number()  # attributes, of which there are none yet
    since, delta = cursor.number(), cursor.number()
    key, value = cursor.text(), cursor.text()
    headers = tuple([_header(cursor) for _ in range(cursor.number())])
    if cursor.at != end:
        raise CorruptRecordException(f"a record of {length} bytes ends elsewhere")
    appended = fields[_ATTRIBUTES] & _APPEND_TIME
    time_ms = fields[_LAST_TIME] if appended else fields[_FIRST_TIME] + since
    return Patient(base + delta, time_ms, key, value, headers)


class _Cursor:
    """A place in a batch. Raises IndexError behind its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def number(self) -> int:
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:  # noqa: PLR2004 - the top bit says that more follow
                return (value >> 1) ^ -(value & 1)
        raise CorruptRecordException("a number does not end")

    def text(self) -> bytes | None:
        """Bytes behind their length; a negative one means none."""
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
