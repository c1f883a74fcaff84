"""No frame exceeds the bound of the broker, because the broker would end the connection of all partitions."""

from __future__ import annotations

from typing import cast

import pytest
from pulsar import Result

from app.bindings.record import Record
from app.brokers.pulsar.settings import Batching
from app.brokers.pulsar.wire.connection import MAX_MESSAGE, ProducerEnd, WireConnection
from app.brokers.pulsar.wire.frames import FrameWriter
from app.brokers.pulsar.wire.producer import WireProducer


class Connection:
    """A connection with a bound, which writes nothing."""

    def __init__(self, max_message: int) -> None:
        self.max_message = max_message

    def attach(self, number: int, producer: ProducerEnd) -> None:
        """Take a producer."""

    def wake(self, number: int, producer: ProducerEnd) -> None:
        """Write nothing."""


def producer(batching: Batching, bound: int = MAX_MESSAGE) -> WireProducer:
    connection = cast("WireConnection", Connection(bound))
    return WireProducer(connection, 1, FrameWriter(1, b"p", None), 0, batching, lambda _: None)


@pytest.mark.parametrize(
    "record",
    [
        Record(None, (("CE-Subject", "語".encode() * 5_000),), b""),
        Record(None, tuple((f"CE-{number}", b"") for number in range(400)), b""),
        Record("語".encode() * 300, (), b"x" * 8_000),
    ],
    ids=["long properties", "many properties", "long keys"],
)
def test_a_batch_is_below_the_bound_in_bytes_of_utf_8(record: Record) -> None:
    batching = producer("mixed")
    for _ in range(1_500):
        batching.send(record, lambda *_: None, lambda: False)
    frames = batching.flush()
    assert len(frames) > 1
    assert max(len(each) for each in frames) <= MAX_MESSAGE


def test_a_record_beyond_a_small_bound_is_refused() -> None:
    results: list[Result] = []
    alone = producer("none", bound=64 << 10)
    record = Record(None, (), bytes(100_000))
    alone.send(record, lambda result, _: results.append(result), lambda: False)
    assert results == [Result.MessageTooBig]
    assert alone.flush() == []


@pytest.mark.parametrize("batching", ["none", "mixed"])
def test_a_record_just_below_the_bound_is_sent_alone(batching: Batching) -> None:
    """The broker's bound is that of the record: 10 KiB below it, records were refused that the broker takes."""
    results: list[Result] = []
    bound = 64 << 10
    sender = producer(batching, bound)
    for size in (100, bound - 200, 100):
        sender.send(
            Record(None, (), bytes(size)), lambda result, _: results.append(result), lambda: False
        )
    frames = [len(each) for each in sender.flush()]
    assert results == []
    assert len(frames) == 3
    assert max(frames) <= bound


def test_a_record_whose_name_is_not_utf_8_stops_no_other() -> None:
    """Kafka has such names. The frames of one turn are written together, so an error there would lose them all."""
    alone = producer("none")
    unwritable = Record(None, (("\udce9", b""),), b"")
    alone.send(Record(None, (), b"first"), lambda *_: None, lambda: False)
    with pytest.raises(ValueError, match="surrogates"):
        alone.send(unwritable, lambda *_: None, lambda: False)
    alone.send(Record(None, (), b"last"), lambda *_: None, lambda: False)
    assert len(alone.flush()) == 2
