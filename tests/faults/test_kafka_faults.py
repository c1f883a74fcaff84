"""What a broker that dies, stalls or turns against its producer does to acknowledged events: nothing."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import pytest

from app.brokers.kafka import open_log
from app.brokers.kafka.driver import KafkaDriver
from app.brokers.portable import PortableLog, PublishBounds
from app.errors import BoundReached, BrokerRefused, PublishUnknown
from app.interfaces import Consumer, PublishResult
from app.model.message import Assigned, Lost, Message
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from broker_senders import (
    OVERHEAD,
    Sender,
    assert_refused_alone,
    now_ms,
    progress,
    record,
    until_stored,
)
from contract_tools import CALM
from kafka_librdkafka import Stored, read_back
from kafka_librdkafka import make_topic as made_by_librdkafka
from kafka_server import KafkaServer

pytestmark = [pytest.mark.kafka, pytest.mark.fault]


def make_topic(bootstrap_servers: str, *, partitions: int = 4, **settings: str) -> str:
    """With the broker's own time on each record, so that it tells when it arrived there."""
    topic = f"t-{uuid4().hex[:12]}"
    settings = {"message_timestamp_type": "LogAppendTime"} | settings
    made_by_librdkafka(bootstrap_servers, topic, partitions, **settings)
    return topic


async def open_started(bootstrap_servers: str, bounds: PublishBounds) -> PortableLog:
    log = open_log(
        name="kafka", bootstrap_servers=bootstrap_servers, session_timeout=3.0, bounds=bounds
    )
    await log.start()
    return log


class TestABrokerThatIsKilled:
    @pytest.mark.parametrize(
        ("kills", "events"),
        [
            (1, 1_000),
            pytest.param(3, 20_000, marks=[pytest.mark.nightly]),
            pytest.param(10, 20_000, marks=[pytest.mark.nightly]),
        ],
    )
    async def test_nothing_acknowledged_is_lost_and_nothing_refused_is_sent_later(
        self, own_kafka: KafkaServer, kills: int, events: int
    ) -> None:
        """Reliability R1, and rule 9: after a SIGKILL no connection is left on
        which an event could still be on its way, so an event answered 503 before the restart and
        stored after it can only have been sent again by us."""
        address = own_kafka.bootstrap_servers
        topic = await asyncio.to_thread(make_topic, address)
        log = await open_started(address, PublishBounds(publish_timeout=1.5))
        senders = [Sender(log, topic, f"key-{number}") for number in range(32)]
        tasks = [asyncio.create_task(sender.run()) for sender in senders]
        share = events // (kills + 1)
        restarts: list[int] = []
        for _ in range(kills):
            await progress(senders, by=share)
            await asyncio.to_thread(own_kafka.kill)
            await asyncio.sleep(2.0)  # the outage outlasts the publish time-out
            restarts.append(now_ms())
            await asyncio.to_thread(own_kafka.restart)
            await until_stored(log, topic)
        await progress(senders, by=share)
        for sender in senders:
            sender.stopping = True
        await asyncio.gather(*tasks)
        await log.stop()
        stored = await asyncio.to_thread(read_back, address, topic)
        self._verify(senders, stored, restarts, events)

    def _verify(
        self,
        senders: Sequence[Sender],
        stored: Sequence[Stored],
        restarts: list[int],
        events: int,
    ) -> None:
        bodies = {row.body for row in stored}
        acknowledged = {body for sender in senders for body in sender.acknowledged}
        assert len(acknowledged) >= events
        assert acknowledged <= bodies, "lost"
        refused = {
            body: each.answered for sender in senders for body, each in sender.refused.items()
        }
        assert refused, "the fault was too weak: nothing was answered 503"
        late = [
            row
            for row in stored
            for restart in restarts
            if refused.get(row.body, restart) < restart < row.appended_ms
        ]
        assert late == [], "sent after it was answered 503"
        duplicates = len(stored) - len(bodies) - sum(row.body == "probe" for row in stored)
        assert duplicates <= len(restarts) * len(senders), "more than what was in flight"
        self._verify_order(stored)

    def _verify_order(self, stored: Sequence[Stored]) -> None:
        seen: dict[str, list[str]] = defaultdict(list)
        for row in sorted(stored, key=lambda row: (row.partition, row.offset)):
            if row.body != "probe" and row.body not in seen[row.body[:6]]:
                seen[row.body[:6]].append(row.body)
        for bodies in seen.values():
            assert bodies == sorted(bodies)


@pytest.mark.nightly
class TestABrokerThatStalls:
    async def test_unknown_in_time_and_bounded_and_nothing_queued_goes_out_later(
        self, own_kafka: KafkaServer
    ) -> None:
        """Reliability R7 and rules 8 and 9: a stopped broker keeps its connections open. Only what
        was on the wire when it stopped may still appear."""
        address = own_kafka.bootstrap_servers
        topic = await asyncio.to_thread(make_topic, address, partitions=1)
        bounds = PublishBounds(publish_timeout=1.0, records=300, retry_after=2.0)
        log = await open_started(address, bounds)
        await until_stored(log, topic)
        own_kafka.pause()
        began = time.monotonic()
        on_the_wire = log.submit(topic, [record("a", "on the wire")])
        await asyncio.sleep(0.3)
        queued = [log.submit(topic, [record("a", f"queued {n}")]) for n in range(500)]
        results = [result for (result,) in await asyncio.gather(on_the_wire, *queued)]
        assert time.monotonic() - began < bounds.publish_timeout + 0.3 + OVERHEAD
        assert {type(result) for result in results} == {PublishUnknown, BoundReached}
        assert {result.retry_after for result in results} == {2.0}
        assert log.stats().records_in_flight <= bounds.records
        await asyncio.sleep(1.0)  # stalled for longer than anybody waits
        own_kafka.resume()
        await until_stored(log, topic)
        await log.stop()
        assert log.stats().records_in_flight == 0
        stored = {row.body for row in await asyncio.to_thread(read_back, address, topic)}
        assert stored <= {"probe", "on the wire"}


@pytest.mark.nightly
class TestAProducerThatIsOfNoUse:
    @pytest.fixture
    async def log(self, kafka: str) -> AsyncIterator[PortableLog]:
        log = await open_started(kafka, CALM)
        yield log
        await log.stop()

    async def test_out_of_sequence_is_cured_by_a_new_producer(
        self, kafka: str, log: PortableLog
    ) -> None:
        """Reliability 5.1: with one gap in its numbers a producer id fails for ever."""
        topic = await asyncio.to_thread(make_topic, kafka, partitions=1)
        await until_stored(log, topic)
        before = self._producer_id(log, topic)
        self._skip_sequence_numbers(log, topic)
        results = await asyncio.gather(
            *(log.submit(topic, [record("k", f"event {n}")]) for n in range(20))
        )
        assert all(isinstance(result, Receipt) for (result,) in results)
        assert self._producer_id(log, topic) != before
        rows = await asyncio.to_thread(read_back, kafka, topic)
        assert [row.body for row in rows if row.body != "probe"] == [
            f"event {n}" for n in range(20)
        ]

    async def test_a_record_too_large_for_its_topic_is_refused_alone(
        self, kafka: str, log: PortableLog
    ) -> None:
        """The broker refuses the whole batch; its neighbours in that batch are no culprits."""
        topic = await asyncio.to_thread(make_topic, kafka, partitions=1, max_message_bytes="20000")
        sent = [record("k", f"small {n}") for n in range(30)]
        sent.insert(11, record("k", "x" * 30_000))
        results = await log.submit(topic, sent)
        assert_refused_alone(results, 11)
        assert self._positions(results) == sorted(self._positions(results))
        producer = self._producer_id(log, topic)
        (again,) = await log.submit(topic, [record("k", "x" * 30_000)])
        assert isinstance(again, BrokerRefused)
        assert self._producer_id(log, topic) == producer, "what is known needs no other producer"

    async def test_a_batch_above_the_topics_bound_is_sent_in_parts(
        self, kafka: str, log: PortableLog
    ) -> None:
        """Many small records are one large batch: that is our doing, not the sender's."""
        topic = await asyncio.to_thread(make_topic, kafka, partitions=1, max_message_bytes="20000")
        for _ in range(2):
            results = await log.submit(topic, [record("k", "y" * 1_000) for _ in range(100)])
            assert all(isinstance(result, Receipt) for result in results)

    def _positions(self, results: Sequence[PublishResult]) -> list[int]:
        return [int(result.position) for result in results if isinstance(result, Receipt)]

    def _sequences(self, log: PortableLog):
        assert isinstance(log.driver, KafkaDriver)
        return log.driver._producer._connection.sequences

    def _batcher(self, log: PortableLog, topic: str):
        return log.driver._producer.topics.known[topic].batchers[0]

    def _producer_id(self, log: PortableLog, topic: str) -> int:
        return self._sequences(log)._next[self._batcher(log, topic)][0]

    def _skip_sequence_numbers(self, log: PortableLog, topic: str) -> None:
        self._sequences(log).count_stored(self._batcher(log, topic), 7)


@pytest.mark.nightly
class TestAConsumerThatWasAsleep:
    async def test_a_zombie_settles_nothing_and_is_told_that_it_lost(self, kafka: str) -> None:
        """Reliability R12: a process stopped for longer than its session wakes up believing that it
        owns its partitions. By its own clock it must know better before it asks anybody."""
        topic = await asyncio.to_thread(make_topic, kafka, partitions=1)
        log = await open_started(kafka, CALM)
        await log.submit(topic, [record("k", "first"), record("k", "second")])
        group = f"faults.{uuid4().hex[:12]}"
        consumer = await log.subscribe(group, [topic], EARLIEST)
        messages, epochs = await self._held(consumer, 2)
        time.sleep(4.5)  # the whole process stands still: no heartbeat leaves
        assert not consumer.holds(messages[0])
        await consumer.settle(messages)
        await consumer.commit()
        again, later = await self._held(consumer, 2)
        assert [message.position for message in again] == [m.position for m in messages]
        assert Lost in map(type, later)
        assert self._epoch(later) > self._epoch(epochs)
        await consumer.close()
        await log.stop()

    def _epoch(self, changes: Sequence[object]) -> int:
        return max(change.epoch for change in changes if isinstance(change, Assigned))

    async def _held(self, consumer: Consumer, count: int) -> tuple[list[Message], list[object]]:
        """Taken, and held still: on a busy machine they can be lost again at once, and come again."""
        messages, changes = await self._take(consumer, count)
        while not consumer.holds(messages[0]):
            messages, more = await self._take(consumer, count)
            changes += more
        return messages, changes

    async def _take(self, consumer: Consumer, count: int) -> tuple[list[Message], list[object]]:
        messages: list[Message] = []
        changes: list[object] = []
        async with asyncio.timeout(240):
            while len(messages) < count:
                event = await consumer.poll(0.2)
                if isinstance(event, tuple):
                    messages += event
                elif event is not None:
                    changes.append(event)
        return messages, changes
