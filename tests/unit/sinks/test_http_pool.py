"""Connections that are shared and kept: their number, their turns, and how each of them ends."""

from __future__ import annotations

import asyncio
import gc
import random
import re
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from app.bindings.http import HttpMessage
from app.interfaces import SinkAnswer
from app.sinks import http_pool
from app.sinks.http_answer import AnswerReader
from app.sinks.http_client import CONNECTIONS, HttpClient
from app.sinks.http_pool import ConnectionPool
from raw_target import Play, PlayedConnection, RawTarget
from waiting import until
from webhook_target import WebhookTarget, status

EVENT = HttpMessage.of((("ce-id", "1"),), b"{}")
LARGE = HttpMessage.of((("ce-id", "1"),), b"x" * 2**23)
WITHIN = 60.0
EMPTY = b"HTTP/1.1 204 X\r\n\r\n"

Make = Callable[..., HttpClient]


@pytest.fixture
async def raw() -> AsyncIterator[Callable[[Play], RawTarget]]:
    made: list[RawTarget] = []

    def make(play: Play) -> RawTarget:
        made.append(RawTarget(play))
        return made[-1]

    yield make
    for each in made:
        await each.stop()


async def post(client: HttpClient, url: str, within: float = WITHIN) -> SinkAnswer:
    return await client.post(url, EVENT, within)


def pool_of(client: HttpClient) -> ConnectionPool:
    (pool,) = client._pools.values()
    return pool


async def silent_after(
    answered: int, raw: Callable[[Play], RawTarget]
) -> tuple[RawTarget, str, asyncio.Event]:
    """Answers so many requests of a connection; that the next one came it tells us alone."""
    came = asyncio.Event()

    async def play(played: PlayedConnection) -> None:
        for _ in range(answered):
            await played.request()
            await played.send(EMPTY)
        await played.request()
        came.set()
        await played.bytes_until_closed()

    target = raw(play)
    return target, await target.start(), came


class Closing:
    """Answers ``good`` requests on a connection; at the next one it does ``then``."""

    def __init__(self, good: int, then: Callable[[PlayedConnection], None]) -> None:
        self.good, self.then = good, then
        self.requests = 0

    async def __call__(self, played: PlayedConnection) -> None:
        for _ in range(self.good):
            await played.request()
            self.requests += 1
            await played.send(EMPTY)
        await played.request()
        self.requests += 1
        self.then(played)


ENDS = {
    "closed": lambda played: played.writer.close(),
    "reset": lambda played: played.reset(),
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_used_connection_that_is_closed_without_a_byte_is_replaced_once(
    clients: Make, raw: Callable[[Play], RawTarget], end: str
) -> None:
    """A target closes what is idle as it likes, also while a request is under way (RFC 9112 9.3.1)."""
    play = Closing(1, ENDS[end])
    target = raw(play)
    url = await target.start()
    repeated: list[None] = []
    client = clients(repeated=lambda: repeated.append(None))
    for _ in range(4):
        assert (await post(client, url)).status == 204
    assert (play.requests, target.connections, len(repeated)) == (7, 4, 3)


@pytest.mark.parametrize("end", ENDS)
async def test_a_fresh_connection_is_never_replaced(
    clients: Make, raw: Callable[[Play], RawTarget], end: str
) -> None:
    play = Closing(0, ENDS[end])
    url = await raw(play).start()
    answer = await post(clients(), url)
    assert (answer.status, answer.fault, play.requests) == (None, "reset", 1)


async def test_nor_is_the_second_one(clients: Make, raw: Callable[[Play], RawTarget]) -> None:
    async def play(played: PlayedConnection) -> None:
        await played.request()
        if played.number == 0:
            await played.send(EMPTY)
            await played.request()

    target = raw(play)
    url = await target.start()
    client = clients()
    assert (await post(client, url)).status == 204
    assert (await post(client, url)).fault == "reset"
    assert target.connections == 2


async def test_after_a_byte_of_an_answer_nothing_is_repeated(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    """Somebody was there and had begun to speak: what it did with the event is not known."""
    play = Closing(1, lambda played: played.writer.write(b"H"))
    target = raw(play)
    url = await target.start()
    client = clients()
    assert (await post(client, url)).status == 204
    assert (await post(client, url)).fault == "reset"
    assert (play.requests, target.connections) == (2, 1)


async def test_a_large_body_is_sent_again_whole(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    taken: list[bytes] = []

    async def play(played: PlayedConnection) -> None:
        taken.append(await played.request())
        await played.send(EMPTY)
        if played.number == 0:
            await played.head()
            played.reset()

    url = await raw(play).start()
    client = clients()
    assert (await post(client, url)).status == 204
    assert (await client.post(url, LARGE, WITHIN)).status == 204
    assert taken[1].endswith(b"\r\n\r\n" + LARGE.body)


async def test_a_connection_closed_while_idle_costs_nothing(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    async def play(played: PlayedConnection) -> None:
        await played.request()
        await played.send(EMPTY)

    target = raw(play)
    url = await target.start()
    repeated: list[None] = []
    client = clients(repeated=lambda: repeated.append(None), connections=1)
    for number in range(1, 4):
        assert (await post(client, url)).status == 204
        await until(lambda: not pool_of(client)._open)
        assert target.connections == number
    assert repeated == []


async def test_all_idle_ones_may_be_closed_at_once(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    """As when a target is started again. Each request is repeated on a connection of its own."""
    play = Closing(1, ENDS["reset"])
    target = raw(play)
    url = await target.start()
    client = clients(connections=3)
    for _ in range(3):
        answers = await asyncio.gather(*(post(client, url) for _ in range(9)))
        assert {answer.status for answer in answers} <= {204}
    assert len(pool_of(client)._open) <= 3


async def test_who_comes_first_is_served_first(clients: Make, target: WebhookTarget) -> None:
    client = clients(connections=1)
    bodies = [str(number).encode() for number in range(20)]
    await asyncio.gather(
        *(client.post(target.url, HttpMessage.of((), body), WITHIN) for body in bodies)
    )
    assert [request.body for request in target.received] == bodies
    assert target.connections == 1


async def test_the_wait_for_a_connection_counts(clients: Make, target: WebhookTarget) -> None:
    """And who gave up waiting is passed over."""
    go = asyncio.Event()

    async def wait(_: object) -> bytes:
        await go.wait()
        return status(204)

    target.answer = wait
    client = clients(connections=1)
    first = asyncio.create_task(post(client, target.url))
    await until(lambda: len(target.received) == 1)
    second = await post(client, target.url, 0.05)
    assert (second.fault, second.detail) == ("timeout", "no answer within 0.05 s")
    third = asyncio.create_task(post(client, target.url))
    await asyncio.sleep(0)
    go.set()
    assert [(await first).status, (await third).status] == [204, 204]
    assert len(target.received) == 2


async def test_one_that_ran_out_of_time_is_not_used_again(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    """Its answer may still come, and would be taken for the next one's."""

    async def play(played: PlayedConnection) -> None:
        await played.request()
        if played.number == 0:
            await played.bytes_until_closed()
        await played.send(EMPTY)
        await played.bytes_until_closed()

    target = raw(play)
    url = await target.start()
    client = clients(connections=1)
    assert (await post(client, url, 0.05)).fault == "timeout"
    assert (await post(client, url)).status == 204
    await until(lambda: target.gone == 1)


async def test_each_request_has_its_own_time(clients: Make, target: WebhookTarget) -> None:
    """One timer serves the requests of a connection: a shorter time, or a longer one, is its own."""
    client = clients(connections=1)
    for each in (60.0, 30.0, 90.0):
        assert (await post(client, target.url, each)).status == 204

    async def late(_: object) -> bytes:
        await asyncio.sleep(0.2)
        return status(204)

    target.answer = late
    assert (await post(client, target.url, 0.05)).fault == "timeout"
    assert (await post(client, target.url, 30.0)).status == 204


STEPS = range(16)


@pytest.mark.parametrize("message", [EVENT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("steps", STEPS)
async def test_who_goes_away_at_any_moment_leaves_no_place_taken(
    clients: Make, target: WebhookTarget, steps: int, message: HttpMessage
) -> None:
    """With room for two, callers that leave after so many turns of the loop."""
    client = clients(connections=2, allow_private=("localhost",))
    url = target.url.replace("127.0.0.1", "localhost")
    for _ in range(3):
        tasks = [asyncio.create_task(client.post(url, message, WITHIN)) for _ in range(7)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    answers = await asyncio.gather(*(post(client, url) for _ in range(6)))
    assert [answer.status for answer in answers] == [204] * 6
    pool = pool_of(client)
    assert (pool._free, len(pool._open)) == (2, len(pool._idle))
    assert len(pool._open) <= 2


async def test_who_goes_away_closes_what_it_asked(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    target, url, came = await silent_after(0, raw)
    asked = asyncio.create_task(post(clients(), url))
    await came.wait()
    asked.cancel()
    await until(lambda: target.gone == 1)


async def five_idle(clients: Make, target: WebhookTarget) -> HttpClient:
    """A client with five connections to the target."""
    client = clients()
    await asyncio.gather(*(post(client, target.url) for _ in range(5)))
    return client


async def test_an_idle_connection_is_closed_in_time(
    clients: Make, target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_pool, "KEEP_ALIVE", 0.05)
    client = await five_idle(clients, target)
    assert len(pool_of(client)._open) == target.connections == 5
    await until(lambda: not pool_of(client)._open)
    assert pool_of(client)._free == CONNECTIONS
    assert (await post(client, target.url)).status == 204


async def test_a_surplus_is_closed_while_one_is_in_use(
    clients: Make, target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one used last is used next, so that the others are idle."""
    monkeypatch.setattr(http_pool, "KEEP_ALIVE", 0.2)
    client = await five_idle(clients, target)
    deadline = asyncio.get_running_loop().time() + 30.0
    while len(pool_of(client)._open) > 1 and asyncio.get_running_loop().time() < deadline:
        await post(client, target.url)
    assert len(pool_of(client)._open) == 1
    assert target.connections == 5


async def test_a_client_that_is_stopped_says_so_to_who_waits(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    target, url, came = await silent_after(1, raw)
    client = clients()
    assert (await post(client, url)).status == 204
    waiting = asyncio.create_task(post(client, url))
    await came.wait()
    await client.stop()
    answer = await waiting
    assert (answer.fault, answer.detail) == ("reset", "the client was stopped")
    await until(lambda: target.gone == target.connections == 1)


async def test_origins_have_pools_of_their_own(clients: Make) -> None:
    client = clients()
    targets = [WebhookTarget(), WebhookTarget()]
    for each in targets:
        await each.start()
    for _ in range(3):
        await asyncio.gather(*(post(client, each.url) for each in targets))
    assert [each.connections for each in targets] == [1, 1]
    for each in targets:
        await each.stop()


class Moody:
    """A target that answers with the id of the request, mostly; each mood is one of ``dice``."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    async def __call__(self, played: PlayedConnection) -> None:
        while True:
            head = await played.head()
            (event,) = re.findall(rb"ce-id: (\d+)", head)
            said = b"HTTP/1.1 200 X\r\nRetry-After: %b\r\nContent-Length: 2\r\n\r\nok" % event
            mood = self.dice.random()
            if mood < 0.05:
                played.reset()
                return
            if mood < 0.1:
                await played.send(b"HTTP/1.1 413 X\r\nConnection: close\r\n\r\n")
                return
            (length,) = re.findall(rb"Content-Length: (\d+)", head)
            await played.reader.readexactly(int(length))
            if mood < 0.15:
                await asyncio.sleep(0.1)
            await played.send(said + b"x" if mood < 0.2 else said)
            if mood < 0.3:
                return


@pytest.mark.parametrize("seed", range(3))
async def test_no_answer_goes_astray_and_no_place_is_lost(
    clients: Make, raw: Callable[[Play], RawTarget], seed: int
) -> None:
    """Whatever a target does, and whenever callers leave."""
    dice = random.Random(seed)
    url = await raw(Moody(dice)).start()
    client = clients(connections=4)

    async def one(number: int) -> None:
        body = b"x" * dice.choice((0, 10, 1_000, 2**20))
        message = HttpMessage.of((("ce-id", str(number)),), body)
        asked = asyncio.create_task(client.post(url, message, dice.choice((0.02, 30.0))))
        if dice.random() < 0.2:
            for _ in range(dice.randrange(12)):
                await asyncio.sleep(0)
            asked.cancel()
        await asyncio.wait([asked])
        answer = None if asked.cancelled() else asked.result()
        assert answer is None or answer.status in {200, 413, None}
        assert answer is None or answer.status != 200 or answer.retry_after == str(number)

    async def caller(lane: int) -> None:
        for number in range(lane, 240, 12):
            await one(number)

    await asyncio.gather(*(caller(lane) for lane in range(12)))
    pool = pool_of(client)
    await until(lambda: pool._free == 4 and len(pool._open) == len(pool._idle))
    assert len(pool._open) <= 4
    await client.stop()
    assert (pool._free, len(pool._open), len(pool._waiting)) == (4, 0, 0)


class Shared:
    """DNS that answers when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked += 1
        await self.go.wait()
        return ["127.0.0.1"]


async def test_a_name_is_looked_up_once_for_all(clients: Make, target: WebhookTarget) -> None:
    """Also when who asked first goes away meanwhile."""
    names = Shared()
    client = clients(lookup=names)
    url = f"http://one.test:{target.port}/hook"
    tasks = [asyncio.create_task(post(client, url)) for _ in range(10)]
    await until(lambda: names.asked == 1)
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    names.go.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each.status for each in done if isinstance(each, SinkAnswer)] == [204] * 9
    assert names.asked == 1


async def test_a_connection_that_ends_before_its_request_leaves_takes_no_other_along(
    clients: Make, target: WebhookTarget
) -> None:
    """Requests leave together, when all that is ready has run. Its own goes by another connection."""
    repeated: list[None] = []
    client = clients(repeated=lambda: repeated.append(None))
    await asyncio.gather(*(post(client, target.url) for _ in range(3)))
    tasks = [asyncio.create_task(post(client, target.url)) for _ in range(3)]
    pool_of(client)._idle[-1].transport.abort()  # the first of them finds it open still
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [204] * 3
    assert len(repeated) == 1
    assert len(target.received) == 3 + 3


def _readers() -> int:
    return sum(type(each) is AnswerReader for each in gc.get_objects())


async def test_a_closed_connection_is_gone_without_the_garbage_collector(
    clients: Make, raw: Callable[[Play], RawTarget]
) -> None:
    """It runs seldom in a service, and a target may close after each answer."""

    async def once(played: PlayedConnection) -> None:
        await played.request()
        await played.send(b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    client, url = clients(), await raw(once).start()
    gc.collect()
    gc.disable()
    try:
        before = _readers()
        for _ in range(3):
            assert (await post(client, url)).status == 200
        await until(lambda: _readers() == before, "the end of the connections in memory")
    finally:
        gc.enable()
