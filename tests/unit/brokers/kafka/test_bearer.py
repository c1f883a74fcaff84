"""A token is proven before a client logs in with it: what a broker answers, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from struct import pack

import pytest
from aiokafka.errors import SaslAuthenticationFailed

from app.brokers.kafka.bearer import ProvenTokens

WITHIN = 60.0
OFFERED = pack(">ihi", 1, 0, 0)
WORDS = b'{"status":"invalid_token"}'


def judged(code: int, message: str | None, words: bytes) -> bytes:
    said = b"" if message is None else message.encode()
    head = pack(">ihh", 1, code, -1 if message is None else len(said)) + said
    return head + pack(">i", len(words)) + words


class Broker:
    """Answers requests with what it was given, and then hangs up."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers
        self.tokens: list[bytes] = []
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in self.answers:
                size = int.from_bytes(await reader.readexactly(4), "big")
                request = await reader.readexactly(size)
                if b"Bearer" in request:
                    self.tokens.append(request.partition(b"Bearer ")[2].rstrip(b"\x01"))
                writer.write(pack(">i", len(answer)) + answer)
        except EOFError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[str]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def tokens(servers: str, *values: str) -> Callable[[], object]:
    left = list(values)

    async def source() -> str:
        return left.pop(0)

    return ProvenTokens(source, servers, asyncio.open_connection, WITHIN).token


@pytest.mark.parametrize(
    ("answer", "words"),
    [(judged(0, None, WORDS), WORDS.decode()), (judged(58, "expired", b""), "expired")],
)
async def test_a_refused_token_says_why(answer: bytes, words: str) -> None:
    async with running(Broker(OFFERED, answer)) as servers:
        with pytest.raises(SaslAuthenticationFailed) as refused:
            await tokens(servers, "t")()
    assert words in str(refused.value)


async def test_each_token_is_proven_once() -> None:
    broker = Broker(OFFERED, judged(0, None, b""))
    async with running(broker) as servers:
        token = tokens(servers, "one", "one", "two")
        assert [await token() for _ in range(3)] == ["one", "one", "two"]
    assert broker.tokens == [b"one", b"two"]


@pytest.mark.parametrize(
    "answers",
    [(), (b"",), (pack(">ihi", 1, 33, 0),), (OFFERED,)],
    ids=["none", "short", "no", "end"],
)
async def test_where_no_broker_judges_the_client_finds_out(answers: tuple[bytes, ...]) -> None:
    """A cluster that is away is no reason to call the token wrong."""
    async with running(Broker(*answers)) as servers:
        assert await tokens(f"127.0.0.1:1,{servers}", "t")() == "t"
