"""What a broker that dies, stalls or blocks does to acknowledged events: nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from app.brokers.portable import PortableLog, PublishBounds
from app.brokers.rabbitmq import open_log
from app.errors import BoundReached, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.message import Lost
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from broker_senders import (
    OVERHEAD,
    Sender,
    assert_refused_alone,
    make_topic,
    progress,
    record,
    until_stored,
)
from contract_tools import AT_ONCE, CALM, fresh_group, take, until_healthy
from rabbitmq_readback import read_topic
from rabbitmq_server import RabbitServer
from waiting import until

pytestmark = [pytest.mark.rabbitmq, pytest.mark.fault]

PARTITIONS = 4


async def open_started(address: str, bounds: PublishBounds, **settings) -> PortableLog:
    log = open_log(name="rabbit", addresses=address, bounds=bounds, **settings)
    await log.start()
    return log


async def kill_under_load(
    server: RabbitServer, kills: int, each: int, **settings
) -> tuple[list[Sender], list[list[bytes]]]:
    """Return the senders, and what is stored."""
    log = await open_started(server.address, PublishBounds(publish_timeout=1.5), **settings)
    topic = await make_topic(log)
    await asyncio.to_thread(server.remember)
    senders = [Sender(log, topic, f"key-{number:02d}") for number in range(32)]
    tasks = [asyncio.create_task(sender.run()) for sender in senders]
    for _ in range(kills):
        await progress(senders, by=each)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(2.0)  # the outage outlasts the publish time-out
        assert not (await log.health()).healthy
        await asyncio.to_thread(server.restart)
        await until_stored(log, topic)
        await until_healthy(log)
    await progress(senders, by=each)
    for sender in senders:
        sender.stopping = True
    await asyncio.gather(*tasks)
    await log.stop()
    return senders, await read_topic(server.address, topic, PARTITIONS)


class TestABrokerThatIsKilled:
    @pytest.mark.parametrize(
        ("kills", "events"), [(1, 1_000), pytest.param(3, 20_000, marks=[pytest.mark.nightly])]
    )
    async def test_nothing_acknowledged_is_lost_and_nothing_refused_is_stored(
        self, own_rabbitmq: RabbitServer, kills: int, events: int
    ) -> None:
        """Reliability R1, R2 and R20, and rule 9: whatever was told for certain that it was not stored is
        not there, however late; readiness says so meanwhile."""
        senders, queues = await kill_under_load(own_rabbitmq, kills, events // (kills + 1))
        stored = [body.decode() for queue in queues for body in queue if body != b"probe"]
        acknowledged = {body for sender in senders for body in sender.acknowledged}
        assert len(acknowledged) >= events
        assert acknowledged <= set(stored), "lost"
        answers = {body: told for sender in senders for body, told in sender.refused.items()}
        unknown = {
            body for body, told in answers.items() if isinstance(told.result, PublishUnknown)
        }
        refused = answers.keys() - unknown
        assert refused, "the fault was too weak: nothing was answered 503"
        assert refused.isdisjoint(stored), "stored although it was refused for certain"
        assert set(stored) <= acknowledged | unknown
        duplicates = len(stored) - len(set(stored))
        assert duplicates <= kills * len(senders), "more than what was in flight"
        self._verify_order(queues)

    def _verify_order(self, queues: Sequence[Sequence[bytes]]) -> None:
        for queue in queues:
            seen: dict[str, list[str]] = {}
            for body in dict.fromkeys(body.decode() for body in queue if body != b"probe"):
                seen.setdefault(body[:6], []).append(body)
            for bodies in seen.values():
                assert bodies == sorted(bodies)

    @pytest.mark.nightly
    async def test_without_confirms_acknowledged_events_are_lost(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """The control run: if this kept everything, the test above would prove nothing."""
        senders, queues = await kill_under_load(own_rabbitmq, 1, 1_000, confirms=False)
        stored = {body.decode() for queue in queues for body in queue}
        acknowledged = {body for sender in senders for body in sender.acknowledged}
        assert acknowledged - stored


@pytest.mark.nightly
class TestABrokerThatStalls:
    @pytest.mark.parametrize("seconds", [3.0, pytest.param(20.0, marks=pytest.mark.nightly)])
    async def test_unknown_in_time_and_bounded_and_nothing_queued_goes_out_later(
        self, own_rabbitmq: RabbitServer, seconds: float
    ) -> None:
        """Reliability R7 and rules 8 and 9: a stopped broker keeps its connections open. Only what
        the window had let onto the wire may still appear."""
        bounds = PublishBounds(publish_timeout=1.0, records=300, retry_after=2.0)
        log = await open_started(own_rabbitmq.address, bounds, window=10, request_timeout=2.0)
        topic = await make_topic(log, 1)
        await until_stored(log, topic)
        own_rabbitmq.pause()
        began = time.monotonic()
        pending = [log.submit(topic, [record("a", f"{n}")]) for n in range(500)]
        results = [result for (result,) in await asyncio.gather(*pending)]
        assert time.monotonic() - began < bounds.publish_timeout + OVERHEAD
        assert {type(result) for result in results} == {PublishUnknown, BoundReached}
        assert {result.retry_after for result in results} == {2.0}
        while time.monotonic() < began + seconds:
            asked = time.monotonic()
            (result,) = await log.submit(topic, [record("a", "during")])
            assert isinstance(result, BrokerUnavailable)
            assert time.monotonic() - asked < bounds.publish_timeout + OVERHEAD
            assert log.stats().records_in_flight <= bounds.records
            assert not (await log.health()).healthy
        own_rabbitmq.resume()
        await until_stored(log, topic)
        await log.stop()
        assert log.stats().records_in_flight == 0
        [stored] = await read_topic(own_rabbitmq.address, topic, 1)
        late = [int(body) for body in stored if body.isdigit()]
        assert set(late) <= set(range(10)), "more than the window went out"


def is_full(answer: asyncio.Future) -> bool:
    return isinstance(answer.result()[0], BoundReached)


@pytest.mark.nightly
class TestABrokerThatBlocks:
    async def test_an_alarm_is_a_full_bound_and_ends_by_itself(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """Reliability 5.2: without looking at connection.blocked publishes would hang in silence."""
        log = await open_started(own_rabbitmq.address, CALM)
        topic = await make_topic(log, 1)
        await until_stored(log, topic)
        own_rabbitmq.ctl("set_vm_memory_high_watermark", "0.00001")
        try:
            pending = []  # what went out before we heard of it is answered when the alarm is over
            async with asyncio.timeout(240):
                while not (told := [p for p in pending if p.done() and is_full(p)]):
                    pending.append(log.submit(topic, [record("a", "blocked")]))
                    await asyncio.sleep(0.05)
            assert "memory" in str(told[0].result())
            health = await log.health()
            assert not health.healthy
            assert "memory" in health.cause
            began = time.monotonic()
            await log.submit(topic, [record("a", "at once")])
            assert time.monotonic() - began < AT_ONCE, "it waited for the time-out"
        finally:
            own_rabbitmq.ctl("set_vm_memory_high_watermark", "0.4")
        await until_stored(log, topic)
        await until_healthy(log)
        await log.stop()


@pytest.mark.nightly
class TestAChannelThatIsClosed:
    async def test_a_deleted_exchange_harms_no_neighbour(self, own_rabbitmq: RabbitServer) -> None:
        """Reliability 5.2: one publish to an exchange that is gone fails all in flight on its channel;
        the others go out again, and who is at fault is told 404."""
        log = await open_started(own_rabbitmq.address, CALM)
        gone, stays = await make_topic(log, 1), await make_topic(log, 1)
        for topic in (gone, stays):
            await until_stored(log, topic)
        own_rabbitmq.ctl(
            "eval",
            f'rabbit_exchange:delete(rabbit_misc:r(<<"/">>, exchange, <<"{gone}">>), false, <<"t">>).',
        )
        pending = [
            log.submit(topic, [record("k", f"{topic} {n}")])
            for n in range(50)
            for topic in (gone, stays)
        ]
        results = [result for (result,) in await asyncio.gather(*pending)]
        assert all(isinstance(result, Receipt) for result in results[1::2])
        assert all(isinstance(result, PublishUnknown) for result in results[::2])
        (result,) = await log.submit(gone, [record("k", "again")])
        assert isinstance(result, BrokerRefused)
        assert result.kind == "unknown-topic"
        await log.stop()

    async def test_a_body_above_the_servers_bound_is_refused_alone(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """The server closes the channel for it; its neighbours are no culprits."""
        own_rabbitmq.ctl("eval", "application:set_env(rabbit, max_message_size, 100000).")
        try:
            log = await open_started(own_rabbitmq.address, CALM)
            topic = await make_topic(log, 1)
            sent = [record("k", f"small {n}") for n in range(30)]
            sent.insert(11, record("k", "x" * 100_001))
            results = await log.submit(topic, sent)
            assert_refused_alone(results, 11)
            await log.stop()
        finally:
            own_rabbitmq.ctl("eval", "application:set_env(rabbit, max_message_size, 134217728).")


@pytest.mark.nightly
class TestAConsumerThroughAnOutage:
    async def test_what_was_settled_stays_settled_and_the_rest_comes_again_in_order(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """At least once, in order, through a SIGKILL of the broker; no call waits for ever."""
        log = await open_started(own_rabbitmq.address, CALM, balance_interval=0.1)
        topic = await make_topic(log, 1)
        await log.submit(topic, [record("k", str(n)) for n in range(6)])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, 6)
        await consumer.settle([messages[n] for n in (0, 1, 3)])
        metadata = await log.metadata([topic], {consumer.group: [topic]})
        assert [lag.lag for lag in metadata.groups] == [3]
        await asyncio.to_thread(own_rabbitmq.remember)
        await asyncio.to_thread(own_rabbitmq.kill)
        changes = []
        async with asyncio.timeout(240):
            while not isinstance(changes[-1:] and changes[-1], Lost):
                changes.append(await consumer.poll(0.2))
        assert not consumer.holds(messages[2])
        await consumer.settle(messages)  # void: the epoch is over
        await asyncio.to_thread(own_rabbitmq.restart)
        again = await take(consumer, 3)
        assert [message.record.body for message in again] == [b"2", b"4", b"5"]
        assert again[0].epoch > messages[0].epoch
        await consumer.close()
        await log.stop()

    async def test_what_is_unsettled_for_too_long_is_taken_back_and_comes_again(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """The server closes a channel with a message unsettled for its ``consumer_timeout``: said as a
        loss, and the queue is taken again (ADR 0013, the limit of a long retry)."""
        setting = "application:set_env(rabbit, consumer_timeout, {}),"
        setting += "application:set_env(rabbit, channel_tick_interval, {})."
        own_rabbitmq.ctl("eval", setting.format(1_000, 500))
        try:
            log = await open_started(own_rabbitmq.address, CALM, balance_interval=0.1)
            topic = await make_topic(log, 1)
            await until_stored(log, topic)
            consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
            (message,) = await take(consumer, 1)
            change = None
            async with asyncio.timeout(240):
                while not isinstance(change, Lost):
                    change = await consumer.poll(0.2)
            assert not consumer.holds(message)
            (again,) = await take(consumer, 1)
            assert again.record.body == message.record.body
            assert again.epoch > message.epoch
            await consumer.settle([again])
            await consumer.close()
            await log.stop()
        finally:
            own_rabbitmq.ctl("eval", setting.format(1_800_000, 60_000))

    async def test_closing_ends_soon_when_the_broker_stands_still(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """SIGTERM has a bound (rule 11)."""
        bounds = PublishBounds(drain_timeout=1.0, publish_timeout=2.0)
        log = await open_started(own_rabbitmq.address, bounds, request_timeout=2.0)
        topic = await make_topic(log, 1)
        await until_stored(log, topic)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await consumer.settle(await take(consumer, 1))
        own_rabbitmq.pause()
        pending = log.submit(topic, [record("a", "y")])
        async with asyncio.timeout(240):
            await consumer.close()
            await log.stop()
        assert isinstance((await pending)[0], BrokerUnavailable)
        own_rabbitmq.resume()

    async def test_ownership_runs_out_by_our_own_clock_while_the_broker_is_silent(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """Rule 5: who cannot hear the broker may not be sure; when it answers again, he may."""
        log = await open_started(own_rabbitmq.address, CALM, heartbeat=2, balance_interval=0.1)
        topic = await make_topic(log, 1)
        await until_stored(log, topic)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        (message,) = await take(consumer, 1)
        assert consumer.holds(message)
        own_rabbitmq.pause()
        async with asyncio.timeout(240):
            while consumer.holds(message):
                await asyncio.sleep(0.05)
        own_rabbitmq.resume()
        async with asyncio.timeout(240):
            while not consumer.holds(message):
                event = await consumer.poll(0.1)
                message = event[0] if isinstance(event, tuple) else message
        await consumer.close()
        await log.stop()

    async def test_a_zombie_settles_nothing_and_is_told_that_it_lost(
        self, own_rabbitmq: RabbitServer
    ) -> None:
        """Reliability R12: a process that stood still for longer than the heartbeat allows wakes up
        believing that it owns its queues. By its own clock it must know better."""
        log = await open_started(own_rabbitmq.address, CALM, heartbeat=1, balance_interval=0.1)
        topic = await make_topic(log, 1)
        await log.submit(topic, [record("k", "first"), record("k", "second")])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, 2)
        time.sleep(6)  # the whole process stands still: no heartbeat leaves
        assert not consumer.holds(messages[0])
        changes = []
        async with asyncio.timeout(240):
            while not isinstance(changes[-1:] and changes[-1], Lost):
                changes.append(await consumer.poll(0.2))
        await consumer.settle(messages)
        again = await take(consumer, 2)
        assert [message.record.body for message in again] == [b"first", b"second"]
        assert again[0].epoch > messages[0].epoch
        await until(lambda: consumer.holds(again[0]))
        await consumer.close()
        await log.stop()
