"""What a publish must never do to its neighbours, whatever the record, the library or a node does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs
from pamqp.header import ContentHeader

from app.bindings.record import Record
from app.brokers.portable import Submission
from app.brokers.rabbitmq import producer as module
from app.brokers.rabbitmq.aiormq_adapter import ConfirmChannel, DeliveredMessage, spec
from app.brokers.rabbitmq.connection import connect
from app.brokers.rabbitmq.producer import RabbitPublisher
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import TargetPartitions
from app.brokers.rabbitmq.topology import RabbitTarget, Topology
from app.brokers.security import ClientTls
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.receipt import Receipt
from authority import Authority
from waiting import until

SETTINGS = RabbitSettings(name="rabbit", addresses="127.0.0.1:1")


class Ledger:
    def release(self, submission: Submission) -> None:
        if not submission.done():
            submission.set_result(submission.results)


class Wire:
    """A connection that keeps what is written."""

    frame_max = 131_072
    blocked = ""
    is_closed = False

    def __init__(self, number: int = 1) -> None:
        self.number = number
        self.written = b""

    def write(self, frames: bytes) -> None:
        self.written += frames


class Channel:
    number = 1
    is_closed = False


ORDERS = RabbitTarget("orders", "orders", ("0",))
NAMED = RabbitTarget("exchange:orders:0", "orders", ("0",))


def found(target: RabbitTarget, on: Wire) -> TargetPartitions:
    return TargetPartitions("rabbit", target, on.number)


def submitted(record: Record, topic: str = "orders") -> Submission:
    made = Submission(loop=asyncio.get_running_loop())
    made.owner, made.topic, made.size = Ledger(), topic, 0
    made.records, made.results, made.open = [record], [None], 1
    return made


async def test_a_record_that_cannot_be_written_leaves_no_gap_in_the_tags() -> None:
    """The broker counts what arrives: a tag given to a record that did not leave would take the confirm
    of the one behind it, and 202 would be told of an event that nobody has (rule 1)."""
    producer = RabbitPublisher(SETTINGS, Topology(SETTINGS))
    wire = Wire()
    outbox = producer.channels.main.outbox
    producer.channels.connection = outbox.connection = wire
    outbox.channel = Channel()
    producer.targets.known["orders"] = found(ORDERS, on=wire)
    lone = Record(None, (), b"lone", message_id="\ud800")
    sent = [
        submitted(each) for each in (Record(None, (), b"first"), lone, Record(None, (), b"last"))
    ]
    for each in sent:
        producer.publish(each)
    await asyncio.sleep(0)
    assert (b"first" in wire.written, b"last" in wire.written) == (True, True)
    outbox.confirmed(1, multiple=False, stored=True)
    assert [each.done() for each in sent] == [True, True, False]
    outbox.confirmed(2, multiple=False, stored=True)
    assert [type(each.result()[0]) for each in sent] == [Receipt, BrokerRefused, Receipt]


class Finding(Topology):
    """Knows every target, after a moment."""

    def __init__(self, answer: RabbitTarget | Exception) -> None:
        super().__init__(SETTINGS)
        self.answer = answer
        self.asked_on: list[int] = []

    async def find(self, connection: Wire, topic: str) -> RabbitTarget:  # type: ignore[override]
        self.asked_on.append(connection.number)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Opening(Wire):
    """Lets channels be opened. ``confirmed`` and ``returned`` are what the broker does on the last one."""

    async def open_channel(self, hot: ConfirmChannel, *, confirms: bool) -> Channel:
        self.confirmed, self.returned = hot.confirmed, hot.returned
        return OpenChannel()


class OpenChannel(Channel):
    def __init__(self) -> None:
        self.closing = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        self.is_closed = True


def back() -> DeliveredMessage:
    frame = spec.Basic.Return(312, "NO_ROUTE", "orders", "0")
    header = ContentHeader(body_size=4, properties=spec.Basic.Properties())
    return DeliveredMessage(delivery=frame, header=header, body=b"body", channel=None)


@asynccontextmanager
async def publishing(producer: RabbitPublisher, opened: Opening) -> AsyncIterator[None]:
    """Let the producer publish through a connection, until the block ends."""
    used = partial(producer._opened, opened)
    running = asyncio.create_task(producer.channels.run(opened, used))  # type: ignore[arg-type]
    await until(lambda: producer.channels.main.outbox.channel is not None)
    yield
    running.cancel()
    await asyncio.wait([running])


async def returned(producer: RabbitPublisher, opened: Opening, topic: str) -> BrokerError:
    """What a sender is told of a record that came back and was confirmed."""
    outbox = producer.channels.main.outbox
    sent = submitted(Record(None, (), b"body"), topic)
    producer.publish(sent)
    async with asyncio.timeout(60):
        while not outbox.unconfirmed:
            await asyncio.sleep(0)
    opened.returned(back())
    opened.confirmed(outbox.unconfirmed.tag, True, True)
    (result,) = await sent
    return result


async def test_after_an_outage_a_target_is_asked_for_again() -> None:
    """A node that starts lets us in before its streams have leaders. What goes there comes back as if
    nobody had a queue, and a sender would be told for certain what is over in a second."""
    missing = BrokerUnavailable("home node of durable queue 'orders.0' is down or inaccessible")
    topology = Finding(missing)
    producer = RabbitPublisher(SETTINGS, topology)
    producer.targets.known["orders"] = found(ORDERS, on=Wire(1))
    async with publishing(producer, again := Opening(2)):
        sent = submitted(Record(None, (), b"body"))
        producer.publish(sent)
        async with asyncio.timeout(60):
            assert await sent == [missing]
        assert (topology.asked_on, again.written) == ([2], b"")
        topology.answer = ORDERS
        told = await returned(producer, again, "orders")
        assert isinstance(told, BrokerRefused), (
            "its queues were seen on this wire: nothing is bound"
        )
        assert told.kind == "unroutable"
    await producer.stop()


async def test_what_goes_out_again_on_another_wire_and_comes_back_is_unknown() -> None:
    """It may be stored since the first wire, and its queue may not be up behind the second (rule 9)."""
    producer = RabbitPublisher(SETTINGS, Finding(ORDERS))
    sent = submitted(Record(None, (), b"body"))
    async with publishing(producer, first := Opening(1)):
        producer.channels.join(found(ORDERS, on=first), sent)
        await asyncio.sleep(0)
    async with publishing(producer, second := Opening(2)):
        await until(lambda: b"body" in second.written)
        second.returned(back())
        second.confirmed(1, False, True)
        (result,) = await sent
    assert type(result) is PublishUnknown


async def test_a_channel_that_rejects_is_replaced_when_its_records_have_their_confirms() -> None:
    """In a cluster a channel of RabbitMQ 3.10 may reject all records of a queue until the node of its first leader is
    back; another channel finds the new leader. What the old one has confirmed is not sent again."""
    producer = RabbitPublisher(structs.replace(SETTINGS, request_timeout=0.2), Finding(ORDERS))
    outbox = producer.channels.main.outbox
    async with publishing(producer, opened := Opening(1)):
        first, batchers = outbox.channel, found(ORDERS, on=opened)
        sent = [submitted(Record(None, (), body)) for body in (b"first", b"first", b"again")]
        for each in sent[:2]:
            producer.channels.join(batchers, each)
        await asyncio.sleep(0)
        opened.confirmed(1, False, False)
        await until(lambda: outbox.channel is None)
        producer.channels.join(batchers, sent[2])
        opened.written = b""
        opened.confirmed(2, False, True)
        await until(lambda: outbox.channel not in {None, first})
        await until(lambda: b"again" in opened.written)
        assert b"first" not in opened.written
        opened.confirmed(1, False, True)
        results = [type((await each)[0]) for each in sent]
    assert results == [BrokerUnavailable, Receipt, Receipt]
    assert first.is_closed


@pytest.mark.parametrize(("away", "told"), [(True, PublishUnknown), (False, BrokerRefused)])
async def test_an_exchange_of_others_is_doubted_for_a_while_after_an_outage(
    monkeypatch: pytest.MonkeyPatch, away: bool, told: type[BrokerError]
) -> None:
    """Nobody can ask over AMQP what is bound to it; so time must tell."""
    producer = RabbitPublisher(SETTINGS, Finding(NAMED))
    producer._cause = "it was away" if away else ""
    async with publishing(producer, opened := Opening(1)):
        assert type(await returned(producer, opened, NAMED.topic)) is told
    monkeypatch.setattr(module, "RECOVERY", 0.0)
    producer._cause = "away again"
    async with publishing(producer, opened := Opening(2)):
        assert type(await returned(producer, opened, NAMED.topic)) is BrokerRefused
    await producer.stop()


async def test_an_error_that_nobody_expects_ends_no_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else readiness would be true, and no event would leave any more."""
    tried: Iterator[Exception] = iter((KeyError("a bug"), ConnectionError("away")))
    second = asyncio.Event()

    async def refuse(*_: object, **__: object) -> None:
        error = next(tried, None)
        if error is None:
            second.set()
            await asyncio.Event().wait()
        raise error or AssertionError

    monkeypatch.setattr(module, "connect", refuse)
    producer = RabbitPublisher(SETTINGS, Topology(SETTINGS))
    async with asyncio.timeout(60):
        await producer.start()
        assert "a bug" in (await producer.health()).cause
        await second.wait()
        await producer.stop()


async def test_a_node_that_never_answers_keeps_no_other_from_being_tried() -> None:
    """Nodes share the time of one request: whoever joins a group waits no longer than that."""
    asked: list[str] = []

    async def silent(name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(name)
        await reader.read()
        writer.close()

    servers = [
        await asyncio.start_server(lambda *both, name=name: silent(name, *both), "127.0.0.1", 0)
        for name in ("first", "second")
    ]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
    settings = RabbitSettings(name="rabbit", addresses=addresses, request_timeout=0.5)
    with pytest.raises(TimeoutError):
        await connect(settings)
    for server in servers:
        server.close()
    assert asked == ["first", "second"]


async def test_a_node_that_stands_still_within_tls_holds_nobody_up(tmp_path: Path) -> None:
    """Not even a goodbye is answered: asyncio alone would wait half a minute for it."""
    authority = Authority(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.server("localhost"))
    left = asyncio.Event()

    async def stand_still(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        await left.wait()
        writer.transport.abort()

    server = await asyncio.start_server(stand_still, "127.0.0.1", 0, ssl=context)
    settings = RabbitSettings(
        name="rabbit",
        addresses=f"localhost:{server.sockets[0].getsockname()[1]}",
        tls=ClientTls(ca=authority.ca),
        request_timeout=0.5,
    )
    async with asyncio.timeout(60):
        with pytest.raises(TimeoutError):
            await connect(settings)
    left.set()
    server.close()
    await server.wait_closed()
