"""Streams of RabbitMQ keep the broker contract, with their places in a store of ours."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.brokers.portable import PortableLog
from app.errors import PositionOutOfRange
from app.interfaces import Commit
from app.model.message import Partition
from app.model.start import EARLIEST, LATEST, StartAt
from app.store import SqlStore
from broker_contract import BrokerContract
from contract_records import RecordCases
from contract_running import OutageCase
from contract_tools import (
    assigned,
    bodies,
    closing,
    fresh_group,
    nothing_comes,
    publish,
    take,
    text,
)
from rabbitmq_harness import StreamHarness, channel_to
from rabbitmq_server import RabbitServer
from store_samples import opened_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened_store(tmp_path) as store:
        yield store


@pytest.mark.rabbitmq
class TestRabbitStreams(BrokerContract):
    """The same cases on streams: groups with places of their own, kept by us."""

    at_night = (RecordCases,)  # records are written as to queues

    @pytest.fixture
    async def harness(self, rabbitmq: str, store: SqlStore) -> AsyncIterator[StreamHarness]:
        async with closing(StreamHarness(rabbitmq, store)) as harness:
            yield harness

    async def test_what_was_read_can_be_read_again_from_any_position(
        self, harness: StreamHarness, log: PortableLog
    ) -> None:
        """Peek, tail and replay; positions are the offsets that the broker gave."""
        topic = await harness.fresh_topic(log, 1)
        await publish(log, topic, [text(str(n)) for n in range(2_500)])
        place = Partition(topic, 0)
        everything = [message async for message in log.read(place, "0")]
        assert bodies(everything) == [b"%d" % n for n in range(2_500)]
        some = log.read(place, everything[3].position, everything[1_900].position)
        assert bodies([m async for m in some]) == [b"%d" % n for n in range(3, 1_900)]
        assert await log.position_back(place, 2) == everything[-2].position
        rest = log.read(place, everything[-2].position)
        assert bodies([m async for m in rest]) == [b"2498", b"2499"]
        assert [m async for m in log.read(place, "2500")] == []
        start = StartAt("position", positions={0: "2498"})
        consumer = await log.subscribe(fresh_group(), [topic], start)
        assert bodies(await take(consumer, 2)) == [b"2498", b"2499"]
        await consumer.close()

    async def test_a_member_that_lost_its_partition_commits_nothing_and_gives_it_up(
        self, harness: StreamHarness
    ) -> None:
        """Rule 5: the store refuses a stale epoch, and the newer owner's place stands. Two owners send for at most the lease
        (guarantees), although the broker tells the member nothing."""
        log, offsets = await harness.make_log(balance_interval=60.0), harness.store.offsets
        topic, group = await harness.fresh_topic(log, 2), fresh_group()
        await publish(log, topic, [text(str(n), f"key {n}") for n in range(16)])
        consumer = await log.subscribe(group, [topic], EARLIEST)
        messages = await take(consumer, 16)
        places = place, other = Partition(topic, 0), Partition(topic, 1)
        ours, theirs = ([m for m in messages if m.partition == each] for each in (other, place))
        newer = 1  # its number says nothing
        await offsets.own_offsets("rabbit", group, newer, [place])
        await offsets.save_offsets("rabbit", group, newer, {place: Commit(1)})
        await consumer.settle(messages)
        await consumer.commit()
        stored = {place: Commit(1), other: Commit(len(ours))}
        assert await offsets.offsets("rabbit", group, places) == stored
        assert [consumer.holds(each) for each in (ours[0], theirs[0])] == [True, False]
        again = await take(consumer, len(theirs) - 1)  # no other member has taken the partition
        assert bodies(again) == bodies(theirs[1:])
        await consumer.close()

    async def test_a_place_that_retention_took_stops_the_subscription(
        self, harness: StreamHarness, log: PortableLog
    ) -> None:
        """It says what the log still holds, and guesses nothing (rule 10)."""
        topic = await harness.fresh_topic(log, 1)
        group = fresh_group()
        await publish(log, topic, [text("only")])
        await harness.store.offsets.start_offsets(
            "rabbit", group, {Partition(topic, 0): Commit(99)}
        )
        with pytest.raises(PositionOutOfRange) as raised:
            await take(await log.subscribe(group, [topic], EARLIEST), 1)
        assert (raised.value.earliest, raised.value.latest) == ("0", "1")

    async def test_a_start_at_a_time_is_taken_to_the_second(
        self, harness: StreamHarness, log: PortableLog
    ) -> None:
        """AMQP asks in whole seconds: up to one earlier, never later, and the end for what is to come."""
        topic = await harness.fresh_topic(log, 1)
        place = Partition(topic, 0)
        await publish(log, topic, [text("x")])
        now = time.time_ns() // 1_000_000
        assert await log.position_at(place, now - 2_000) == "0"
        assert await log.position_at(place, now + 60_000) == "1"

    async def test_a_partition_that_comes_later_begins_at_its_earliest(
        self, harness: StreamHarness
    ) -> None:
        """Whatever the start says: what is published before it is found must not be passed over."""
        log = await harness.make_log()
        topic, group = await harness.fresh_topic(log, 1), fresh_group()
        consumer = await log.subscribe(group, [topic], LATEST)
        await assigned(consumer)
        await consumer.close()
        async with channel_to(harness.address) as channel:
            queue = await channel.declare_queue(
                f"{topic}.1", durable=True, arguments={"x-queue-type": "stream"}
            )
            await queue.bind(topic, "1")
        await log.stop()
        log = await harness.make_log()
        records = [text(str(n), str(n)) for n in range(8)]
        there = sum(receipt.partition for receipt in await publish(log, topic, records))
        assert there, "the new partition takes some"
        consumer = await log.subscribe(group, [topic], LATEST)
        assert len(await take(consumer, 8)) == 8
        await consumer.close()

    async def test_a_store_that_is_away_costs_repeats_and_nothing_else(
        self, harness: StreamHarness, log: PortableLog
    ) -> None:
        """What is not kept is read again; the member goes on, and keeps its place when it can."""
        topic, group = await harness.fresh_topic(log, 1), fresh_group()
        place = Partition(topic, 0)
        consumer = await log.subscribe(group, [topic], EARLIEST)
        await assigned(consumer)
        await harness.store.stop()
        await publish(log, topic, [text(str(n)) for n in range(3)])
        messages = await take(consumer, 3)
        await consumer.settle(messages)
        await consumer.commit()
        await nothing_comes(consumer, 0.5)
        await consumer.close()
        await harness.store.start()
        assert await harness.store.offsets.offsets("rabbit", group, [place]) == {place: Commit(0)}
        again = await log.subscribe(group, [topic], LATEST)
        assert bodies(await take(again, 3)) == [b"0", b"1", b"2"]
        await again.close()


@pytest.mark.rabbitmq
@pytest.mark.fault
@pytest.mark.nightly
class TestRabbitStreamsThatGoesAway(OutageCase):
    """The one case that needs a server to itself. The short form: tests/faults/test_rabbitmq_streams.py."""

    @pytest.fixture
    async def harness(
        self, own_rabbitmq: RabbitServer, store: SqlStore
    ) -> AsyncIterator[StreamHarness]:
        address = own_rabbitmq.address
        async with closing(StreamHarness(address, store, own_rabbitmq)) as harness:
            yield harness
