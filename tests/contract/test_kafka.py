"""Kafka keeps the broker contract: the real server, the same cases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.bindings.record import Record
from app.brokers.portable import PortableLog, PublishBounds
from app.errors import BrokerUnavailable, PositionOutOfRange
from app.model.message import Partition
from app.model.receipt import Receipt
from app.model.start import EARLIEST, LATEST
from app.routing.partitions import partition_of
from broker_contract import BrokerContract
from contract_running import OutageCase
from contract_tools import (
    ANSWERED_WITHIN,
    AT_ONCE,
    PATIENCE,
    assigned,
    bodies,
    closing,
    fresh_group,
    publish,
    take,
    text,
)
from contract_topics import ForeignTopicCases
from kafka_harness import KafkaHarness, open_calm_log
from kafka_librdkafka import add_partitions, delete_before
from kafka_server import KafkaServer, run_tool


@pytest.fixture
async def harness(kafka: str) -> AsyncIterator[KafkaHarness]:
    async with closing(KafkaHarness(kafka)) as harness:
        yield harness


@pytest.mark.kafka
class TestKafka(BrokerContract):
    pass


@pytest.mark.kafka
@pytest.mark.fault
@pytest.mark.nightly
class TestKafkaThatGoesAway(OutageCase):
    """The one case that needs a server to itself. The short form: TestKafkaThatComesLate."""

    @pytest.fixture
    async def harness(self, own_kafka: KafkaServer) -> AsyncIterator[KafkaHarness]:
        async with closing(KafkaHarness(own_kafka.bootstrap_servers, own_kafka)) as harness:
            yield harness


@pytest.mark.kafka
class TestKafkaAlone(ForeignTopicCases):
    """What no other log has: the server's own tools as a second opinion, and its own faults."""

    async def add_partitions(self, harness: KafkaHarness, topic: str, count: int) -> None:
        await asyncio.to_thread(add_partitions, harness.bootstrap_servers, topic, count)

    async def test_kafkas_own_consumer_sees_what_was_published(
        self, kafka: str, harness: KafkaHarness, log: PortableLog
    ) -> None:
        """Key, headers, a null header and a null body, by a client that shares no code with ours."""
        topic = await harness.fresh_topic(log, 1)
        headers = (("ce_id", b"1"), ("nothing", None), ("ce_id", b"2"))
        await publish(log, topic, [Record(b"k", headers, b"body"), Record(b"gone", (), None)])
        shown = [
            word
            for name in ("key", "headers")
            for word in ("--formatter-property", f"print.{name}=true")
        ]
        where = ["--bootstrap-server", kafka, "--topic", topic, "--from-beginning"]
        text = await asyncio.to_thread(
            run_tool, "consumer.ConsoleConsumer", [*where, "--max-messages", "2", *shown]
        )
        assert text.splitlines() == [
            "ce_id:1,nothing:null,ce_id:2\tk\tbody",
            "NO_HEADERS\tgone\tnull",
        ]

    async def test_what_kafkas_own_producer_writes_is_consumed(
        self, kafka: str, harness: KafkaHarness, log: PortableLog
    ) -> None:
        """A key it wrote lands where ours would."""
        topic = await harness.fresh_topic(log, 4)
        lines = b"".join(b"key-%d:body-%d\n" % (n, n) for n in range(20))
        properties = [
            word
            for setting in ("parse.key=true", "key.separator=:")
            for word in ("--reader-property", setting)
        ]
        where = ["--bootstrap-server", kafka, "--topic", topic]
        await asyncio.to_thread(run_tool, "ConsoleProducer", [*where, *properties], stdin=lines)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        for message in await take(consumer, 20):
            assert message.record.key is not None
            assert message.partition.number == partition_of(message.record.key, 4)
        await consumer.close()

    async def test_a_position_that_retention_took_stops_the_subscription(
        self, kafka: str, harness: KafkaHarness, log: PortableLog
    ) -> None:
        """It says what the log still holds, and guesses nothing (rule 10)."""
        topic = await harness.fresh_topic(log, 1)
        group = fresh_group()
        await publish(log, topic, [text(str(n)) for n in range(5)])
        consumer = await log.subscribe(group, [topic], EARLIEST)
        await consumer.settle((await take(consumer, 5))[:1])
        await consumer.close()
        await asyncio.to_thread(delete_before, kafka, topic, 3)
        consumer = await log.subscribe(group, [topic], EARLIEST)
        with pytest.raises(PositionOutOfRange) as raised:
            await take(consumer, 1)
        assert (raised.value.earliest, raised.value.latest) == ("3", "5")
        await consumer.close()

    @pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
    async def test_compressed_batches_come_out_as_they_went_in(
        self, harness: KafkaHarness, compression: str
    ) -> None:
        """The codecs come from a package of their own: each must be there and fit."""
        log = await harness.make_log(compression=compression)
        topic = await harness.fresh_topic(log, 1)
        await publish(log, topic, [text("x" * 10_000, "k") for _ in range(20)])
        messages = [message async for message in log.read(Partition(topic, 0), "0")]
        assert bodies(messages) == [b"x" * 10_000] * 20

    async def test_a_second_member_does_not_move_a_start_that_is_in_use(
        self, harness: KafkaHarness, log: PortableLog
    ) -> None:
        """Both resolve `latest`, at different times: only the first may decide (rule 10)."""
        topic = await harness.fresh_topic(log, 2)
        group = fresh_group()
        first = await log.subscribe(group, [topic], LATEST)
        await assigned(first)
        await publish(log, topic, [text("between", "k")])
        second = await log.subscribe(group, [topic], LATEST)
        await first.close()
        assert bodies(await take(second, 1)) == [b"between"]
        await second.close()

    async def test_nothing_is_handed_out_between_a_revocation_and_the_next_assignment(
        self, harness: KafkaHarness
    ) -> None:
        """Whoever was told to forget his partitions must not be given more of them (rule 5)."""
        log = await harness.make_log(max_poll_records=10)
        topic = await harness.fresh_topic(log, 2)
        await publish(log, topic, [text(str(n), str(n)) for n in range(2_000)])
        group = fresh_group()
        first = await log.subscribe(group, [topic], EARLIEST)
        await take(first, 10)
        joining = await log.subscribe(group, [topic], EARLIEST)
        story: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while "Revoked" not in story or story[-1] != "messages":
                event = await first.poll(0.2)
                kind = "messages" if isinstance(event, tuple) else type(event).__name__
                if event is not None and story[-1:] != [kind]:
                    story.append(kind)
        assert story == ["messages", "Revoked", "Assigned", "messages"]
        await asyncio.gather(first.close(), joining.close())


@pytest.mark.kafka
@pytest.mark.fault
@pytest.mark.nightly
class TestKafkaThatComesLate:
    async def test_it_starts_without_its_broker_and_heals_by_itself(
        self, own_kafka: KafkaServer
    ) -> None:
        """Start-up order is nobody's burden (reliability R20): not ready with a cause, then ready."""
        own_kafka.kill()
        log = open_calm_log(name="kafka", bootstrap_servers=own_kafka.bootstrap_servers)
        began = asyncio.get_running_loop().time()
        await log.start()
        health = await log.health()
        assert not health.healthy
        assert own_kafka.bootstrap_servers in health.cause
        (result,) = await log.submit("t", [text("x")])
        assert isinstance(result, BrokerUnavailable)
        with pytest.raises(BrokerUnavailable):
            await log.subscribe(fresh_group(), ["t"], EARLIEST)
        assert asyncio.get_running_loop().time() - began < AT_ONCE, (
            "told at once, not after a time-out"
        )
        await asyncio.to_thread(own_kafka.restart)
        async with asyncio.timeout(PATIENCE):
            while not (await log.health()).healthy:
                await asyncio.sleep(0.05)
        topic = await KafkaHarness(own_kafka.bootstrap_servers).fresh_topic(log)
        await publish(log, topic, [text("stored")])
        await log.stop()

    async def test_a_consumer_outlives_its_brokers_restart(self, own_kafka: KafkaServer) -> None:
        """What was settled stays settled, what comes later is handed out; no call waits for ever."""
        log = open_calm_log(name="kafka", bootstrap_servers=own_kafka.bootstrap_servers)
        await log.start()
        topic = await KafkaHarness(own_kafka.bootstrap_servers).fresh_topic(log, 1)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await publish(log, topic, [text("before", "k")])
        await consumer.settle(await take(consumer, 1))
        await consumer.commit()
        await asyncio.to_thread(own_kafka.kill)
        assert not isinstance(await consumer.poll(0.5), tuple)
        async with asyncio.timeout(PATIENCE):
            await consumer.commit()
        await asyncio.to_thread(own_kafka.restart)
        async with asyncio.timeout(PATIENCE):
            while not isinstance((await log.submit(topic, [text("after", "k")]))[0], Receipt):
                await asyncio.sleep(0.05)
        assert bodies(await take(consumer, 1)) == [b"after"]
        await consumer.close()
        await log.stop()

    async def test_closing_ends_soon_when_the_broker_is_gone(self, own_kafka: KafkaServer) -> None:
        """SIGTERM has a bound (rule 11)."""
        log = open_calm_log(
            name="kafka",
            bootstrap_servers=own_kafka.bootstrap_servers,
            request_timeout=5.0,  # a question under way is waited for
            bounds=PublishBounds(drain_timeout=1.0, publish_timeout=ANSWERED_WITHIN),
        )
        await log.start()
        topic = await KafkaHarness(own_kafka.bootstrap_servers).fresh_topic(log, 1)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await publish(log, topic, [text("x")])
        await consumer.settle(await take(consumer, 1))
        own_kafka.kill()
        pending = log.submit(topic, [text("y")])
        async with asyncio.timeout(PATIENCE):
            await consumer.close()
            await log.stop()
        assert isinstance((await pending)[0], BrokerUnavailable)
