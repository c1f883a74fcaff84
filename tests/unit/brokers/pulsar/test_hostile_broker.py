"""A broker that sends anything: errors are known ones, nothing hangs, and nothing runs away."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pulsar import Result

from app.bindings.record import Record
from app.brokers.pulsar.errors import ClientError
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.wire import commands
from app.brokers.pulsar.wire.client import WireClient
from app.brokers.pulsar.wire.commands import Answer, framed
from app.brokers.pulsar.wire.connection import LARGEST_FRAME
from app.brokers.pulsar.wire.producer import WireProducer
from app.brokers.pulsar.wire.protobuf import integer, text
from waiting import until

TOPIC = "persistent://public/default/t"
RECORD = Record(None, (), b"x")
PING = framed(commands.PING)

Reply = Callable[["Broker", Answer], bytes]


class Broker:
    """A server that answers as a broker does, except commands of the kinds in ``replies``."""

    def __init__(self) -> None:
        self.replies: dict[int, Reply] = {}
        self.seen: list[Answer] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"pulsar://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    def kinds(self) -> list[int]:
        return [each.kind for each in self.seen]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">I", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                (length,) = struct.unpack_from(">I", frame)
                asked = commands.read(frame[4 : 4 + length])
                self.seen.append(asked)
                writer.write(self.replies.get(asked.kind, polite)(self, asked))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def polite(broker: Broker, asked: Answer) -> bytes:
    match asked.kind:
        case commands.CONNECT:
            return framed(commands.CONNECTED, text(1, "broker") + integer(2, 19))
        case commands.LOOKUP:
            return found(broker.url, asked)
        case commands.PRODUCER:
            made = integer(1, asked.content[3]) + text(2, "one") + integer(3, (1 << 64) - 1)
            return framed(commands.PRODUCER_SUCCESS, made)
        case commands.SEND:
            return receipt(asked, asked.content[2])
    return b""


def found(url: str | bytes, asked: Answer) -> bytes:
    answer = text(1, url) + integer(3, commands.CONNECT_TO) + integer(4, asked.content[2])
    return framed(commands.LOOKUP_ANSWER, answer)


def receipt(asked: Answer, sequence: int) -> bytes:
    place = text(3, integer(1, 5) + integer(2, 6))
    number = integer(1, asked.content[1]) + integer(2, sequence)
    return framed(commands.SEND_RECEIPT, number + place)


def closed(number: int) -> bytes:
    return framed(commands.CLOSE_PRODUCER, integer(1, number) + integer(2, 1))


class Publishing:
    """A client of a broker, with what it reports. ``unhandled`` are the errors that reach the loop."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client = WireClient(
            PulsarSettings(
                name="p",
                service_url=broker.url,
                admin_url="http://127.0.0.1",
                operation_timeout=60.0,
                connect_timeout=60.0,
            )
        )
        self.lost: list[str] = []
        self.results: list[Result] = []
        self.unhandled: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, about: self.unhandled.append(about)
        )

    async def producer(self) -> WireProducer:
        return await self.client.producer(TOPIC, self.lost.append)

    async def send(self) -> None:
        """Send a record, and wait for its result or the end of its producer."""
        producer = await self.producer()
        producer.send(RECORD, lambda result, _: self.results.append(result), lambda: False)
        await until(lambda: self.results or self.lost, "a result, or the end of the producer")


@pytest.fixture
async def publishing() -> AsyncIterator[Publishing]:
    broker = Broker()
    await broker.start()
    made = Publishing(broker)
    yield made
    await made.client.close()
    await broker.stop()
    assert made.unhandled == []


MALFORMED: list[tuple[str, int, Reply]] = [
    ("http", commands.CONNECT, lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ("zeros", commands.CONNECT, lambda *_: bytes(64)),
    ("a bound that is text", commands.CONNECT, lambda *_: framed(commands.CONNECTED, text(3, "x"))),
    ("a URL that is no UTF-8", commands.LOOKUP, lambda _, asked: found(b"\xff\xfe", asked)),
    ("no URL", commands.LOOKUP, lambda _, asked: found("", asked)),
    ("a bad port", commands.LOOKUP, lambda _, asked: found("pulsar://h:99999", asked)),
    ("a bad host", commands.LOOKUP, lambda _, asked: found("pulsar://[::1", asked)),
    ("a long host", commands.LOOKUP, lambda _, asked: found(f"pulsar://{'a' * 300}:1", asked)),
    ("a null in a host", commands.LOOKUP, lambda _, asked: found("pulsar://a\0b:1", asked)),
    (
        "a name that is a number",
        commands.PRODUCER,
        lambda _, asked: framed(
            commands.PRODUCER_SUCCESS, integer(1, asked.content[3]) + integer(2, 9)
        ),
    ),
    (
        "a producer that ends at once",
        commands.PRODUCER,
        lambda broker, asked: polite(broker, asked) + closed(asked.content[2]),
    ),
    (
        "garbage after a producer",
        commands.PRODUCER,
        lambda broker, asked: polite(broker, asked) + b"\xff" * 64,
    ),
]


@pytest.mark.parametrize(
    ("kind", "reply"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED]
)
async def test_no_producer_opens_and_the_error_is_a_known_one(
    publishing: Publishing, kind: int, reply: Reply
) -> None:
    publishing.broker.replies[kind] = reply
    with pytest.raises(ClientError):
        await publishing.producer()


ENDING: list[tuple[str, Reply]] = [
    ("a receipt ahead of its turn", lambda _, asked: receipt(asked, 7) + PING + PING),
    (
        "a refusal ahead of its turn",
        lambda _, asked: (
            framed(
                commands.SEND_ERROR, integer(1, asked.content[1]) + integer(2, 7) + integer(3, 15)
            )
            + PING
        ),
    ),
    ("a storm of ends", lambda _, asked: closed(asked.content[1]) * 1_000),
    (
        "a frame beyond the bound",
        lambda *_: commands.SIZES.pack(LARGEST_FRAME + 1, 10) + bytes(100),
    ),
]


@pytest.mark.parametrize("reply", [row[1] for row in ENDING], ids=[row[0] for row in ENDING])
async def test_the_producer_ends_once_and_its_record_gets_no_result(
    publishing: Publishing, reply: Reply
) -> None:
    publishing.broker.replies[commands.SEND] = reply
    await publishing.send()
    assert len(publishing.lost) == 1
    assert publishing.results == []


async def test_receipts_for_unknown_producers_are_ignored(publishing: Publishing) -> None:
    publishing.broker.replies[commands.SEND] = lambda broker, asked: (
        receipt(Answer(commands.SEND, {1: 999}), 0) * 1_000 + polite(broker, asked)
    )
    await publishing.send()
    assert publishing.results == [Result.Ok]


async def test_a_storm_of_challenges_gets_one_login_at_a_time(publishing: Publishing) -> None:
    challenges = framed(commands.AUTH_CHALLENGE) * 1_000
    publishing.broker.replies[commands.SEND] = lambda broker, asked: (
        challenges + polite(broker, asked)
    )
    await publishing.send()
    await until(lambda: commands.AUTH_RESPONSE in publishing.broker.kinds(), "a login")
    assert publishing.broker.kinds().count(commands.AUTH_RESPONSE) == 1


async def test_a_caller_that_gives_up_closes_the_producer(publishing: Publishing) -> None:
    """The broker may have made the producer by then. It counts against the bound of a topic's producers."""
    publishing.broker.replies[commands.PRODUCER] = lambda *_: b""
    asking = asyncio.create_task(publishing.producer())
    await until(lambda: commands.PRODUCER in publishing.broker.kinds(), "the request")
    asking.cancel()
    await until(lambda: commands.CLOSE_PRODUCER in publishing.broker.kinds(), "its end")


def test_an_integer_without_an_end_is_read_in_no_time() -> None:
    """Each step of a long one would cost more than the last."""
    endless = b"\x08\x07\x3a\x01\x08" + b"\xff" * LARGEST_FRAME
    assert commands.read_receipt(endless) is None
