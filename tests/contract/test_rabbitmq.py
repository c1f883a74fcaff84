"""RabbitMQ keeps the broker contract: the real server, the same cases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import aio_pika
import pytest

from amqp_writing import at_exchange
from app.bindings.record import Record
from app.brokers.portable import PortableLog
from app.errors import BrokerRefused
from app.model.message import Lost, Revoked
from app.model.receipt import Receipt
from app.model.start import EARLIEST
from app.routing.partitions import partition_of
from broker_contract import BrokerContract
from contract_running import OutageCase
from contract_tools import (
    AT_ONCE,
    PATIENCE,
    Member,
    assigned,
    bodies,
    close_all,
    closing,
    fresh_group,
    nothing_comes,
    publish,
    take,
    text,
)
from contract_topics import CreatedTopicCases
from rabbitmq_harness import RabbitHarness, bind, channel_to, declare, unbind, until_there
from rabbitmq_readback import read_back
from rabbitmq_server import RabbitServer
from waiting import until


@pytest.fixture
async def harness(rabbitmq: str) -> AsyncIterator[RabbitHarness]:
    async with closing(RabbitHarness(rabbitmq)) as harness:
        yield harness


@pytest.mark.rabbitmq
class TestRabbit(BrokerContract):
    pass


@pytest.mark.rabbitmq
@pytest.mark.fault
@pytest.mark.nightly
class TestRabbitThatGoesAway(OutageCase):
    """The one case that needs a server to itself. The short form: tests/faults/test_rabbitmq_faults.py."""

    @pytest.fixture
    async def harness(self, own_rabbitmq: RabbitServer) -> AsyncIterator[RabbitHarness]:
        async with closing(RabbitHarness(own_rabbitmq.address, own_rabbitmq)) as harness:
            yield harness


@pytest.mark.rabbitmq
class TestRabbitAlone(CreatedTopicCases):
    """What no other log has, with aio-pika's own client as a second opinion."""

    async def test_another_client_sees_what_was_published(
        self, harness: RabbitHarness, log: PortableLog
    ) -> None:
        """Properties, the key header, persistence, typed and null headers, as others read them."""
        topic = await harness.fresh_topic(log, 1)
        moment = datetime(2026, 11, 20, 10, tzinfo=UTC)
        natives = {"n": 7, "flag": True, "at": moment}
        headers = (("ce-id", b"1"), ("n", b"7"), ("flag", b"true"), ("at", b""), ("nothing", None))
        record = Record(
            b"\xff\x00", headers, b"body", "text/plain", natives, "id-1", time_ms=1_700_000_000_000
        )
        await publish(log, topic, [record])
        [message] = await read_back(harness.address, f"{topic}.0")
        assert (message.body, message.content_type, message.message_id) == (
            b"body",
            "text/plain",
            "id-1",
        )
        assert message.delivery_mode is aio_pika.DeliveryMode.PERSISTENT
        assert message.headers == {
            "ce-id": "1",
            "n": 7,
            "flag": True,
            "at": moment,
            "nothing": None,
            "x-skybridge-key": b"\xff\x00",
        }
        assert message.timestamp == datetime.fromtimestamp(1_700_000_000, UTC)

    async def test_what_another_client_publishes_is_consumed(
        self, harness: RabbitHarness, log: PortableLog
    ) -> None:
        """Typed headers arrive with their types (R9), and what the broker adds stays out."""
        topic = await harness.fresh_topic(log, 1)
        connection = await aio_pika.connect(f"amqp://guest:guest@{harness.address}/")
        exchange = await (await connection.channel()).get_exchange(topic)
        headers = {"ce-id": "1", "ce-n": 7, "x-skybridge-key": "k"}
        message = aio_pika.Message(b"b", headers=headers, content_type="text/plain", message_id="m")
        await exchange.publish(message, routing_key="0")
        await connection.close()
        group = fresh_group()
        for _ in range(2):  # the second time it is a redelivery
            consumer = await log.subscribe(group, [topic], EARLIEST)
            (got,) = await take(consumer, 1)
            assert got.record == Record(
                b"k", (("ce-id", b"1"), ("ce-n", b"7")), b"b", "text/plain", {"ce-n": 7}, "m"
            )
            await consumer.close()

    async def test_what_nothing_takes_is_refused_and_harms_no_neighbour(
        self, harness: RabbitHarness, log: PortableLog
    ) -> None:
        """Reliability 5.2: an unroutable message is confirmed like any other."""
        topic = await harness.fresh_topic(log, 2)
        await unbind(harness.address, f"{topic}.1", topic, "1")
        keys = {partition_of(b"%d" % n, 2): str(n) for n in range(20)}
        sent = [text(str(n), keys[n % 2]) for n in range(20)]
        results = await log.submit(topic, sent)
        assert all(isinstance(result, Receipt) for result in results[::2])
        for result in results[1::2]:
            assert isinstance(result, BrokerRefused)
            assert result.kind == "unroutable"
            assert topic in str(result)
        assert log.stats().records_in_flight == 0

    @pytest.mark.parametrize("name", ["CC", "BCC"])
    async def test_a_record_that_the_broker_rejects_is_refused_alone(
        self, log: PortableLog, topic: str, name: str
    ) -> None:
        """RabbitMQ closes the channel for a header CC that is no list, and with it fails whatever is in flight."""
        bad = Record(b"k", ((name, b"x"),), b"bad")
        records = [text("first"), bad, text("middle"), bad, text("last")]
        results = await log.submit(topic, records)
        assert [type(each) for each in results] == [
            Receipt, BrokerRefused, Receipt, BrokerRefused, Receipt,
        ]  # fmt: skip
        assert isinstance(results[1], BrokerRefused)
        assert (results[1].kind, results[1].of_record) == ("rejected", True)
        assert topic in str(results[1])
        assert name in str(results[1])
        many = await log.submit(topic, [text(f"{n}") for n in range(50)])
        assert {type(each) for each in many} == {Receipt}

    async def test_a_named_exchange_is_published_to_by_routing_key(
        self, harness: RabbitHarness, log: PortableLog
    ) -> None:
        """Targets {exchange, routing_key}: the broker's own bindings decide where a record goes."""
        topic = await harness.fresh_topic(log, 1)
        await bind(harness.address, f"{topic}.0", "amq.topic", f"{topic}.order.*")
        target = at_exchange("amq.topic", f"{topic}.order.created")
        (receipt,) = await publish(log, target, [text("there", "k")])
        assert (receipt.topic, receipt.partition) == (target, 0)
        (result,) = await log.submit(at_exchange("amq.topic", "nobody"), [text("lost")])
        assert isinstance(result, BrokerRefused)
        assert result.kind == "unroutable"
        consumer = await log.subscribe(fresh_group(), [f"queue:{topic}.0"], EARLIEST)
        assert bodies(await take(consumer, 1)) == [b"there"]
        await consumer.close()

    @pytest.mark.parametrize("target", ["no-such-topic", "exchange:no-such:key", "queue:no-such"])
    async def test_a_target_that_is_not_there_is_refused_at_once(
        self, harness: RabbitHarness, log: PortableLog, target: str
    ) -> None:
        """Not after the publish time-out, and not by making it; and the channel stays open."""
        topic = await harness.fresh_topic(log, 1)
        began = asyncio.get_running_loop().time()
        pending = log.submit(topic, [text("kept")])
        (result,) = await log.submit(target, [text("x")])
        assert isinstance(result, BrokerRefused)
        assert result.kind == "unknown-topic"
        assert isinstance((await pending)[0], Receipt)
        with pytest.raises(BrokerRefused):
            await log.subscribe(fresh_group(), [target], EARLIEST)
        assert asyncio.get_running_loop().time() - began < AT_ONCE

    async def test_groups_with_queues_of_their_own_each_see_everything(
        self, harness: RabbitHarness
    ) -> None:
        """Fan-out: each subscription has its own queues, from when it is first made."""
        log = await harness.make_log(queue="{group}.{topic}.{partition}", partitions=2)
        topic = await harness.fresh_topic(log, 2)
        (result,) = await log.submit(topic, [text("nobody yet", "k")])
        assert isinstance(result, BrokerRefused), "nothing would retain it (rule 10)"
        assert result.kind == "unroutable"
        groups = [fresh_group(), fresh_group()]
        members = [await log.subscribe(group, [topic], EARLIEST) for group in groups]
        await publish(log, topic, [text(str(n), str(n)) for n in range(8)])

        async def lags() -> list[int]:
            found = (await log.metadata([topic], {group: [topic] for group in groups})).groups
            return [sum(e.lag or 0 for e in found if e.group == group) for group in groups]

        async with asyncio.timeout(PATIENCE):
            while await lags() != [8, 8]:  # on its way to a member it is counted nowhere, or twice
                await asyncio.sleep(0.05)
        for member in members:
            got = bodies(await take(member, 8))
            assert sorted(body or b"" for body in got) == [b"%d" % n for n in range(8)]
            await member.close()

    async def test_asking_for_the_lag_of_a_group_creates_no_queues(
        self, harness: RabbitHarness
    ) -> None:
        """The queues of a group that reads another topic filled up, and nobody read them."""
        log = await harness.make_log(queue="{group}.{topic}.{partition}", partitions=2)
        topic, reader, other = await harness.fresh_topic(log, 2), fresh_group(), fresh_group()
        member = await log.subscribe(reader, [topic], EARLIEST)
        found = await log.metadata([topic], {reader: [topic], other: [topic]})
        assert {each.group for each in found.groups} == {reader}
        async with channel_to(harness.address) as channel:
            with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
                await channel.declare_queue(f"{other}.{topic}.0", passive=True)
        await member.close()

    async def test_a_hash_exchange_spreads_what_others_publish_by_key(
        self, harness: RabbitHarness
    ) -> None:
        """One key, one queue, also for those who know nothing of murmur2."""
        log = await harness.make_log(hash_exchange=True)
        topic = await harness.fresh_topic(log, 4)
        connection = await aio_pika.connect(f"amqp://guest:guest@{harness.address}/")
        exchange = await (await connection.channel()).get_exchange(f"{topic}.hash")
        for number in range(40):
            headers = {"x-skybridge-key": f"key-{number % 10}"}
            message = aio_pika.Message(b"%d" % number, headers=headers)
            await exchange.publish(message, routing_key="")
        await connection.close()
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        messages = await take(consumer, 40)
        places = {(m.record.key, m.partition.number) for m in messages}
        assert len(places) == 10, "a key is in one place"
        assert len({m.partition.number for m in messages}) > 1
        await consumer.close()

    async def test_a_queue_of_others_is_consumed_and_warned_of(
        self, harness: RabbitHarness, log: PortableLog, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A delivery limit drops events behind our back; no single active consumer breaks order."""
        queue = f"foreign-{uuid4().hex[:12]}"
        await declare(harness.address, queue, {"x-queue-type": "quorum", "x-delivery-limit": 3})
        await publish(log, f"queue:{queue}", [text("x", "k")])
        consumer = await log.subscribe(fresh_group(), [f"queue:{queue}"], EARLIEST)
        await consumer.settle(await take(consumer, 1))
        await consumer.close()
        [warning] = log.driver.warnings()
        assert queue in warning
        assert "already exists" in warning
        assert warning in caplog.text

    async def test_a_queue_with_another_consumer_is_not_taken(
        self, harness: RabbitHarness, log: PortableLog
    ) -> None:
        """Two owners of one queue would break order per key: ours waits until it is alone."""
        topic = await harness.fresh_topic(log, 1)
        connection = await aio_pika.connect(f"amqp://guest:guest@{harness.address}/")
        queue = await (await connection.channel()).get_queue(f"{topic}.0")

        async def keep(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            """Neither settles it nor gives it back."""

        await queue.consume(keep)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await publish(log, topic, [text("x", "k")])
        await nothing_comes(consumer, 0.5)
        await connection.close()
        assert bodies(await take(consumer, 1)) == [b"x"]
        await consumer.close()

    async def test_members_that_come_at_once_never_share_a_queue(
        self, harness: RabbitHarness, log: PortableLog
    ) -> None:
        """They meet at the same queues, step back, and end with an even share; order per key holds."""
        topic = await harness.fresh_topic(log, 8)
        group = fresh_group()
        await publish(log, topic, [text(f"{n % 40}:{n:04d}", str(n % 40)) for n in range(800)])
        joining = (log.subscribe(group, [topic], EARLIEST) for _ in range(4))
        members = [Member(consumer) for consumer in await asyncio.gather(*joining)]
        await until(
            lambda: (
                [len(member.owned) for member in members] == [2] * 4
                and len({place for member in members for place in member.owned}) == 8
                and sum(len(member.messages) for member in members) >= 800
            )
        )
        await close_all(members)
        arrivals = [m.record.body for member in members for m in member.messages]
        assert len(set(arrivals)) == 800, "nothing was lost in the moves"
        for member in members:
            for key in {m.record.key for m in member.messages}:
                got = [m.record.body for m in member.messages if m.record.key == key]
                assert got == sorted(got)

    async def test_a_queue_paused_for_long_is_given_back_and_comes_again(
        self, harness: RabbitHarness
    ) -> None:
        """Rule 6: the broker closes a channel with a message unsettled for 30 minutes."""
        log = await harness.make_log(give_back=0.3)
        topic = await harness.fresh_topic(log, 1)
        await publish(log, topic, [text("a", "k"), text("b", "k")])
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        first, _ = await take(consumer, 2)
        consumer.pause([first.partition])
        revoked = None
        async with asyncio.timeout(PATIENCE):
            while not isinstance(revoked, Revoked):
                revoked = await consumer.poll(0.2)
        await consumer.settle([first])  # a hand-over: what is finished still counts
        assert bodies(await take(consumer, 1)) == [b"b"]
        await consumer.close()

    @pytest.mark.parametrize("kind", ["members", "owns"])
    async def test_what_members_share_may_go_with_its_node(
        self, harness: RabbitHarness, log: PortableLog, kind: str
    ) -> None:
        """Roster and guard live on one node of a cluster. Durable ones would be out of reach while it is away, and
        nothing would be delivered; others are deleted, and members declare them on another node."""
        topic, group = await harness.fresh_topic(log, 1), fresh_group()
        consumer = await log.subscribe(group, [topic], EARLIEST)
        await assigned(consumer)
        name = f"skybridge.{kind}.{group if kind == 'members' else f'{topic}.0'}"
        await until_there(harness.address, name)
        async with channel_to(harness.address) as channel:
            with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match="'durable'"):
                await channel.declare_queue(name, durable=True)
        async with channel_to(harness.address) as channel:
            await channel.queue_delete(name)
        changes = []
        if kind == "members":
            await until_there(harness.address, name)
            changes.append(await consumer.poll(0.1))
        await publish(log, topic, [text("x", "k")])
        assert bodies(await take(consumer, 1)) == [b"x"]
        assert not any(isinstance(change, Lost) for change in changes)
        await consumer.close()

    async def test_a_deleted_queue_is_lost_and_said_so(
        self, harness: RabbitHarness, log: PortableLog
    ) -> None:
        """The broker cancels a consumer whose queue goes away; nobody may wait for ever."""
        topic = await harness.fresh_topic(log, 1)
        consumer = await log.subscribe(fresh_group(), [topic], EARLIEST)
        await assigned(consumer)
        async with channel_to(harness.address) as channel:
            await channel.queue_delete(f"{topic}.0")
        changes = []
        with pytest.raises(BrokerRefused) as refused:
            async with asyncio.timeout(PATIENCE):
                while True:
                    changes.append(await consumer.poll(0.2))
        assert refused.value.kind == "unknown-topic"
        assert any(isinstance(change, Lost) for change in changes)
        await consumer.close()
