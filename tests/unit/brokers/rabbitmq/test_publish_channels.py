"""Streams whose leader changes, as RabbitMQ 3 has them: what it confirms without storing is never acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.frame import marshal, unmarshal
from pamqp.header import ContentHeader

from app.bindings.record import Record
from app.brokers.driver import Submission
from app.brokers.rabbitmq import publish_channels as module
from app.brokers.rabbitmq.aiormq_adapter import ConfirmChannel
from app.brokers.rabbitmq.publish_channels import PublishChannels
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.targets import RabbitTargets, TargetPartitions
from app.brokers.rabbitmq.topology import RabbitTarget, Topology
from app.model.receipt import Receipt
from waiting import until

SETTINGS = RabbitSettings(
    name="rabbit", addresses="127.0.0.1:1", kind="stream", request_timeout=0.4
)
ORDERS = RabbitTarget("orders", "orders", ("0", "1"))


class Ledger:
    def release(self, submission: Submission) -> None:
        if not submission.done():
            submission.set_result(submission.results)


class Stream:
    """A stream. It takes a record of a writer only if its number is higher than all before it."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self._numbers: dict[object, int] = {}

    def write(self, writer: object, number: int, body: bytes) -> None:
        if number > self._numbers.get(writer, 0):
            self._numbers[writer] = number
            self.records.append(body)


class Writer:
    """What a channel knows of one stream: the number of its next record there, and those without a confirm, by this number."""

    def __init__(self) -> None:
        self.next = 1
        self.open: dict[int, tuple[int, bytes]] = {}


class Channel:
    """A channel of RabbitMQ 3. ``tag`` counts all its records, and each writer those of one stream."""

    is_closed = False

    def __init__(self, broker: Broker, number: int, hot: ConfirmChannel) -> None:
        self.number, self.tag, self._hot, self._broker = number, 0, hot, broker
        self.writers: dict[str, Writer] = {}
        self.closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        self.is_closed = True

    def published(self, stream: str, body: bytes) -> None:
        self.tag += 1
        if self._broker.rejects or self._broker.unroutable:
            self._refuse(stream, body)
            return
        writer = self.writers.setdefault(stream, Writer())
        number, writer.next = writer.next, writer.next + 1
        writer.open[number] = self.tag, body
        if not self._broker.leaderless:
            self._broker.streams[stream].write((self, stream), number, body)
            self.confirm(stream, [number])

    def _refuse(self, stream: str, body: bytes) -> None:
        """Reject or return a record, which has a tag and no number of the stream."""
        if self._broker.rejects:
            self._hot.take(marshal(commands.Basic.Nack(self.tag), self.number))
            return
        for frame in (
            commands.Basic.Return(312, "NO_ROUTE", "orders", stream),
            ContentHeader(body_size=len(body), properties=commands.Basic.Properties()),
            ContentBody(body),
            commands.Basic.Ack(self.tag),
        ):
            self._hot.take(marshal(frame, self.number))

    def confirm(self, stream: str, numbers: list[int]) -> None:
        for number in numbers:
            known = self.writers[stream].open.pop(number, None)
            if known is not None:
                frame = commands.Basic.Ack(known[0])
                self._hot.take(marshal(frame, self.number))

    def leader_changed(self, stream: str) -> None:
        """Send what has no confirm to the new leader, under the tag instead of the number (pull request 12236)."""
        for tag, body in list(self.writers.get(stream, Writer()).open.values()):
            self._broker.streams[stream].write((self, stream), tag, body)
            self.confirm(stream, [tag])


class Broker:
    """A connection to a node.

    Attributes:
        leaderless: Whether no record is stored or confirmed now.
        rejects: Whether each record is rejected.
        unroutable: Whether each record is returned.
        number: The number of the connection.
    """

    frame_max, blocked, is_closed, number = 131_072, "", False, 1

    def __init__(self) -> None:
        self.streams = {key: Stream() for key in ORDERS.routing_keys}
        self.channels: list[Channel] = []
        self.leaderless = self.rejects = self.unroutable = False

    async def open_channel(self, hot: ConfirmChannel, *, confirms: bool) -> Channel:
        assert confirms
        self.channels.append(Channel(self, len(self.channels) + 1, hot))
        return self.channels[-1]

    def write(self, frames: bytes) -> None:
        stream = ""
        while frames:
            size, channel, frame = unmarshal(frames)
            frames = frames[size:]
            if isinstance(frame, commands.Basic.Publish):
                stream = frame.routing_key
            elif isinstance(frame, ContentBody):
                self.channels[channel - 1].published(stream, frame.value)

    def change_leader(self) -> None:
        """Let another replica lead. The confirms of the old leader arrive after the news, as they do when a cut ends."""
        self.leaderless = False
        before = [
            (channel, stream, list(writer.open))
            for channel in self.channels
            for stream, writer in channel.writers.items()
        ]
        for channel, stream, numbers in before:
            for number in numbers:
                body = channel.writers[stream].open[number][1]
                self.streams[stream].write((channel, stream), number, body)
            channel.leader_changed(stream)
            channel.confirm(stream, numbers)


class Publisher:
    """The channels of one connection, and the target that records go to."""

    def __init__(self, broker: Broker) -> None:
        self._targets = RabbitTargets(SETTINGS, Topology(SETTINGS), lambda *_: None)
        self.channels = PublishChannels(SETTINGS, self._targets, lambda _: True)
        self._batchers = TargetPartitions("rabbit", ORDERS, broker.number)

    def send(self, *bodies: bytes) -> list[Submission]:
        """Publish records without keys, which go to one stream after the other."""
        return [self._submit(body) for body in bodies]

    def _submit(self, body: bytes) -> Submission:
        made = Submission(loop=asyncio.get_running_loop())
        made.owner, made.topic, made.size = Ledger(), "orders", 0
        made.records, made.results, made.open = [Record(None, (), body)], [None], 1
        self.channels.join(self._batchers, made)
        return made


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
async def publisher(broker: Broker) -> AsyncIterator[Publisher]:
    made = Publisher(broker)
    running = asyncio.create_task(made.channels.run(broker, lambda: None))  # type: ignore[arg-type]
    await until(lambda: made.channels.connection is not None)
    yield made
    running.cancel()
    await asyncio.wait([running])


async def acknowledged(sent: list[Submission]) -> list[bytes]:
    async with asyncio.timeout(60):
        results = [(await each)[0] for each in sent]
    return [
        each.records[0].body or b""
        for each, result in zip(sent, results, strict=True)
        if isinstance(result, Receipt)
    ]


async def test_a_stream_that_changes_its_leader_has_all_that_was_acknowledged(
    broker: Broker, publisher: Publisher
) -> None:
    """The records after a cut were confirmed as copies of others, because all streams shared one channel. The confirms
    of those that were sent again came too, so their order showed nothing (rule 1)."""
    await acknowledged(publisher.send(*(b"early %d" % n for n in range(6))))
    broker.leaderless = True
    during = publisher.send(*(b"during %d" % n for n in range(4)))
    await until(lambda: sum(len(w.open) for c in broker.channels for w in c.writers.values()) == 4)
    broker.change_leader()
    late = publisher.send(*(b"late %d" % n for n in range(12)))
    known = await acknowledged([*during, *late])
    stored = {body for stream in broker.streams.values() for body in stream.records}
    assert set(known) <= stored
    assert len(known) == 16


@pytest.mark.parametrize("fault", ["rejects", "unroutable"])
async def test_a_record_that_is_not_stored_lets_no_later_one_be_lost(
    broker: Broker, publisher: Publisher, fault: str
) -> None:
    """The channel has counted this record, and the stream has not."""
    await acknowledged(publisher.send(*(b"early %d" % n for n in range(2))))
    setattr(broker, fault, True)
    assert await acknowledged(publisher.send(*(b"refused %d" % n for n in range(2)))) == []
    setattr(broker, fault, False)
    broker.leaderless = True
    during = publisher.send(*(b"during %d" % n for n in range(4)))
    await until(lambda: sum(len(w.open) for c in broker.channels for w in c.writers.values()) == 4)
    broker.change_leader()
    known = await acknowledged([*during, *publisher.send(*(b"late %d" % n for n in range(4)))])
    stored = {body for stream in broker.streams.values() for body in stream.records}
    assert set(known) <= stored
    assert len(known) == 8


async def test_the_channel_of_an_unused_stream_is_closed_and_opened_again(
    broker: Broker, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    await acknowledged(publisher.send(b"1", b"2"))
    main, *streams = broker.channels
    assert len(streams) == 2
    monkeypatch.setattr(module, "UNUSED", 0.0)
    await until(lambda: all(each.is_closed for each in streams))
    monkeypatch.setattr(module, "UNUSED", 60.0)
    assert await acknowledged(publisher.send(b"3")) == [b"3"]
    assert not main.is_closed
    assert len(broker.channels) == 4
