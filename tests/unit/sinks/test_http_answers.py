"""Answers as targets really write them: in every framing, too early, too much, and broken off."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import trustme

from app.bindings.http import HttpMessage
from app.interfaces import SinkAnswer
from app.sinks.http_answer import MAX_HEADERS, AnswerReader, RequestFailed
from app.sinks.http_client import HttpClient
from app.sinks.http_connection import ClientConnection, StaleConnection, WriteBatcher
from app.sinks.tls import TlsFiles
from raw_target import Play, PlayedConnection, RawTarget
from waiting import until

EVENT = HttpMessage.of((("ce-id", "1"),), b"{}")
LARGE = HttpMessage.of((("ce-id", "1"),), b"x" * 2**25)  # more than the system's buffers hold
WITHIN = 60.0
OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"
NO_HTTP = "the answer is incomplete, or is not HTTP"

Make = Callable[..., HttpClient]


class Targets:
    """Starts them; ``last`` is the one begun last."""

    def __init__(self) -> None:
        self.made: list[RawTarget] = []

    async def __call__(self, play: Play) -> str:
        self.made.append(RawTarget(play))
        return await self.last.start()

    def ended(self, number: int) -> bool:
        return self.last.gone == number

    @property
    def last(self) -> RawTarget:
        return self.made[-1]


@pytest.fixture
async def targets() -> AsyncIterator[Targets]:
    targets = Targets()
    yield targets
    for each in targets.made:
        await each.stop()


def saying(*pieces: bytes, once: bool = False) -> Play:
    """The same answer to each request; ``once``: then it hangs up."""

    async def play(played: PlayedConnection) -> None:
        while True:
            await played.request()
            await played.send(*pieces)
            if once:
                return

    return play


async def post(client: HttpClient, url: str) -> SinkAnswer:
    return await client.post(url, EVENT, WITHIN)


async def on_one_connection(
    client: HttpClient, targets: Targets, pieces: Sequence[bytes], *, apart: bool
) -> list[SinkAnswer]:
    """Of two requests, both answered by these pieces, at once or one by one."""
    url = await targets(saying(*pieces) if apart else saying(b"".join(pieces)))
    answers = [await post(client, url) for _ in range(2)]
    assert targets.last.connections == 1
    return answers


@pytest.mark.parametrize("apart", [False, True])
async def test_interim_answers_are_passed_over(
    clients: Make, targets: Targets, apart: bool
) -> None:
    """100 Continue and 103 Early Hints say nothing about the event (RFC 9110 15.2)."""
    pieces = (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\nLink: </x>\r\n\r\n",
        b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\nno",
    )
    for answer in await on_one_connection(clients(), targets, pieces, apart=apart):
        assert (answer.status, answer.body, answer.retry_after) == (503, b"no", None)


async def test_a_target_that_switches_protocols_has_answered(
    clients: Make, targets: Targets
) -> None:
    said = b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nsomething else"
    url = await targets(saying(said))
    client = clients()
    for _ in range(2):
        assert (await post(client, url)).status == 101
    assert targets.last.connections == 2


@pytest.mark.parametrize("attempt", range(5))
async def test_a_body_that_is_refused_while_it_is_sent_is_an_answer(
    clients: Make, targets: Targets, attempt: int
) -> None:
    """413 and a connection that is closed with most of the body unread: the answer counts, not the reset."""

    async def play(played: PlayedConnection) -> None:
        await played.head()
        played.writer.write(b"HTTP/1.1 413 X\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
        await played.writer.drain()

    url = await targets(play)
    answer = await clients().post(url, LARGE, WITHIN)
    assert (answer.status, answer.fault, answer.body) == (413, "", b"big")


async def test_the_rest_of_a_refused_body_is_not_sent(clients: Make, targets: Targets) -> None:
    counted: list[int] = []
    answered = asyncio.Event()

    async def play(played: PlayedConnection) -> None:
        await played.head()
        if played.number == 0:
            played.writer.write(b"HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n")
            await answered.wait()
            counted.append(await played.bytes_until_closed())
        else:
            await played.send(EMPTY)

    url = await targets(play)
    client = clients()
    assert (await client.post(url, LARGE, WITHIN)).status == 413
    answered.set()
    await until(lambda: bool(counted))
    assert counted[0] < len(LARGE.body)
    assert (await post(client, url)).status == 200  # on another connection


async def test_a_refused_body_over_tls(clients: Make, targets: Targets, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def play(played: PlayedConnection) -> None:
        await played.head()
        await played.send(b"HTTP/1.1 413 X\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
        await played.bytes_until_closed()

    target = RawTarget(play)
    targets.made.append(target)
    client = clients(tls=TlsFiles(tmp_path / "ca.pem"))
    answer = await client.post(await target.start(context), LARGE, WITHIN)
    assert (answer.status, answer.body) == (413, b"big")


@pytest.mark.parametrize("apart", [False, True])
async def test_a_body_in_chunks_is_put_together(
    clients: Make, targets: Targets, apart: bool
) -> None:
    pieces = (
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        b"3;name=value\r\nabc\r\n",
        b"a\r\n0123456789\r\n",
        b"0\r\nRetry-After: 9\r\n\r\n",
    )
    for answer in await on_one_connection(clients(), targets, pieces, apart=apart):
        assert (answer.status, answer.body, answer.detail) == (200, b"abc0123456789", "")
        assert answer.retry_after is None  # trailers are no headers


async def test_a_head_that_comes_byte_by_byte(clients: Make, targets: Targets) -> None:
    said = b"HTTP/1.1 429 X\r\nretry-AFTER:  7 \r\nContent-Length: 2\r\n\r\nno"
    url = await targets(saying(*(said[n : n + 1] for n in range(len(said)))))
    answer = await post(clients(), url)
    assert (answer.status, answer.retry_after, answer.body) == (429, "7", b"no")


async def test_space_around_a_value_is_none_of_it(clients: Make, targets: Targets) -> None:
    """An event in an answer has the values of its headers (RFC 9110 5.5)."""
    said = OK + b"ce-id: \t a \t\r\nX:\r\nContent-Length: 0 \r\n\r\n"
    answer = await post(clients(), await targets(saying(said)))
    assert answer.headers == ((b"ce-id", b"a"), (b"X", b""), (b"Content-Length", b"0"))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (EMPTY, True),
        (OK + b"Content-Length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"HTTP/1.1 204 X\r\n\r\n", True),
        (b"HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n", True),
        (b"HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n", True),
        (OK.replace(b"\r\n", b"\n") + b"Content-Length: 0\n\n", True),
    ],
)
async def test_a_connection_is_kept_where_the_answer_lets_us(
    clients: Make, targets: Targets, said: bytes, kept: bool
) -> None:
    url = await targets(saying(said))
    client = clients()
    for _ in range(2):
        answer = await post(client, url)
        assert (answer.fault, answer.body, answer.detail) == ("", b"", "")
    assert targets.last.connections == (1 if kept else 2)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_body_may_end_with_the_connection(
    clients: Make, targets: Targets, version: bytes
) -> None:
    url = await targets(
        saying(b"HTTP/" + version + b" 200 OK\r\n\r\nthis", b" and that", once=True)
    )
    client = clients()
    for _ in range(2):
        answer = await post(client, url)
        assert (answer.status, answer.body, answer.detail, answer.cut) == (
            *(200, b"this and that", ""),
            False,
        )


async def test_one_that_is_reset_instead_is_cut_short(clients: Make, targets: Targets) -> None:
    async def play(played: PlayedConnection) -> None:
        await played.request()
        await played.send(OK + b"\r\nthis")
        await asyncio.sleep(0.05)
        played.reset()

    answer = await post(clients(), await targets(play))
    assert (answer.status, answer.body, answer.cut) == (200, b"", True)
    assert answer.detail.startswith("answer cut short: ")


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"H",
        OK,
        OK + b"Content-Length: 1\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: 99999999999999999999999999\r\n\r\n",
        OK + b"".join(b"X-%d: a\r\n" % n for n in range(129)) + b"\r\n",
        OK + b"X: " + b"a" * 9_000,
        OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_a_reset(clients: Make, targets: Targets, said: bytes) -> None:
    """And is told in our words: what came is not quoted."""
    url = await targets(saying(said, once=True))
    answer = await post(clients(), url)
    assert (answer.status, answer.fault, answer.detail) == (None, "reset", NO_HTTP)


async def test_a_head_that_never_ends_does_not_wait_for_its_time(
    clients: Make, targets: Targets
) -> None:
    url = await targets(saying(OK, b"X: " + b"a" * 9_000))
    assert (await post(clients(), url)).detail == NO_HTTP


async def test_as_many_headers_as_may_be(clients: Make, targets: Targets) -> None:
    lines = b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1_000) for n in range(126))
    url = await targets(saying(OK + lines + b"Retry-After: 5\r\nContent-Length: 0\r\n\r\n"))
    assert (await post(clients(), url)).retry_after == "5"


def test_no_more_headers_are_read_than_there_may_be() -> None:
    """65,000 of them come in one piece, and held the loop for a tenth of a second (reliability S5)."""
    read = 0

    class Counting(AnswerReader):
        def on_header(self, name: bytes, value: bytes) -> None:
            nonlocal read
            read += 1
            super().on_header(name, value)

    reader = Counting(65_536)
    with pytest.raises(RequestFailed):
        reader.read(OK + b"a:\r\n" * 65_000)
    assert read == MAX_HEADERS + 1


@pytest.mark.parametrize("surplus", [b"x", EMPTY, b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"])
async def test_what_follows_an_answer_is_never_the_next_one(
    clients: Make, targets: Targets, surplus: bytes
) -> None:
    url = await targets(saying(b"HTTP/1.1 202 X\r\nContent-Length: 2\r\n\r\nme" + surplus))
    client = clients()
    for _ in range(3):
        assert (await post(client, url)).status == 202
    assert targets.last.connections == 3


class Wire(asyncio.Transport):
    """What is written to it, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


@pytest.mark.parametrize("used", [True, False])
async def test_an_answer_to_a_request_that_has_not_left_is_none(used: bool) -> None:
    """uvloop reads before it writes: what a target says too much came for the next event, which was finished and
    never sent."""
    loop, wire = asyncio.get_running_loop(), Wire()
    connection = ClientConnection(loop, WriteBatcher(), 65_536)
    connection.connection_made(wire)
    connection.used = used
    told: list[object] = []
    connection.send(b"POST / HTTP/1.1\r\n\r\n", b"", loop.time() + WITHIN, told.append)
    connection.data_received(EMPTY)
    assert [type(each) for each in told] == [StaleConnection if used else RequestFailed]
    await asyncio.sleep(0)
    assert (wire.written, wire.closing) == (b"", True)


async def test_what_an_idle_connection_says_ends_it(clients: Make, targets: Targets) -> None:
    """Some targets write 408 before they close what was idle for long."""

    async def play(played: PlayedConnection) -> None:
        await played.request()
        await played.send(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(0.02)
        await played.send(b"HTTP/1.1 408 X\r\nContent-Length: 0\r\n\r\n")
        await played.bytes_until_closed()

    url = await targets(play)
    client = clients()
    for number in range(1, 4):
        assert (await post(client, url)).status == 202
        await until(partial(targets.ended, number))


async def test_a_body_beyond_its_bound_is_not_waited_for(clients: Make, targets: Targets) -> None:
    url = await targets(saying(OK + b"Content-Length: 5000\r\n\r\n" + b"x" * 1_000))
    answer = await post(clients(response_limit=1_000), url)
    assert (answer.status, answer.body, answer.cut, answer.detail) == (200, b"x" * 1_000, True, "")


async def test_an_answer_in_a_million_pieces_is_bounded(clients: Make, targets: Targets) -> None:
    """Chunks of a byte each: what is around them counts too."""
    chunk = b"1;" + b"e" * 200 + b"\r\na\r\n"
    url = await targets(saying(OK + b"Transfer-Encoding: chunked\r\n\r\n", chunk * 20_000))
    answer = await post(clients(), url)
    assert (answer.status, answer.cut, answer.body) == (200, True, b"")
    assert NO_HTTP in answer.detail


async def test_an_answer_is_known_again_by_all_of_its_bytes(
    clients: Make, targets: Targets
) -> None:
    """Another one is not, nor one with more behind it, however short: that ends the connection."""
    first = OK + b"Retry-After: 7\r\nContent-Length: 2\r\n\r\nno"
    other = first.replace(b"7", b"8")
    said = (
        (first,),
        (first,),
        (other,),
        (first[:9], first[9:]),
        (first,),
        (first + b"x",),
        (first,),
    )

    async def play(played: PlayedConnection) -> None:
        while True:
            await (
                played.request()
            )  # first: one that never comes takes no answer from the next connection
            await played.send(*next(left))

    left = iter(said)
    client, url = clients(), await targets(play)
    answers = [await post(client, url) for _ in said]
    assert [each.retry_after for each in answers] == ["7", "7", "8", "7", "7", "7", "7"]
    assert {(each.status, each.body, each.fault) for each in answers} == {(200, b"no", "")}
    assert targets.last.connections == 2
