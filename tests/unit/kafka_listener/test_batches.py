"""Record batches: what comes in, what goes out, and what is refused."""

from __future__ import annotations

import gzip
import struct
import time
import tracemalloc
from random import Random

import cramjam
import pytest
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.record import Record
from app.formats.content_coding import DecodedTooLarge
from app.formats.kafka_compression import DamagedBatch, expand
from app.kafka_listener.apis import OFFERED
from app.kafka_listener.batch_writing import write_batches
from app.kafka_listener.batches import is_quick, read_batch
from app.kafka_listener.errors import KafkaRequestRefused
from app.kafka_listener.wire import ErrorCode, read_request
from app.log.codec import fields_of
from app.log.sequences import Batch
from app.log.stored_batches import StoredRun
from kafka_batches import batch, read_back
from kafka_capture import HEADERS, frames

MIB = 1 << 20
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

records = st.lists(
    st.builds(
        Record,
        st.none() | st.binary(max_size=20),
        st.lists(
            st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=4
        ).map(tuple),
        st.none() | st.binary(max_size=50),
    ),
    min_size=1,
    max_size=20,
)


def changed(data: bytes, at: int, new: bytes) -> bytes:
    """With a checksum that fits."""
    data = data[:at] + new + data[at + len(new) :]
    return data[:17] + struct.pack(">I", calc_crc32c(data[21:])) + data[21:]


@given(of=records, codec=st.sampled_from(sorted(CODECS.values())))
def test_records_come_in_as_they_were_sent(of: list[Record], codec: int) -> None:
    """Null and empty keys, values and header values apart; repeated headers in their order."""
    assert list(read_batch(batch(of, codec), MIB).records) == of


@given(
    of=st.lists(records, min_size=1, max_size=5),
    base=st.integers(0, 1 << 40),
    limit=st.integers(1, 4_000),
)
def test_records_go_out_as_they_are_kept(of: list[list[Record]], base: int, limit: int) -> None:
    """At their offsets, under the log's time, and as far as the client's bound allows: read in steps, it
    is all there."""
    runs, offset = [], base
    for n, each in enumerate(of):
        runs.append(StoredRun(offset, 5_000 + n // 2, [fields_of(record) for record in each]))
        offset += len(each)
    found, at = [], base
    while at < offset:
        rest = [
            StoredRun(max(run.base, at), run.time_ms, run.records[max(0, at - run.base) :])
            for run in runs
            if run.base + len(run.records) > at
        ]
        written = write_batches(iter(rest), at, limit)
        part = read_back(written.data)
        assert part
        assert written.records == len(part)
        assert len(written.data) <= limit or len(part) == 1
        assert written.after == part[-1][0] + 1
        found += part
        at = written.after
    flat = [(5_000 + n // 2, record) for n, each in enumerate(of) for record in each]
    assert found == [(base + i, time, 1, record) for i, (time, record) in enumerate(flat)]


def test_a_gap_stays_a_gap() -> None:
    """Records that the disk lost do not move the others: offsets are for ever."""
    runs = [
        StoredRun(5, 9, [(None, (), b"a", None)]),
        StoredRun(8, 9, [(None, (), b"b", "text/plain")]),
    ]
    found = read_back(write_batches(iter(runs), 3, MIB).data)
    assert [(offset, record.body) for offset, _, _, record in found] == [(5, b"a"), (8, b"b")]
    assert found[1][3].headers == (("content-type", b"text/plain"),)


def test_captured_batches_hold_what_the_clients_sent() -> None:
    """Every codec of both libraries: their own framing of snappy, lz4 and zstd."""
    codecs = set()
    for _, frame in frames():
        request = read_request(frame, OFFERED)
        if request.api == 0:
            (data,) = [p.records for t in request.payload.topic_data for p in t.partition_data]
            codecs.add(data[22] & 7)
            (record,) = read_batch(data, MIB).records
            assert record == Record(b"key", tuple(HEADERS), b"value " * 30)
    assert codecs == set(CODECS.values())


def test_numbers_of_a_producer_are_read() -> None:
    """And only where there is one."""
    of = [Record(None, (), b"x")] * 3
    assert read_batch(batch(of, 0, 9, 2, 40), MIB).numbers == Batch(9, 2, 40, 3)
    assert read_batch(batch(of), MIB).numbers is None


ONE = batch([Record(None, (), b"x" * 100)])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", ErrorCode.invalid_record),
        (ONE[:-1], ErrorCode.corrupt_message),
        (ONE[:40], ErrorCode.corrupt_message),
        (ONE[:-1] + b"y", ErrorCode.corrupt_message),
        (ONE + ONE, ErrorCode.invalid_record),
        (ONE[:16] + b"\1" + ONE[17:], ErrorCode.unsupported_for_message_format),
        (ONE[:16] + b"\0" + ONE[17:], ErrorCode.unsupported_for_message_format),
        (changed(ONE, 21, b"\0\x10"), ErrorCode.invalid_record),
        (changed(ONE, 21, b"\0\x20"), ErrorCode.invalid_record),
        (changed(ONE, 21, b"\0\x07"), ErrorCode.unsupported_compression_type),
        (changed(ONE, 21, b"\0\x04"), ErrorCode.corrupt_message),
        (changed(ONE, 57, b"\0\0\0\0"), ErrorCode.invalid_record),
        (changed(ONE, 23, b"\0\0\0\1"), ErrorCode.invalid_record),
        (changed(changed(ONE, 23, b"\x7f\xff\xff\xfe"), 57, b"\x7f\xff\xff\xff"), ErrorCode.invalid_record),
        (changed(ONE, 61, b"\x03"), ErrorCode.invalid_record),
        (changed(ONE, 43, b"\0" * 8 + b"\xff\xff"), ErrorCode.invalid_record),
        (batch([Record(None, (), b"x" * MIB)]), ErrorCode.message_too_large),
    ],
)  # fmt: skip
def test_what_is_no_batch_is_refused(data: bytes, code: ErrorCode) -> None:
    """Each with the error that tells a client what to do: mend, split, or send again."""
    with pytest.raises(KafkaRequestRefused) as refusal:
        read_batch(data, MIB)
    assert refusal.value.code is code


BOMB = bytes(4 * MIB)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (1, gzip.compress(BOMB)),
        (1, gzip.compress(BOMB[: MIB // 2]) * 3),
        (2, bytes(cramjam.snappy.compress_raw(BOMB))),
        (3, bytes(cramjam.lz4.compress(BOMB))),
        (4, bytes(cramjam.zstd.compress(BOMB))),
    ],
)
def test_little_that_stands_for_much_is_refused(codec: int, data: bytes) -> None:
    """A frame has a bound; what it grows to must have one too (rule 8)."""
    with pytest.raises(DecodedTooLarge):
        expand(codec, data, MIB)
    assert bytes(expand(codec, data, 8 * MIB)).count(0) in {len(BOMB), 3 * MIB // 2}


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (1, gzip.compress(BOMB, mtime=0)[:-9]),
        (1, b"no gzip"),
        (1, gzip.compress(b"x", mtime=0) + b"no gzip"),
        (2, b""),
        (2, b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", -4)),
        (2, b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", 1 << 30)),
        (2, b"\x82SNAPPY\0" + bytes(8) + b"\0"),
        (3, b""),
        (3, bytes(cramjam.lz4.compress(BOMB))[:-9]),
        (4, b"\xff" * 40),
    ],
)
def test_what_no_codec_wrote_is_said_to_be_damaged(codec: int, data: bytes) -> None:
    """A length that points backwards would never end."""
    with pytest.raises(DamagedBatch):
        expand(codec, data, 8 * MIB)


def test_members_of_gzip_are_read_as_they_come() -> None:
    """What is behind a member is not copied for each: that would be the square of what came."""
    member = gzip.compress(Random(1).randbytes(8 * MIB), compresslevel=0)

    def took(data: bytes) -> float:
        begun = time.thread_time()
        assert len(expand(1, data, 9 * MIB)) == 8 * MIB
        return time.thread_time() - begun

    alone, behind_others = took(member), took(gzip.compress(b"") * 999 + member)
    assert behind_others < 10 * alone


def test_members_of_gzip_are_bounded_in_number() -> None:
    """Each costs, also when it is empty."""
    empty = gzip.compress(b"")
    assert bytes(expand(1, gzip.compress(b"a") + empty * 999, MIB)) == b"a"
    with pytest.raises(DamagedBatch, match="1000 gzip members"):
        expand(1, empty * 1_001, MIB)


def made(*records: tuple[int, int]) -> bytes:
    """A batch of records with so many bytes of value and so many headers, each of two bytes."""
    body = b""
    for delta, (size, headers) in enumerate(records):
        parts = (
            *map(number, (0, delta, -1, size)),
            bytes(size),
            number(headers),
            b"\0\0" * headers,
        )
        inner = b"\0" + b"".join(parts)
        body += number(len(inner)) + inner
    checked = struct.pack(">hiqqqhii", 0, len(records) - 1, 0, 0, -1, -1, -1, len(records)) + body
    return struct.pack(">qiibI", 0, len(checked) + 9, 0, 2, calc_crc32c(checked)) + checked


def number(value: int) -> bytes:
    """As a variable length, zigzag."""
    left, out = value << 1 if value >= 0 else -2 * value - 1, b""
    while left >= 0x80:
        out += bytes([left & 0x7F | 0x80])
        left >>= 7
    return out + bytes([left])


MANY = made((0, 600_000))


@pytest.mark.parametrize(
    "data",
    [
        MANY,
        made((10, 1), (2 * MIB, 3), (0, 600_000), (0, 1)),
        made(*[(0, 60_000)] * 9),
    ],
    ids=range(3),
)
def test_headers_of_a_batch_are_bounded(data: bytes) -> None:
    """Two bytes of a header become eighty here: a batch of some kilobytes, expanded, would take half a gigabyte
    (reliability G4). The error has a client split the batch."""
    with pytest.raises(KafkaRequestRefused) as refusal:
        read_batch(data, 16 * MIB)
    assert refusal.value.code is ErrorCode.message_too_large


def test_a_record_is_read_no_further_than_it_says() -> None:
    """One that says to be of 50 bytes has no room for the headers that it says to have."""
    data = changed(MANY, 61, b"\xe4\x80\x80\0")
    tracemalloc.start()
    with pytest.raises(KafkaRequestRefused) as refusal:
        read_batch(data, 16 * MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refusal.value.code is ErrorCode.invalid_record
    assert peak < 8 * MIB


def test_large_records_with_few_headers_are_taken() -> None:
    of = [(2 * MIB, 3), (0, 400_000), (10, 0), (MIB, 0)]
    read = read_batch(made(*of), 16 * MIB).records
    assert [(len(each.body or b""), len(each.headers)) for each in read] == of


def test_records_of_a_batch_are_bounded() -> None:
    data = changed(ONE + bytes(7 * 500_001), 23, struct.pack(">i", 500_000))
    data = changed(data, 8, struct.pack(">i", len(data) - 12))
    with pytest.raises(KafkaRequestRefused) as refusal:
        read_batch(changed(data, 57, struct.pack(">i", 500_001)), 16 * MIB)
    assert refusal.value.code is ErrorCode.message_too_large


def test_only_what_is_read_quickly_is_read_on_the_loop() -> None:
    """5 ms are the most that it may be held."""
    assert is_quick(ONE)
    assert not is_quick(batch([Record(None, (), b"x" * 100)], CODECS["lz4"]))
    assert not is_quick(batch([Record(None, (), b"")] * 3_000))
    assert not is_quick(batch([Record(None, (), b"x" * 200_000)]))
