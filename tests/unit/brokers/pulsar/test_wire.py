"""Pulsar's protocol as bytes: what is written can be read by rules of its own, and what is read may be anything."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from struct import unpack_from
from typing import Any

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from app.bindings.record import Record
from app.brokers.pulsar.messages import build
from app.brokers.pulsar.wire import commands
from app.brokers.pulsar.wire.frames import COMPRESSIONS, FrameWriter
from app.brokers.pulsar.wire.properties import encode
from app.brokers.pulsar.wire.protobuf import MalformedMessage, fields, integer, text, varint

NUMBERS = st.integers(0, (1 << 63) - 1)
TEXTS = st.text(max_size=300)
ASCII = st.text("ab/-1", max_size=100).map(str.encode)  # as nearly all values are
NAMES = st.sampled_from(["CE-Id", "CE-Source", "CE-X-Own"]) | TEXTS
RECORDS = st.builds(
    Record,
    key=st.none() | ASCII | st.binary(max_size=100),
    headers=st.lists(st.tuples(NAMES, ASCII), max_size=5).map(tuple)
    | st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=300)), max_size=5).map(tuple),
    body=st.none() | st.binary(max_size=300),
    time_ms=st.none() | st.integers(-1, 1 << 50),
)


class Reader:
    """A second reading of Protocol Buffers, which shares no code with the first: every field, in order."""

    def __init__(self, data: bytes) -> None:
        self.found: list[tuple[int, Any]] = []
        rest = memoryview(data)
        while rest:
            tag, rest = self._number(rest)
            value: Any
            value, rest = self._number(rest)
            if tag % 8 == 2:
                value, rest = bytes(rest[:value]), rest[value:]
            self.found.append((tag // 8, value))

    @staticmethod
    def _number(rest: memoryview) -> tuple[int, memoryview]:
        size = next(n for n, byte in enumerate(rest) if byte < 128) + 1
        digits = [byte % 128 for byte in rest[:size]]
        return sum(digit * 128**n for n, digit in enumerate(digits)), rest[size:]

    def all(self, field: int) -> list[Any]:
        return [value for number, value in self.found if number == field]

    def one(self, field: int) -> Any:
        (value,) = self.all(field) or (None,)
        return value


class Frame:
    """A frame of records, read by the public description of the protocol."""

    def __init__(self, data: bytes) -> None:
        total, size = unpack_from(">II", data)
        assert len(data) == total + 4
        self.send = Reader(Reader(data[8 : 8 + size]).one(6))
        rest = data[8 + size :]
        assert rest[:2] == b"\x0e\x01"
        (checksum,) = unpack_from(">I", rest, 2)
        assert checksum == crc32c(rest[6:])
        (about,) = unpack_from(">I", rest, 6)
        self.metadata = Reader(rest[10 : 10 + about])
        self.payload = rest[10 + about :]

    def batch(self) -> list[tuple[Reader, bytes]]:
        """Return metadata and payload of each record of a batch."""
        found, rest = [], self.payload
        while rest:
            (size,) = unpack_from(">I", rest)
            metadata = Reader(rest[4 : 4 + size])
            end = 4 + size + metadata.one(3)
            found.append((metadata, rest[4 + size : end]))
            rest = rest[end:]
        return found


def properties(pairs: list[bytes]) -> Mapping[str, str]:
    read = [Reader(each) for each in pairs]
    return {each.one(1).decode(): each.one(2).decode() for each in read}


def writer(compression: str = "") -> FrameWriter:
    return FrameWriter(300, b"standalone-0-7", COMPRESSIONS.get(compression))


@given(NUMBERS)
def test_an_integer_is_read_as_it_was_written(number: int) -> None:
    assert fields(integer(7, number)) == {7: number}
    assert Reader(integer(7, number)).found == [(7, number)]


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        fields(data)
        commands.read(data)
    except MalformedMessage:
        pass
    commands.read_receipt(data)


@given(RECORDS, st.integers(0, 1 << 40), st.integers(1, 1 << 45))
def test_a_record_has_all_of_its_parts(record: Record, sequence: int, now_ms: int) -> None:
    """They are those that the client library would get."""
    message = build(record)
    frame = Frame(writer().single(encode(record), sequence, now_ms))
    assert (frame.send.one(1), frame.send.one(2), frame.send.one(3)) == (300, sequence, None)
    about = frame.metadata
    assert (about.one(1), about.one(2), about.one(3)) == (b"standalone-0-7", sequence, now_ms)
    assert properties(about.all(4)) == (message.properties or {})
    assert len(about.all(4)) == len(message.properties or {})
    key = about.one(6)
    assert (None if key is None else key.decode()) == message.partition_key
    assert about.one(12) == message.event_timestamp
    assert bool(about.one(25)) == (message.content is None)
    assert frame.payload == (message.content or b"")


@given(st.lists(RECORDS, min_size=2, max_size=6))
def test_a_batch_has_its_records_in_their_order(records: list[Record]) -> None:
    messages = [build(each) for each in records]
    encoded = [encode(each) for each in records]
    frame = Frame(writer().batch(encoded, 7, 1))
    assert len(frame.payload) <= sum(each.size for each in encoded)
    assert frame.send.one(3) == frame.metadata.one(11) == len(messages)
    read = frame.batch()
    assert [payload for _, payload in read] == [each.content or b"" for each in messages]
    for (about, _), message in zip(read, messages, strict=True):
        assert properties(about.all(1)) == (message.properties or {})
        key = about.one(2)
        assert (None if key is None else key.decode()) == message.partition_key
        assert about.one(5) == message.event_timestamp
        assert bool(about.one(9)) == (message.content is None)
    keys = {each.partition_key for each in messages}
    outer = frame.metadata.one(6)
    assert (None if outer is None else outer.decode()) == (keys.pop() if len(keys) == 1 else None)


@pytest.mark.parametrize(
    ("name", "number", "plain"),
    [
        ("lz4", 1, lambda data, size: cramjam.lz4.decompress_block(data, output_len=size)),
        ("zlib", 2, lambda data, _: zlib.decompress(data)),
        ("zstd", 3, lambda data, _: cramjam.zstd.decompress(data)),
        ("snappy", 4, lambda data, _: cramjam.snappy.decompress_raw(data)),
    ],
)
def test_a_payload_is_compressed_as_its_metadata_says(name: str, number: int, plain: Any) -> None:
    content = b"the same words again and again " * 50
    frame = Frame(writer(name).single(encode(Record(None, (), content)), 1, 1))
    assert (frame.metadata.one(8), frame.metadata.one(9)) == (number, len(content))
    assert bytes(plain(frame.payload, len(content))) == content
    assert len(frame.payload) < len(content)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_a_receipt_is_read_at_once(producer: int, sequence: int, ledger: int, entry: int) -> None:
    position = integer(1, ledger) + integer(2, entry) + integer(3, 2)
    content = integer(1, producer) + integer(2, sequence) + text(3, position) + integer(4, 9)
    command = integer(1, 7) + text(7, content)
    assert commands.read_receipt(command) == (producer, sequence, ledger, entry)


def test_a_command_that_is_no_receipt_is_not_read_as_one() -> None:
    for command in (integer(1, 18) + text(18, b""), integer(1, 7) + text(7, integer(1, 1)), b""):
        assert commands.read_receipt(command) is None


def test_lengths_beyond_the_table_are_written_too() -> None:
    assert varint((1 << 14) - 1) == b"\xff\x7f"
    assert varint(1 << 14) == b"\x80\x80\x01"
