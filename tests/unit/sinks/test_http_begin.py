"""Requests without a task: on an idle connection, with the answers and faults of those that are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from app.bindings.http import HttpMessage
from app.interfaces import SinkAnswer
from app.sinks.http_client import HttpClient
from raw_target import Play, PlayedConnection, RawTarget
from waiting import until

EVENT = HttpMessage.of((("ce-id", "1"),), b"{}")
WITHIN = 60.0
EMPTY = b"HTTP/1.1 204 X\r\n\r\n"

Make = Callable[..., HttpClient]
Raw = Callable[[Play], RawTarget]


@pytest.fixture
async def raw() -> AsyncIterator[Raw]:
    made: list[RawTarget] = []

    def make(play: Play) -> RawTarget:
        made.append(RawTarget(play))
        return made[-1]

    yield make
    for each in made:
        await each.stop()


def never(answer: SinkAnswer) -> None:
    raise AssertionError(answer)


async def begun(client: HttpClient, url: str, within: float = WITHIN) -> SinkAnswer:
    """Return the answer of a request that begins without a task."""
    told: list[SinkAnswer] = []
    assert client.begin("POST", url, EVENT, within, told.append) is not None
    assert told == []
    await until(lambda: told, "the answer")
    (answer,) = told
    return answer


async def always(played: PlayedConnection) -> None:
    while True:
        await played.request()
        await played.send(EMPTY)


async def test_it_needs_an_idle_connection(clients: Make, raw: Raw) -> None:
    target = raw(always)
    url, client = await target.start(), clients(connections=1)
    assert client.begin("POST", url, EVENT, WITHIN, never) is None
    assert (await client.post(url, EVENT, WITHIN)).status == 204
    assert (await begun(client, url)).status == 204
    first = asyncio.create_task(client.post(url, EVENT, WITHIN))
    await asyncio.sleep(0)
    assert client.begin("POST", url, EVENT, WITHIN, never) is None
    assert (await first).status == 204
    assert target.connections == 1


async def test_what_cannot_be_sent_is_left_to_the_other_way(clients: Make) -> None:
    blocked = clients(allow_private=())
    assert blocked.begin("POST", "http://127.0.0.1:9/", EVENT, WITHIN, never) is None


@pytest.mark.parametrize("end", ["closed", "reset"])
async def test_on_a_stale_connection_it_is_sent_again(clients: Make, raw: Raw, end: str) -> None:
    async def play(played: PlayedConnection) -> None:
        await played.request()
        await played.send(EMPTY)
        await played.request()
        played.writer.close() if end == "closed" else played.reset()

    target = raw(play)
    repeated: list[None] = []
    url, client = await target.start(), clients(repeated=lambda: repeated.append(None))
    assert (await client.post(url, EVENT, WITHIN)).status == 204
    assert (await begun(client, url)).status == 204
    assert (target.connections, len(repeated)) == (2, 1)


async def test_its_time_out_is_that_of_the_other_way(clients: Make, raw: Raw) -> None:
    async def play(played: PlayedConnection) -> None:
        await played.request()
        await played.send(EMPTY)
        await played.bytes_until_closed()

    url, client = await raw(play).start(), clients()
    assert (await client.post(url, EVENT, WITHIN)).status == 204
    answer = await begun(client, url, 0.05)
    assert (answer.status, answer.fault, answer.unsent) == (None, "timeout", False)


@pytest.mark.parametrize("stale", [False, True])
async def test_what_is_aborted_reports_nothing_and_frees_its_place(
    clients: Make, raw: Raw, stale: bool
) -> None:
    came = asyncio.Event()

    async def play(played: PlayedConnection) -> None:
        if played.number == 2 or (played.number == 1 and not stale):
            await always(played)
        if played.number == 0:
            await played.request()
            await played.send(EMPTY)
        await played.request()
        if played.number == 0 and stale:
            played.writer.close()
            return
        came.set()
        await played.bytes_until_closed()

    url, client = await raw(play).start(), clients(connections=1)
    assert (await client.post(url, EVENT, WITHIN)).status == 204
    attempt = client.begin("POST", url, EVENT, WITHIN, never)
    assert attempt is not None
    await came.wait()
    attempt.abort()
    assert (await client.post(url, EVENT, WITHIN)).status == 204
