"""Record batches (format 2) to records and back. Any thread.

The records themselves are read and written by aiokafka's codec; what stands around them is checked here
first, for what arrives is nobody's own. Checksums are those of ``crc32c``, which the processor computes: aiokafka's
take a third of the time that a record of 1 kB is read in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

import msgspec
from aiokafka.errors import KafkaError
from crc32c import crc32c

from app.bindings.record import Record
from app.brokers.aiokafka_adapter import batch_builder, batches_of
from app.formats.content_coding import DecodedTooLarge
from app.formats.kafka_compression import Damaged, expand
from app.kafka_listener.errors import Refused
from app.kafka_listener.node import LEADER_EPOCH
from app.kafka_listener.wire import ErrorCode
from app.log.codec import Fields
from app.log.sequences import Batch
from app.log.stored_batches import Run

_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH_END = 12  # of base offset and length
_MAGIC = 16
_CRC = 17
_CHECKED = 21  # from here on the checksum counts
_COUNT = Struct(">i")
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ZSTD = 4  # of the codecs
_LONGEST_VARINT = 10
_OFFSET, _EPOCH, _SUM, _ATTRIBUTES = Struct(">q"), Struct(">i"), Struct(">I"), Struct(">h")
FORMAT = 2
QUICK, QUICK_RECORDS = 128 << 10, 500  # bytes and records that are read in a millisecond or two
MERGED = 1_024  # records of one batch, about
RECORD_AT_LEAST = 7  # bytes of a record without key, value and headers
MOST_RECORDS = MOST_HEADERS = 500_000  # of a batch: each takes a hundred bytes here
LARGE = 2 * MOST_HEADERS  # bytes that may hold more headers: one may be two bytes


class Arrived(msgspec.Struct, frozen=True):
    """A batch as a producer sent it. ``numbers``: where the producer is an idempotent one. ``expanded``:
    bytes that it became, where it was compressed."""

    records: tuple[Record, ...]
    numbers: Batch | None
    expanded: int = 0


def declared(data: bytes) -> int:
    """Records that its head says it has: a batch that has others is refused when it is read."""
    if len(data) < _HEADER.size:
        return 0
    (count,) = _COUNT.unpack_from(data, _HEADER.size - _COUNT.size)
    return max(0, int(count))


def is_quick(data: bytes) -> bool:
    """Whether reading it is a matter of a millisecond: small, of few records, and not compressed."""
    if len(data) < _HEADER.size:
        return True
    (count,) = _COUNT.unpack_from(data, _HEADER.size - _COUNT.size)
    few = len(data) <= QUICK and count <= QUICK_RECORDS
    return few and not is_compressed(data)


def is_compressed(data: bytes) -> bool:
    return len(data) >= _HEADER.size and bool(data[_CHECKED + 1] & _CODEC)


def is_zstd(data: bytes) -> bool:
    return len(data) >= _HEADER.size and data[_CHECKED + 1] & _CODEC == _ZSTD


def read_batch(data: bytes, bound: int, room: int | None = None) -> Arrived:
    """The one batch of a partition in a Produce request, of at most ``bound`` bytes, also expanded.
    ``room``: bytes that it may become where it is compressed, if these are fewer. Raises Refused."""
    if len(data) <= _MAGIC:
        raise Refused(ErrorCode.invalid_record, "there is no batch of records")
    if len(data) > bound:
        raise _too_large(bound)
    if data[_MAGIC] != FORMAT:
        raise Refused(
            ErrorCode.unsupported_for_message_format,
            f"messages of format {data[_MAGIC]}: only record batches, of format {FORMAT}, are taken",
        )
    if len(data) < _HEADER.size:
        raise Refused(ErrorCode.corrupt_message, "a batch ends within its header")
    _, length, _, _, crc, attributes, delta, _, _, producer, epoch, first, count = (
        _HEADER.unpack_from(data)
    )
    _check_whole(data, length, crc)
    _check_kind(attributes)
    if count < 1 or delta != count - 1:
        raise Refused(ErrorCode.invalid_record, f"{count} records, numbered up to {delta}")
    codec = attributes & _CODEC
    plain = _expanded(data, codec, bound if room is None else min(bound, room))
    _check_count(plain, count)
    numbers = _numbers(producer, epoch, first, count)
    return Arrived(_records(plain, count), numbers, len(plain) if codec else 0)


def _check_whole(data: bytes, length: int, crc: int) -> None:
    if length < len(data) - _LENGTH_END:
        raise Refused(ErrorCode.invalid_record, "a request may hold one batch of a partition")
    if length > len(data) - _LENGTH_END or crc32c(memoryview(data)[_CHECKED:]) != crc:
        raise Refused(ErrorCode.corrupt_message, "a batch is not what its checksum says")


def _check_kind(attributes: int) -> None:
    if attributes & (_TRANSACTIONAL | _CONTROL):
        raise Refused(ErrorCode.invalid_record, "there are no transactions here")


def _check_count(plain: bytes, count: int) -> None:
    if (len(plain) - _HEADER.size) // RECORD_AT_LEAST < count:
        raise Refused(ErrorCode.invalid_record, f"{count} records cannot be in {len(plain)} bytes")
    if count > MOST_RECORDS:
        raise Refused(ErrorCode.message_too_large, f"a batch of more than {MOST_RECORDS} records")


def _numbers(producer: int, epoch: int, first: int, count: int) -> Batch | None:
    if producer < 0:
        return None
    if epoch < 0 or first < 0:
        raise Refused(ErrorCode.invalid_record, "numbers of a producer are missing")
    return Batch(producer, epoch, first, count)


def _too_large(bound: int) -> Refused:
    return Refused(ErrorCode.message_too_large, f"a batch of more than {bound} bytes")


def _expanded(data: bytes, codec: int, bound: int) -> bytes:
    if not codec:
        return data
    try:
        records = expand(codec, data[_HEADER.size :], bound)
    except KeyError:
        raise Refused(
            ErrorCode.unsupported_compression_type, f"there is no codec {codec}"
        ) from None
    except DecodedTooLarge:
        why = f"a batch would become more than the {bound} bytes that are left to its request"
        raise Refused(ErrorCode.message_too_large, why) from None
    except Damaged as error:
        raise Refused(ErrorCode.corrupt_message, f"a batch cannot be expanded: {error}") from error
    head = bytearray(data[: _HEADER.size])
    head[_CHECKED + 1] &= ~_CODEC & 0xFF
    _set_length(head, len(records))
    return b"".join((head, records))


def _set_length(head: bytearray, records: int) -> None:
    """``records``: their bytes, behind the whole header."""
    _COUNT.pack_into(head, _LENGTH_END - _COUNT.size, _HEADER.size - _LENGTH_END + records)


def _count_headers(plain: bytes, at: int) -> int:
    """As the record that begins there says it, behind its attributes, two deltas, its key and its value."""
    at += 1
    for counts_bytes in (False, False, True, True):
        number, at = _varint(plain, at)
        at += max(0, number) if counts_bytes else 0
    return _varint(plain, at)[0]


def _varint(plain: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends; what does not end is 0, for the codec to refuse."""
    value = shift = 0
    for end in range(at, min(at + _LONGEST_VARINT, len(plain))):
        byte = plain[end]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the top bit says that more follow
            return (value >> 1) ^ -(value & 1), end + 1
        shift += 7
    return 0, at


def _too_many_headers() -> Refused:
    return Refused(
        ErrorCode.message_too_large, f"a batch with more than {MOST_HEADERS} headers of records"
    )


def _records(plain: bytes, count: int) -> tuple[Record, ...]:
    try:
        if len(plain) <= LARGE:
            return tuple(_decoded(plain))
        found: list[Record] = []
        headers = 0
        for part in _parts(plain, count):
            records = _decoded(part)
            headers += sum([len(each.headers) for each in records])
            if headers > MOST_HEADERS:
                raise _too_many_headers()
            found += records
        return tuple(found)
    except (
        KafkaError,
        ValueError,
        IndexError,
        AssertionError,
        OverflowError,
        MemoryError,
    ) as error:
        raise Refused(ErrorCode.invalid_record, f"a record cannot be read: {error}") from error


def _decoded(plain: bytes) -> list[Record]:
    (batch,) = batches_of(plain)
    return [Record(each.key, tuple(each.headers), each.value) for each in batch]


def _parts(plain: bytes, count: int) -> Iterator[bytes]:
    """A large batch as several that are not, but for one of a single large record with few headers: the codec makes
    room for all headers that a record says it has, as far as the bytes reach."""
    head, end = bytearray(plain[: _HEADER.size - _COUNT.size]), _HEADER.size
    while count:
        begin, at, taken = end, end, 0
        while taken < count:
            size, at = _varint(plain, end)
            behind = at + max(0, size)
            if taken and behind - begin > LARGE:
                break
            end, taken = behind, taken + 1
        if end - begin > LARGE and _count_headers(plain, at) > MOST_HEADERS:
            raise _too_many_headers()
        _set_length(head, end - begin)
        yield b"".join((head, _COUNT.pack(taken), plain[begin:end]))
        count -= taken
    if end != len(plain):
        raise ValueError("there are bytes behind the last one")


class Written(msgspec.Struct, frozen=True):
    """``data``: batches one behind the other; the next offset is ``after``."""

    data: bytes
    after: int
    records: int


def write_batches(runs: Iterable[Run], offset: int, limit: int) -> Written:
    """As many records as go into ``limit`` bytes, but one at least, as batches of the log's own time.
    ``offset``: where that begins."""
    parts: list[bytes] = []
    count, room = 0, limit
    for base, time_ms, records in _pieces(runs):
        if parts and room < _HEADER.size:
            break
        batch, taken = _write(base, time_ms, records, room)
        if parts and len(batch) > room:
            break
        parts.append(batch)
        room -= len(batch)
        offset, count = base + taken, count + taken
        if taken < len(records):
            break
    return Written(b"".join(parts), offset, count)


def _pieces(runs: Iterable[Run]) -> Iterator[tuple[int, int, list[Fields]]]:
    """Neighbours of the same time are one: a batch has one time."""
    base, time_ms = 0, 0
    records: list[Fields] = []
    for run in runs:
        if records and run.time_ms == time_ms and run.base == base + len(records) < base + MERGED:
            records = records + run.records
            continue
        if records:
            yield base, time_ms, records
        base, time_ms, records = run.base, run.time_ms, run.records
    if records:
        yield base, time_ms, records


def _write(base: int, time_ms: int, records: list[Fields], room: int) -> tuple[bytes, int]:
    """One batch, and how many of the records went in; one does, whatever the room."""
    builder = batch_builder(max(room, _HEADER.size))
    append = builder.append
    taken = 0
    for key, headers, body, content_type in records:  # hot: the cost of every record
        fields = list(headers)
        if content_type is not None:
            fields.append(("content-type", content_type.encode()))
        if append(taken, time_ms, key, body, fields) is None:
            break
        taken += 1
    batch = builder.build()
    _OFFSET.pack_into(batch, 0, base)
    _EPOCH.pack_into(batch, _LENGTH_END, LEADER_EPOCH)
    _ATTRIBUTES.pack_into(batch, _CHECKED, _APPEND_TIME)
    _SUM.pack_into(batch, _CRC, crc32c(memoryview(batch)[_CHECKED:]))
    return bytes(batch), taken
