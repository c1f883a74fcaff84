"""Following a topic without a group: nothing twice, nothing left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.api import follow as following
from app.api.follow import follow
from app.bindings.record import Record
from app.errors import PositionOutOfRange
from app.model.message import Message, Partition
from fake_log import FakeLog


def record(text: str) -> Record:
    return Record(None, (), text.encode())


async def log_with(partitions: int = 1) -> FakeLog:
    log = FakeLog()
    await log.create_topic("t", partitions)
    return log


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic at rest is looked at again at once."""
    monkeypatch.setattr(following, "LOOK_EVERY", 0.001)


async def bodies(stream: AsyncIterator[Message | None], count: int) -> list[str]:
    """The next ``count`` messages."""
    found: list[str] = []
    async with asyncio.timeout(5):
        async for message in stream:
            if message is not None:
                found.append((message.record.body or b"").decode())
            if len(found) == count:
                break
    return found


async def test_latest_gives_only_what_comes_after() -> None:
    """The default of tail."""
    log = await log_with()
    log.submit("t", [record("old")])
    stream = follow(log, "t", "latest", asyncio.Event())
    assert await anext(stream) is None  # it has looked, and nothing is new
    log.submit("t", [record("new")])
    assert await bodies(stream, 1) == ["new"]


async def test_earliest_gives_all_and_goes_on_where_it_was() -> None:
    """Nothing twice between two looks."""
    log = await log_with()
    log.submit("t", [record("a"), record("b")])
    stream = follow(log, "t", "earliest", asyncio.Event())
    assert await bodies(stream, 2) == ["a", "b"]
    log.submit("t", [record("c")])
    assert await bodies(stream, 1) == ["c"]


async def test_a_partition_that_appears_later_is_read_from_its_start() -> None:
    """Rule 10: new partitions start at earliest."""
    log = await log_with()
    stream = follow(log, "t", "latest", asyncio.Event())
    assert await anext(stream) is None
    await log.create_topic("t", 2)
    log.partitions[Partition("t", 1)].append((record("first"), 0))
    assert await bodies(stream, 1) == ["first"]


async def test_retention_that_was_faster_does_not_end_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is gone cannot be shown; what comes behind it can."""
    log = await log_with()
    log.submit("t", [record("gone")])
    read = log.read
    gone = True

    async def out_of_range(
        partition: Partition, start: str, until: str | None = None
    ) -> AsyncIterator[Message]:
        nonlocal gone
        if gone:
            gone = False
            raise PositionOutOfRange("dropped")
        async for message in read(partition, start, until):
            yield message

    monkeypatch.setattr(log, "read", out_of_range)
    stream = follow(log, "t", "earliest", asyncio.Event())
    assert await anext(stream) is None
    log.submit("t", [record("next")])
    assert await bodies(stream, 1) == ["next"]


async def test_a_stream_at_rest_says_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies close what is silent."""
    monkeypatch.setattr(following, "HEARTBEAT_EVERY", 3)
    log = await log_with()
    stream = follow(log, "t", "latest", asyncio.Event())
    async with asyncio.timeout(5):
        assert [await anext(stream) for _ in range(3)] == [None, None, None]
