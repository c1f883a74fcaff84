"""A connection to one broker: answers in order, an end that each request hears of, and no request without bound."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka.errors import KafkaConnectionError, UnsupportedVersionError

from app.brokers.kafka.broker_link import BrokerLink

API_VERSIONS, PRODUCE = 18, 0
PATIENCE = 60


class Broker:
    """Answers ApiVersions, and other requests as ``answer`` does: None is no answer."""

    def __init__(self, newest: int = 9) -> None:
        self.newest = newest
        self.requests: list[bytes] = []
        self.answer: Callable[[bytes], bytes | None] = lambda body: body
        self.came = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(length)
                api, _, correlation, name = struct.unpack_from(">hhih", request)
                body: bytes | None = request[10 + name :]
                if api == API_VERSIONS:
                    body = struct.pack(">hihhh", 0, 1, PRODUCE, 0, self.newest)
                else:
                    self.requests.append(body or b"")
                    body = self.answer(body or b"")
                    self.came.set()
                if body is not None:
                    writer.write(struct.pack(">ii", len(body) + 4, correlation) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Outcomes(list[bytes | None]):
    """What requests were told."""

    def __init__(self, expected: int) -> None:
        super().__init__()
        self._expected = expected
        self._complete = asyncio.Event()

    def __call__(self, answer: bytes | None) -> None:
        self.append(answer)
        if len(self) >= self._expected:
            self._complete.set()

    async def all(self) -> list[bytes | None]:
        async with asyncio.timeout(PATIENCE):
            await self._complete.wait()
        return list(self)


@asynccontextmanager
async def linked(broker: Broker, timeout: float = PATIENCE) -> AsyncIterator[BrokerLink]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    link = BrokerLink("me", timeout, broker_lost := Outcomes(1))  # type: ignore[arg-type]
    try:
        await link.open("127.0.0.1", port, security_protocol="PLAINTEXT")
        yield link
    finally:
        link.close()
        assert broker_lost == [link], "the end is told once"
        server.close()
        for writer in broker.writers:
            writer.transport.abort()
        await server.wait_closed()


async def test_answers_are_told_in_their_order_however_they_arrive() -> None:
    broker = Broker()
    async with linked(broker) as link:
        assert link.produce_version == 8
        told = Outcomes(50)
        sent = [b"%d" % n * (1 + 997 * (n % 7)) for n in range(50)]
        for each in sent:
            link.send(PRODUCE, 8, [each[:1], each[1:]], told)
        assert await told.all() == sent
        assert broker.requests == sent


@pytest.mark.parametrize("ended_by", ["the broker", "us", "time"])
async def test_each_request_hears_that_its_connection_was_lost(ended_by: str) -> None:
    broker = Broker()
    broker.answer = lambda _body: None
    async with linked(broker, 0.05 if ended_by == "time" else PATIENCE) as link:
        told = Outcomes(2)
        for _ in range(2):
            link.send(PRODUCE, 8, [b"x"], told)
        if ended_by == "the broker":
            await broker.came.wait()
            broker.writers[0].transport.abort()
        elif ended_by == "us":
            link.close()
        assert await told.all() == [None, None]
        late = Outcomes(2)
        link.send(PRODUCE, 8, [b"x"], late)
        link.send_unanswered(PRODUCE, 8, [b"x"], late)
        assert late == [], "nothing is told before the call returns"
        assert await late.all() == [None, None]
        with pytest.raises(KafkaConnectionError):
            await link.ask(PRODUCE, 8, [b"x"])


@pytest.mark.parametrize(
    ("length", "correlation"), [(4, 99), (-4, 1_002), (3, 1_002), (1 << 30, 99)]
)
async def test_an_answer_to_another_request_ends_the_connection(
    length: int, correlation: int
) -> None:
    """It is not known any more which answer belongs to which request."""
    broker = Broker()
    broker.answer = lambda _body: None
    async with linked(broker) as link:
        told = Outcomes(1)
        link.send(PRODUCE, 8, [b"x"], told)
        await broker.came.wait()
        broker.writers[0].write(struct.pack(">iii", length, correlation, 0))
        assert await told.all() == [None]


async def test_a_callback_that_fails_harms_no_other_answer() -> None:
    def failing(_answer: bytes | None) -> None:
        raise KeyError("a bug")

    async with linked(Broker()) as link:
        told = Outcomes(1)
        link.send(PRODUCE, 8, [b"a"], failing)
        link.send(PRODUCE, 8, [b"b"], told)
        assert await told.all() == [b"b"]


async def test_requests_without_an_answer_wait_for_room_in_the_socket() -> None:
    """With acks 0 nothing else bounds what a stalled broker lets pile up."""
    async with linked(Broker()) as link:
        told = Outcomes(1)
        link.pause_writing()
        link.send_unanswered(PRODUCE, 8, [b"x"], told)
        await asyncio.sleep(0)
        assert told == []
        link.resume_writing()
        assert await told.all() == [b""]


async def test_a_broker_without_a_version_in_common_is_named() -> None:
    with pytest.raises(UnsupportedVersionError, match="versions 3 to 8"):
        async with linked(Broker(newest=2)):
            pass
