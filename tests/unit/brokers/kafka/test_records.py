"""No record stops its partition, whatever its producer wrote into it."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

import kafka_raw
from app.bindings.record import Record
from app.brokers.kafka.records import FetchedRecords

BAD = (b"bbbb", b"\xff\xfe\x00b")  # a name of four bytes that are not UTF-8
NAMED = "\udcff\udcfe\x00b"
RECORDS = [
    Record(b"k", (("aaaa", b"1"),), b"one"),
    Record(b"k", (("bbbb", b"2"), ("nothing", None), ("bbbb", b"3")), None),
    Record(None, (), b""),
]


def batch(base: int, *, bad: bool) -> bytes:
    raw = bytearray(kafka_raw.batch(RECORDS, BAD if bad else (b"bbbb", b"BBBB")))
    raw[:8] = base.to_bytes(8, "big")  # outside of what the checksum covers
    return bytes(raw)


def read(raw: bytes, start: int = 0, aborted: list[Any] | None = None) -> list[Any]:
    return list(FetchedRecords(raw, aborted, start))


def test_a_name_that_is_not_utf8_is_kept_with_everything_around_it() -> None:
    """Key, null body, null header and the headers' order: as they were."""
    _, odd, last = read(batch(0, bad=True))
    assert (odd.key, odd.value) == (b"k", None)
    assert odd.headers == ((NAMED, b"2"), ("nothing", None), (NAMED, b"3"))
    assert (last.key, last.value, tuple(last.headers)) == (None, b"", ())
    assert (odd.offset, odd.timestamp) == (1, 1_001)


@pytest.mark.parametrize("start", range(3))
def test_each_record_is_handed_out_once_wherever_the_odd_one_stands(start: int) -> None:
    """Beginning again must not begin at the beginning (rule 2 allows duplicates, and asks for few)."""
    raw = batch(0, bad=False) + batch(3, bad=True) + batch(6, bad=True)
    assert [record.offset for record in read(raw, start)] == list(range(start, 9))


def test_a_batch_cut_off_at_the_end_of_a_fetch_is_left_for_the_next_one() -> None:
    """Brokers end an answer where its bound is, not where a batch is."""
    raw = batch(0, bad=True) + batch(3, bad=True)
    assert [record.offset for record in read(raw[:-5])] == [0, 1, 2]
    assert [record.offset for record in read(raw[: len(raw) // 2 + 4])] == [0, 1, 2]


def test_what_a_transaction_took_back_stays_out_beside_an_odd_record() -> None:
    """What is known of aborted transactions outlives the second look."""
    builder = DefaultRecordBatchBuilder(2, 0, 1, 77, 0, 0, 1 << 20)  # transactional, producer 77
    builder.append(0, 1_000, None, b"taken back", [])
    taken_back = bytearray(builder.build())
    taken_back[:8] = (3).to_bytes(8, "big")
    raw = batch(0, bad=True) + bytes(taken_back) + batch(4, bad=True)
    assert [record.offset for record in read(raw, aborted=[(77, 3)])] == [0, 1, 2, 4, 5, 6]


def test_a_damaged_batch_is_still_called_damaged() -> None:
    """Patience is for names, not for bits that flipped."""
    raw = bytearray(batch(0, bad=True))
    raw[-1] ^= 1
    with pytest.raises(CorruptRecordException):
        read(bytes(raw))


@pytest.mark.parametrize("length", [-(1 << 31), -12, -1, 0, 13])
def test_a_length_that_no_batch_has_is_damage(length: int) -> None:
    """A negative length would be read without end."""
    raw = batch(0, bad=False)
    with pytest.raises(CorruptRecordException):
        read(raw + raw[:8] + length.to_bytes(4, "big", signed=True) + raw[12:])


@pytest.mark.parametrize("control", [0x00, 0x20], ids=["data", "control"])
@pytest.mark.parametrize("codec", [1, 2, 3, 4, 7])
def test_compressed_data_that_no_codec_can_read_is_damage(codec: int, control: int) -> None:
    """The checksum is right, so the producer wrote it so. Every codec raises errors of its own."""
    raw = bytearray(
        batch(0, bad=False)[:61] + b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\0\0\0\x02ab" + bytes(20)
    )
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[22] = codec | control
    raw[43:51] = bytes(8)  # a producer id, as transactions have
    raw[17:21] = calc_crc32c(bytes(raw[21:])).to_bytes(4, "big")
    with pytest.raises(CorruptRecordException):
        read(bytes(raw))


def test_a_batch_that_names_too_small_a_last_offset_moves_nothing_back() -> None:
    """Otherwise its last records would be read again without end."""
    raw = bytearray(batch(0, bad=False))
    raw[23:27] = bytes(4)  # the last offset, as a difference to the first one
    raw[17:21] = calc_crc32c(bytes(raw[21:])).to_bytes(4, "big")
    records = FetchedRecords(bytes(raw), None, 0)
    assert [record.offset for record in records] == [0, 1, 2]
    assert records.next_fetch_offset == 3
