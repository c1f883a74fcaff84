"""What a Pulsar that dies or stalls does to acknowledged events: nothing."""

from __future__ import annotations

import asyncio
import resource
import time
from pathlib import Path

import pytest

from app.brokers.portable import PortableLog, PublishBounds
from app.brokers.pulsar import open_log
from app.brokers.pulsar.driver import PulsarDriver
from app.errors import BoundReached, BrokerUnavailable
from app.interfaces import PublishResult
from app.model.message import Message
from app.model.start import EARLIEST
from broker_senders import (
    OVERHEAD,
    Sender,
    UnconfirmedSender,
    make_topic,
    now_ms,
    progress,
    record,
    until_stored,
    verify,
)
from contract_tools import (
    CALM,
    assigned,
    bodies,
    fresh_group,
    publish,
    take,
    text,
    until_healthy,
    until_owned,
)
from pulsar_readback import read_back, send_batch
from pulsar_server import PulsarServer

pytestmark = [
    pytest.mark.nightly,  # a Pulsar of its own takes longer to start than the test
    pytest.mark.pulsar,
    pytest.mark.fault,
]

PARTITIONS = 4
KEYS = 32  # enough for every partition


async def open_started(server: PulsarServer, bounds: PublishBounds) -> PortableLog:
    log = open_log(
        name="pulsar", service_url=server.service_url, admin_url=server.admin_url, bounds=bounds,
        send_timeout=bounds.publish_timeout, operation_timeout=30.0, connect_timeout=30.0,
    )  # fmt: skip
    await log.start()
    return log


class TestABrokerThatIsKilled:
    @pytest.mark.parametrize(("kills", "events"), [(1, 1_000), (3, 20_000)])
    async def test_nothing_acknowledged_is_lost_and_nothing_refused_is_sent_later(
        self, own_pulsar: PulsarServer, kills: int, events: int
    ) -> None:
        """Reliability R1 and R20, and rule 9: what was submitted and answered 503 while no server ran was on
        no wire, so it can only be stored if we sent it again. The careless ones are the control: had
        they lost nothing, the fault would be too weak or the judgement blind."""
        log = await open_started(own_pulsar, PublishBounds(publish_timeout=2.0))
        topic = await make_topic(log)
        senders = [Sender(log, topic, f"key-{number}") for number in range(32)]
        careless = [UnconfirmedSender(log, topic, f"careless-{number}") for number in range(4)]
        tasks = [asyncio.create_task(sender.run()) for sender in (*senders, *careless)]
        outages: list[tuple[int, int]] = []
        share = events // (kills + 1)
        for _ in range(kills):
            await progress(senders, by=share)
            await asyncio.to_thread(own_pulsar.kill)
            began = now_ms()
            await asyncio.sleep(3.0)  # the outage outlasts the publish time-out
            assert not (await log.health()).healthy
            outages.append((began, now_ms()))
            await asyncio.to_thread(own_pulsar.restart)
            await until_stored(log, topic, KEYS)
            await until_healthy(log)
        await progress(senders, by=share)
        for sender in (*senders, *careless):
            sender.stopping = True
        await asyncio.gather(*tasks)
        await log.stop()
        stored = await asyncio.to_thread(read_back, own_pulsar.service_url, topic, PARTITIONS)
        verify(senders, stored, outages)
        assert any(sender.refused for sender in senders), "the outage was not felt"
        with pytest.raises(AssertionError, match="an acknowledged event is lost"):
            verify(careless, stored, outages)

    async def test_who_consumes_goes_on_with_what_is_unfinished(
        self, own_pulsar: PulsarServer
    ) -> None:
        """At least once through a broker's death (G1). What was settled may come again: a broker that is killed
        has not stored the acknowledgements of its last second (``managedLedgerDefaultMarkDeleteRateLimit``)."""
        log = await open_started(own_pulsar, CALM)
        topic = await make_topic(log, 1)
        await publish(log, topic, [text(str(n), "k") for n in range(6)])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, 6)
        await consumer.settle([messages[0], messages[2]])
        await consumer.commit()
        await asyncio.to_thread(own_pulsar.kill)
        await asyncio.to_thread(own_pulsar.restart)
        again = await assigned(consumer, within=240.0)
        assert again.epoch > messages[0].epoch
        assert not consumer.holds(messages[1]), "somebody else may have had it meanwhile"
        came: list[bytes | None] = []
        async with asyncio.timeout(240.0):
            while not {b"1", b"3", b"4", b"5"} <= set(came):
                event = await consumer.poll(0.2)
                came += bodies(event) if isinstance(event, tuple) else []
        assert came == sorted(came), "in order, each once more at most"
        assert len(came) == len(set(came))
        await until_stored(log, topic, KEYS)
        await consumer.close()
        await log.stop()


class TestABrokerThatStalls:
    @pytest.mark.parametrize("seconds", [3.0, 20.0])
    async def test_answers_and_memory_stay_bounded_and_it_recovers(
        self, own_pulsar: PulsarServer, seconds: float
    ) -> None:
        """Reliability R7: connections stay open and nobody answers."""
        bounds = PublishBounds(records=2_000, publish_timeout=2.0)
        log = await open_started(own_pulsar, bounds)
        topic = await make_topic(log)
        await until_stored(log, topic, KEYS)
        own_pulsar.pause()
        try:
            before = resident()
            slowest, results = await self._press(log, topic, seconds)
            grown = resident() - before
        finally:
            own_pulsar.resume()
        assert all(isinstance(result, BrokerUnavailable) for result in results)
        assert any(isinstance(result, BoundReached) for result in results)
        assert slowest < bounds.publish_timeout + OVERHEAD
        assert log.stats().records_in_flight <= bounds.records
        assert grown < 64 << 20, f"{grown} bytes of memory more"
        await until_stored(log, topic, KEYS)
        await log.stop()

    async def _press(
        self, log: PortableLog, topic: str, seconds: float
    ) -> tuple[float, list[PublishResult]]:
        """Far more than the bound holds, all the time; the slowest answer and all of them."""
        slowest, results = 0.0, list[PublishResult]()

        async def one(number: int) -> None:
            nonlocal slowest
            began = time.monotonic()
            results.extend(await log.submit(topic, [record(str(number), "x" * 1_000)]))
            slowest = max(slowest, time.monotonic() - began)

        until_then = time.monotonic() + seconds
        async with asyncio.TaskGroup() as tasks:
            while time.monotonic() < until_then:
                for number in range(100):
                    tasks.create_task(one(number))
                await asyncio.sleep(0.02)
        return slowest, results


def resident() -> int:
    """Bytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class TestAMemberThatVanishes:
    async def test_its_partitions_and_open_messages_go_to_another(
        self, own_pulsar: PulsarServer
    ) -> None:
        """No farewell: the connection is cut, as a crash cuts it (G1, one owner a partition)."""
        crashing = await open_started(own_pulsar, CALM)
        staying = await open_started(own_pulsar, CALM)
        topic, group = await make_topic(staying, 2), fresh_group()
        first = await crashing.subscribe(group, [topic], EARLIEST)
        await until_owned(first, 2)
        await publish(staying, topic, [text(str(n), str(n)) for n in range(10)])
        taken: list[Message] = await take(first, 10)
        await first.settle(taken[:3])
        await first.commit()
        driver = crashing.driver
        assert isinstance(driver, PulsarDriver)
        second = await staying.subscribe(group, [topic], EARLIEST)
        await driver._connection().close()
        messages = await take(second, 7)
        assert sorted(bodies(messages)) == sorted(bodies(taken[3:]))
        assert not any(first.holds(message) for message in taken)
        for log, consumer in ((crashing, first), (staying, second)):
            await consumer.close()
            await log.stop()


class TestABrokerThatNobodyTuned:
    """``own_pulsar`` does not acknowledge within batches, as a broker by default does not."""

    async def test_a_batch_of_others_comes_again_as_a_whole_until_all_of_it_is_finished(
        self, own_pulsar: PulsarServer
    ) -> None:
        """More repeats, and nothing lost (G1)."""
        log, group = await open_started(own_pulsar, CALM), fresh_group()
        topic = await make_topic(log, 1)
        await asyncio.to_thread(send_batch, own_pulsar.service_url, f"{topic}-partition-0", 4)
        everything = [b"0", b"1", b"2", b"3"]
        for finished in (slice(0, 2), slice(0, 4)):
            consumer = await log.subscribe(group, [topic], EARLIEST)
            messages = await take(consumer, 4)
            assert bodies(messages) == everything
            await consumer.settle(messages[finished])
            await consumer.close()
        [lag] = (await log.metadata([topic], {group: [topic]})).groups
        assert lag.lag == 0
        await log.stop()
