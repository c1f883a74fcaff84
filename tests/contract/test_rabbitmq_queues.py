"""Queues of RabbitMQ that appear, vanish and come back while members and publishers run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import aio_pika
import pytest

from app.brokers.portable import PortableLog
from app.config.load.loader import load
from app.errors import BrokerError, BrokerRefused
from app.features.checks.connections import check_connections
from app.model.message import Partition
from app.model.receipt import Receipt
from app.model.start import EARLIEST, LATEST
from app.routing.partitions import partition_of
from contract_tools import (
    PATIENCE,
    Member,
    bodies,
    closing,
    fresh_group,
    publish,
    take,
    text,
    until_owned,
)
from rabbitmq_harness import RabbitHarness, StreamHarness, channel_to
from store_samples import opened_store
from waiting import until

pytestmark = pytest.mark.rabbitmq

LOOK = 0.3  # seconds between counts
WIDE_LOOK = 6  # of so many one asks for all
QUEUES = {"x-queue-type": "quorum", "x-single-active-consumer": True}
STREAMS = {"x-queue-type": "stream"}


@pytest.fixture(params=["quorum", pytest.param("stream", marks=pytest.mark.nightly)])
async def harness(
    request: pytest.FixtureRequest, rabbitmq: str, tmp_path: Path
) -> AsyncIterator[RabbitHarness]:
    if request.param == "quorum":
        async with closing(RabbitHarness(rabbitmq)) as harness:
            yield harness
    else:
        async with (
            opened_store(tmp_path) as store,
            closing(StreamHarness(rabbitmq, store)) as other,
        ):
            yield other


@pytest.fixture
async def queues(rabbitmq: str) -> AsyncIterator[RabbitHarness]:
    async with closing(RabbitHarness(rabbitmq)) as harness:
        yield harness


@pytest.fixture
async def streams(rabbitmq: str, tmp_path: Path) -> AsyncIterator[StreamHarness]:
    async with opened_store(tmp_path) as store, closing(StreamHarness(rabbitmq, store)) as harness:
        yield harness


async def made(harness: RabbitHarness, topic: str, number: int) -> None:
    """As an operator makes it."""
    kind = STREAMS if isinstance(harness, StreamHarness) else QUEUES
    async with channel_to(harness.address) as channel:
        queue = await channel.declare_queue(f"{topic}.{number}", durable=True, arguments=kind)
        await queue.bind(topic, str(number))


async def deleted(harness: RabbitHarness, *queues: str) -> None:
    async with channel_to(harness.address) as channel:
        for queue in queues:
            await channel.queue_delete(queue)


def keyed(count: int, first: int = 0) -> list:
    return [text(str(n), str(n)) for n in range(first, first + count)]


def key_at(number: int, count: int) -> str:
    return next(str(n) for n in range(1_000) if partition_of(b"%d" % n, count) == number)


async def stored_at_last(log: PortableLog, topic: str, key: str) -> Receipt:
    """As a sender who repeats what is not stored."""
    async with asyncio.timeout(PATIENCE):
        while True:
            (result,) = await log.submit(topic, [text("again", key)])
            if isinstance(result, Receipt):
                return result
            await asyncio.sleep(0.05)


async def lag_of(log: PortableLog, topic: str, group: str) -> list[int | None]:
    return [each.lag for each in (await log.metadata([topic], {group: [topic]})).groups]


def got(member: Member) -> set[bytes | None]:
    return set(bodies(member.messages))


async def test_a_queue_that_appears_is_written_and_read(harness: RabbitHarness) -> None:
    """A gateway that starts counts it at once. The worker reads all that was stored, from its first
    message; the gateway that ran before counts it too."""
    log = await harness.make_log(metadata_age=LOOK)
    topic, group = await harness.fresh_topic(log, 2), fresh_group()
    member = Member(await log.subscribe(group, [topic], LATEST))
    await until(lambda: len(member.owned) == 2)
    await publish(log, topic, keyed(4))
    await made(harness, topic, 2)
    second = await harness.make_log()
    receipts = await publish(second, topic, keyed(12, first=4))
    assert {receipt.partition for receipt in receipts} == {0, 1, 2}
    await until(lambda: got(member) == {b"%d" % n for n in range(16)})
    key = key_at(2, 3)
    async with asyncio.timeout(PATIENCE):
        while (await publish(log, topic, [text("late", key)]))[0].partition != 2:
            await asyncio.sleep(0.05)
    assert member.consumer.trouble == ""
    await member.close()


async def test_what_waits_in_a_queue_that_nobody_reads_yet_is_counted(
    harness: RabbitHarness,
) -> None:
    """A stream without a position is read from its start, in a group that has begun."""
    log = await harness.make_log(metadata_age=LOOK)
    topic, group = await harness.fresh_topic(log, 1), fresh_group()
    consumer = await log.subscribe(group, [topic], EARLIEST)
    await until_owned(consumer, 1)
    await consumer.close()
    await made(harness, topic, 1)
    second = await harness.make_log()
    await publish(second, topic, [text("x", key_at(1, 2)) for _ in range(3)])
    async with asyncio.timeout(PATIENCE):
        while await lag_of(second, topic, group) != [0, 3]:
            await asyncio.sleep(0.05)


async def test_a_gap_hides_nothing_behind_it(harness: RabbitHarness) -> None:
    """Numbers 1 and 4 have no queue: they are named, and the others are written, read and counted."""
    log = await harness.make_log(metadata_age=LOOK)
    topic, group = await harness.fresh_topic(log, 6), fresh_group()
    await log.stop()
    await deleted(harness, f"{topic}.1", f"{topic}.4")
    log = await harness.make_log(metadata_age=LOOK)
    there = {0, 2, 3, 5}
    for number in range(6):
        (result,) = await log.submit(topic, [text(str(number), key_at(number, 6))])
        assert isinstance(result, Receipt if number in there else BrokerRefused)
    consumer = await log.subscribe(group, [topic], EARLIEST)
    assert f"{topic}.1, {topic}.4" in consumer.trouble
    assert f"{topic}.1, {topic}.4" in (await log.check_targets([topic]))[topic]
    assert set(bodies(await take(consumer, 4))) == {b"%d" % n for n in there}
    found = await log.metadata([topic], {group: [topic]})
    assert [each.number for each in found.topics[0].partitions] == sorted(there)
    assert {each.partition for each in found.groups} == there
    await consumer.close()


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 2))]
)
async def test_a_queue_that_vanished_is_made_again_where_the_settings_say_so(
    harness: RabbitHarness, number: int
) -> None:
    """Senders of its keys are told to come again, and can; the rest notices nothing; all is read."""
    log = await harness.make_log(metadata_age=LOOK, create_topics=True, partitions=3)
    topic = f"made-{uuid4().hex[:12]}"
    member = Member(await log.subscribe(fresh_group(), [topic], EARLIEST))
    await until(lambda: len(member.owned) == 3)
    await publish(log, topic, keyed(12))
    await until(lambda: len(got(member)) == 12)
    await deleted(harness, f"{topic}.{number}")
    key = key_at(number, 3)
    assert (await stored_at_last(log, topic, key)).partition == number
    await publish(log, topic, keyed(12, first=20))
    await until(lambda: got(member) >= {b"again", *(b"%d" % n for n in range(20, 32))})
    assert await log.check_targets([topic]) == {}
    await member.close()


async def test_a_publisher_alone_makes_what_vanished(harness: RabbitHarness) -> None:
    """No worker is there that would look. The refusal until then says that it is worth another try."""
    log = await harness.make_log(create_topics=True, partitions=2)
    topic = f"made-{uuid4().hex[:12]}"
    await publish(log, topic, keyed(8))
    await deleted(harness, f"{topic}.1")
    (result,) = await log.submit(topic, [text("x", key_at(1, 2))])
    assert isinstance(result, Receipt) or (isinstance(result, BrokerError) and result.retryable)
    assert (await stored_at_last(log, topic, key_at(1, 2))).partition == 1


async def test_a_topic_whose_exchange_vanished_is_made_again(harness: RabbitHarness) -> None:
    """With the queues that it had, and not with as many as a new topic gets."""
    log = await harness.make_log(metadata_age=LOOK, create_topics=True, partitions=8)
    topic = await harness.fresh_topic(log, 2)
    member = Member(await log.subscribe(fresh_group(), [topic], EARLIEST))
    await publish(log, topic, keyed(8))
    async with channel_to(harness.address) as channel:
        await channel.exchange_delete(topic)
    receipts = [await stored_at_last(log, topic, str(n)) for n in range(8)]
    assert {receipt.partition for receipt in receipts} == {0, 1}
    await until(lambda: len(member.messages) >= 16)
    await member.close()


async def test_a_queue_that_vanished_is_named_until_somebody_makes_it(
    harness: RabbitHarness,
) -> None:
    """Where we may not make it: the others go on, the cause has the cure, and what is stored in it later
    is read from the first message, also what came before a member looked."""
    log = await harness.make_log(metadata_age=LOOK)
    topic = await harness.fresh_topic(log, 3)
    member = Member(await log.subscribe(fresh_group(), [topic], EARLIEST))
    await until(lambda: len(member.owned) == 3)
    await publish(log, topic, keyed(12))
    await until(lambda: len(got(member)) == 12)
    await deleted(harness, f"{topic}.1")
    await until(
        lambda: f"queue {topic}.1: create it, or set topics.create" in member.consumer.trouble
    )
    async with asyncio.timeout(PATIENCE):
        while f"{topic}.1" not in (await log.check_targets([topic])).get(topic, ""):
            await asyncio.sleep(0.05)
    (result,) = await log.submit(topic, [text("lost", key_at(1, 3))])
    assert isinstance(result, BrokerRefused)
    assert result.kind == "unroutable"
    await publish(log, topic, [text("kept", key_at(0, 3))])
    await until(lambda: b"kept" in got(member))
    await made(harness, topic, 1)
    second = await harness.make_log()
    await publish(second, topic, keyed(12, first=20))
    await until(lambda: got(member) >= {b"%d" % n for n in range(20, 32)})
    await until(lambda: member.consumer.trouble == "")
    assert await log.check_targets([topic]) == {}
    await member.close()


async def test_a_topic_without_its_exchange_is_read_to_its_end(harness: RabbitHarness) -> None:
    """Where we may not make it: a member goes on with the queues, and says what is wrong."""
    log = await harness.make_log(metadata_age=LOOK / WIDE_LOOK)
    topic = await harness.fresh_topic(log, 2)
    consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
    await until_owned(consumer, 2)
    await publish(log, topic, keyed(8))
    async with channel_to(harness.address) as channel:
        await channel.exchange_delete(topic)
    await until(lambda: f"no exchange {topic}" in consumer.trouble)
    assert len(await take(consumer, 8)) == 8
    await consumer.close()


async def test_a_stream_in_the_place_of_another_is_read_from_its_start(
    streams: StreamHarness,
) -> None:
    """Nobody saw it change: it holds nothing, and the position is that of the one before."""
    log = await streams.make_log()
    topic, group = await streams.fresh_topic(log, 1), fresh_group()
    consumer = await log.subscribe(group, [topic], EARLIEST)
    await publish(log, topic, keyed(5))
    await consumer.settle(await take(consumer, 5))
    await consumer.close()
    await deleted(streams, f"{topic}.0")
    await made(streams, topic, 0)
    consumer = await log.subscribe(group, [topic], EARLIEST)
    await until_owned(consumer, 1)
    kept = await streams.store.offsets.offsets("rabbit", group, [Partition(topic, 0)])
    assert [each.offset for each in kept.values()] == [0]
    await publish(log, topic, keyed(3, first=10))
    assert bodies(await take(consumer, 3)) == [b"10", b"11", b"12"]
    await consumer.close()


async def test_a_queue_of_a_group_is_made_again_and_one_too_many_is_read(
    queues: RabbitHarness,
) -> None:
    """``partitions`` was larger once: what waits in the queues beyond it is delivered."""
    settings = {"queue": "{topic}.{group}.{partition}", "metadata_age": LOOK}
    topic, group = f"own-{uuid4().hex[:12]}", fresh_group()
    log = await queues.make_log(create_topics=True, partitions=4, **settings)
    consumer = await log.subscribe(group, [topic], EARLIEST)
    await publish(log, topic, [text(str(n), key_at(n, 4)) for n in range(4)])
    await consumer.close()
    await log.stop()
    log = await queues.make_log(partitions=2, **settings)
    member = Member(await log.subscribe(group, [topic], EARLIEST))
    await until(lambda: got(member) == {b"0", b"1", b"2", b"3"})
    await deleted(queues, f"{topic}.{group}.1")
    await until(lambda: Partition(topic, 1) not in member.owned)
    await until(lambda: Partition(topic, 1) in member.owned)
    await publish(log, topic, [text("again", key_at(1, 2))])
    await until(lambda: b"again" in got(member))
    await member.close()


async def test_a_queue_of_others_beside_queues_of_groups(queues: RabbitHarness) -> None:
    """It has one name, whatever the template says: it is read, counted and warned of as without ``{group}``."""
    log = await queues.make_log(
        queue="{topic}.{group}.{partition}", metadata_age=LOOK, create_topics=True
    )
    queue, group = f"foreign-{uuid4().hex[:12]}", fresh_group()
    with pytest.raises(BrokerRefused) as refused:
        await log.subscribe(group, [f"queue:{queue}"], EARLIEST)
    assert str(refused.value).endswith(f"queue {queue}: create it")
    async with channel_to(queues.address) as channel:
        await channel.declare_queue(queue, durable=True, arguments=QUEUES | {"x-max-length": 9})
    await publish(log, f"queue:{queue}", keyed(3))
    assert await lag_of(log, f"queue:{queue}", group) == [3]
    consumer = await log.subscribe(group, [f"queue:{queue}"], EARLIEST)
    assert bodies(await take(consumer, 3)) == [b"0", b"1", b"2"]
    assert len(await log.driver.inspect([f"queue:{queue}"])) == 1
    await consumer.close()


async def test_a_queue_that_another_client_keeps_is_named(queues: RabbitHarness) -> None:
    """The only member of a group cannot own it."""
    log = await queues.make_log(metadata_age=LOOK)
    topic = await queues.fresh_topic(log, 2)
    connection = await aio_pika.connect(f"amqp://guest:guest@{queues.address}/")
    queue = await (await connection.channel()).get_queue(f"{topic}.1")

    async def keep(_: aio_pika.abc.AbstractIncomingMessage) -> None:
        """Neither settles it nor gives it back."""

    await queue.consume(keep)
    consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
    await until(lambda: f"queue {topic}.1 cannot be owned" in consumer.trouble)
    await connection.close()
    await until(lambda: consumer.trouble == "")
    await consumer.close()


async def test_counting_makes_nothing_for_those_who_only_look(queues: RabbitHarness) -> None:
    """``check --connect`` looks, with topics.create too."""
    log = await queues.make_log(create_topics=True, partitions=2)
    topic = await queues.fresh_topic(log, 2)
    await deleted(queues, f"{topic}.0")
    await log.driver.inspect([topic])
    await log.check_targets([topic])
    async with channel_to(queues.address) as channel:
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue(f"{topic}.0", passive=True)


CHECKED = """
version: 1
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  main:
    kind: rabbitmq
    addresses: "{address}"
    queue: "{queue}"
    topics: {{create: {create}, partitions: 2}}
routes: [{{name: all, to: {{broker: main, exchange: amq.topic, routing_key: x}}}}]
subscriptions: [{{id: s, source: {{broker: main, topics: ["{topic}"]}}, sink: "https://example.org/"}}]
"""


async def test_check_names_queues_that_nobody_will_make(
    queues: RabbitHarness, tmp_path: Path
) -> None:
    """One of others that is missing, whatever ``topics.create`` says, and a gap."""
    log = await queues.make_log()
    gap = await queues.fresh_topic(log, 3)
    await deleted(queues, f"{gap}.1")
    none = f"foreign-{uuid4().hex[:12]}"

    async def messages(**settings: str) -> list[str]:
        file = tmp_path / "sky.yaml"
        file.write_text(CHECKED.format(folder=tmp_path, address=queues.address, **settings))
        found = await check_connections(load(file, {}), 60.0)
        return [f"{each.setting}: {each.message}" for each in found.findings]

    at = "subscriptions[0].source.topics[0]: RabbitMQ main has no"
    shared, own = "{topic}.{partition}", "{topic}.{group}.{partition}"
    assert await messages(queue=own, create="true", topic=f"queue:{none}") == [
        f"{at} queue {none}: create it"
    ]
    assert await messages(queue=shared, create="false", topic=gap) == [
        f"{at} queue {gap}.1: create it, or set topics.create"
    ]
    assert await messages(queue=shared, create="true", topic=gap) == []
