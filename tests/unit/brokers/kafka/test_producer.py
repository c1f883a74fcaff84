"""A shipment that ends in the middle: nothing of it may be forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.bindings.record import Record
from app.brokers.kafka import producer as module
from app.brokers.kafka.batcher import TopicBatchers
from app.brokers.kafka.producer import KafkaPublisher
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.portable import Submission

SETTINGS = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1")


class Ledger:
    def release(self, submission: Submission) -> None:
        if not submission.done():
            submission.set_result(submission.results)


class Batch:
    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def append(self, *, value: bytes | None, **_: object) -> object:
        self.values.append(value)
        return object()

    def size(self) -> int:
        return len(self.values)

    def close(self) -> None:
        """Nothing more goes in."""


class Connection:
    """A client that fails in a way of its own, or takes what it is given."""

    def __init__(self, failure: Exception | None) -> None:
        self.tainted = False
        self.sent: list[list[bytes | None]] = []
        self._failure = failure

    def leader(self, _place: object) -> int:
        return 1

    def create_batch(self) -> Batch:
        return Batch()

    async def send_batch(self, batch: Batch, _place: object) -> asyncio.Future[Any]:
        if self._failure is not None:
            raise self._failure
        self.sent.append(batch.values)
        self.tainted = True  # ends the test's loop
        return asyncio.get_running_loop().create_future()


def submitted(body: bytes) -> Submission:
    made = Submission(loop=asyncio.get_running_loop())
    made.owner, made.topic, made.size = Ledger(), "orders", 0
    made.records, made.results, made.open = [Record(b"k", (), body)], [None], 1
    return made


async def test_what_a_failed_shipment_held_goes_out_with_the_next_connection() -> None:
    """Else its partition would stand still for ever, and its records count as under way (rule 8)."""
    producer = KafkaPublisher(SETTINGS)
    producer.topics.known["orders"] = TopicBatchers("orders", 1)
    first, second = submitted(b"1"), submitted(b"2")
    producer.publish(first)
    async with asyncio.timeout(60):
        await producer._ship_until_tainted(Connection(RuntimeError("a bug of the client")))
        producer.publish(second)
        healthy = Connection(None)
        await producer._ship_until_tainted(healthy)
    assert healthy.sent == [[b"1", b"2"]]


async def test_a_record_that_comes_while_another_is_refused_is_in_one_batch_alone() -> None:
    """A connection's next request may publish in the step that tells the last one of its refusal. Its partition
    must not be queued again meanwhile, or two batches would be told the fate of the first (rule 1)."""
    producer = KafkaPublisher(SETTINGS)
    topic = producer.topics.known["orders"] = TopicBatchers("orders", 1)
    topic.learn(too_large=50)
    second = submitted(b"2")

    class Publishing(Ledger):
        def release(self, submission: Submission) -> None:
            super().release(submission)
            producer.publish(second)

    first = submitted(b"1" * 60)
    first.owner = Publishing()
    producer.publish(first)
    client = Connection(None)
    async with asyncio.timeout(60):
        await producer._ship_until_tainted(client)
    (lane,) = topic.batchers
    assert client.sent == [[b"2"]]
    assert (lane.waiting, producer._waiting) == (False, [])


async def test_a_partition_without_a_leader_holds_back_itself_alone() -> None:
    """Also when its records were told that their time is over: the others keep their producer."""
    producer = KafkaPublisher(SETTINGS)
    topic = producer.topics.known["orders"] = TopicBatchers("orders", 2)

    class Leaderless(Connection):
        asked = 0

        def leader(self, place: Any) -> int | None:  # type: ignore[override]
            return None if place.partition == 0 else 1

        def refresh(self) -> None:
            self.asked += 1

    stuck, well = submitted(b"stuck"), submitted(b"well")
    for lane, each in zip(topic.batchers, (stuck, well), strict=True):
        lane.queue.append((each, 0, each.records[0]))
        producer._await_turn(lane)
    stuck.set_result([])  # its time is over
    client = Leaderless(None)
    await producer._ship(client, producer._waiting[:])
    assert client.sent == [[b"well"]]
    assert client.asked == 1
    assert stuck.open == 0  # out of the bounds


async def test_an_error_that_nobody_expects_ends_no_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else every publish would wait for its time-out from then on, until a restart."""
    opened = 0
    again = asyncio.Event()

    class Failing:
        def __init__(self, *_: object) -> None:
            self.tainted = False

        async def open(self) -> None:
            nonlocal opened
            opened += 1
            if opened > 1:
                again.set()
            raise KeyError("a bug of the client")

        async def close(self) -> None:
            """Was never open."""

    monkeypatch.setattr(module, "ProducerConnection", Failing)
    producer = KafkaPublisher(SETTINGS)
    async with asyncio.timeout(60):
        await producer.start()
        assert "a bug" in (await producer.health()).cause
        await again.wait()
        await producer.stop()
