"""StoreWatcher a topic without a group: nothing twice, nothing left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from app.api.http.start_points import StartPoint, places_of, resolve, resume
from app.api.topics import follow as following
from app.api.topics.follow import Gap, Item, PageBounds, TopicTail, partitions_of, peek
from app.bindings.record import Record
from app.errors import BrokerRefused, BrokerUnavailable, PositionOutOfRange
from app.model.message import Message, Partition
from fake_log import FakeLog

PLENTY = PageBounds(1000, 1 << 20, 5.0)


def record(text: str) -> Record:
    return Record(None, (), text.encode())


async def log_with(partitions: int = 1) -> FakeLog:
    log = FakeLog()
    await log.create_topic("t", partitions)
    return log


async def tail_of(
    log: FakeLog, begin: str, *, only: int | None = None, stopped: asyncio.Event | None = None
) -> TopicTail:
    ends = await partitions_of(log, "t") or ()  # type: ignore[arg-type]
    start = await resolve(log, "t", ends, begin)  # type: ignore[arg-type]
    return TopicTail(log, "t", start, stopped or asyncio.Event(), only)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic at rest is looked at again at once, and says each time that it lives."""
    monkeypatch.setattr(following, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(following, "HEARTBEAT_EVERY", 0.0)


async def bodies(stream: AsyncIterator[Item], count: int) -> list[str]:
    """The next ``count`` messages."""
    found: list[str] = []
    async with asyncio.timeout(60):
        async for message in stream:
            if isinstance(message, Message):
                found.append((message.record.body or b"").decode())
            if len(found) == count:
                break
    return found


async def test_latest_gives_only_what_comes_after() -> None:
    """The default of tail."""
    log = await log_with()
    log.submit("t", [record("old")])
    stream = (await tail_of(log, "latest")).items()
    log.submit("t", [record("new")])
    assert await bodies(stream, 1) == ["new"]
    await stream.aclose()


async def test_earliest_gives_all_and_goes_on_where_it_was() -> None:
    """Nothing twice between two looks."""
    log = await log_with()
    log.submit("t", [record("a"), record("b")])
    stream = (await tail_of(log, "earliest")).items()
    assert await bodies(stream, 2) == ["a", "b"]
    log.submit("t", [record("c")])
    assert await bodies(stream, 1) == ["c"]
    await stream.aclose()


async def test_a_partition_that_appears_later_is_read_from_its_start() -> None:
    """Rule 10: new partitions start at earliest."""
    log = await log_with()
    stream = (await tail_of(log, "latest")).items()
    assert await anext(stream) is None
    await log.create_topic("t", 2)
    log.partitions[Partition("t", 1)].append((record("first"), 0))
    assert await bodies(stream, 1) == ["first"]
    await stream.aclose()


async def test_one_partition_alone_is_followed_where_it_was_asked_for() -> None:
    """Whoever looks at one place wants no others in between."""
    log = await log_with(2)
    tail = await tail_of(log, "earliest", only=1)
    for number in (0, 1):
        log.partitions[Partition("t", number)].append((record(f"in {number}"), 0))
    stream = tail.items()
    assert await bodies(stream, 1) == ["in 1"]
    await stream.aclose()


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
async def test_whoever_lost_the_stream_goes_on_behind_what_came_last(cut: int) -> None:
    """Last-Event-ID: over several partitions, nothing twice and nothing left out, wherever it broke."""
    log = await log_with(3)
    for number in range(6):
        log.partitions[Partition("t", number % 3)].append((record(str(number)), 0))
    tail = await tail_of(log, "earliest")
    stream = tail.items()
    before = await bodies(stream, cut)
    await stream.aclose()
    ends = await partitions_of(log, "t") or ()  # type: ignore[arg-type]
    known = places_of(tail.at)
    assert known is not None
    again = TopicTail(log, "t", resume(ends, known), asyncio.Event())  # type: ignore[arg-type]
    rest = again.items()
    after = await bodies(rest, 6 - cut)
    await rest.aclose()
    assert sorted(before + after) == list("012345")


async def test_retention_that_was_faster_is_told_and_what_is_left_is_given() -> None:
    """What is gone cannot be shown; what stands behind it is not passed over."""
    log = await log_with()
    log.submit("t", [record("gone"), record("left")])
    tail = await tail_of(log, "earliest")
    log.earliest[Partition("t", 0)] = 1
    read = log.read

    async def strict(
        partition: Partition, start: str, until: str | None = None
    ) -> AsyncGenerator[Message, None]:
        if int(start) < log.earliest[partition]:
            raise PositionOutOfRange("dropped", earliest=str(log.earliest[partition]))
        async for message in read(partition, start, until):
            yield message

    log.read = strict  # type: ignore[method-assign]
    stream = tail.items()
    assert await anext(stream) == Gap(0, StartPoint("0"), "1")
    assert await bodies(stream, 1) == ["left"]
    await stream.aclose()


async def test_a_stream_at_rest_says_that_it_lives() -> None:
    """Proxies close what is silent."""
    log = await log_with()
    stream = (await tail_of(log, "latest")).items()
    async with asyncio.timeout(60):
        assert [await anext(stream) for _ in range(3)] == [None, None, None]
    await stream.aclose()


async def test_a_topic_that_goes_away_ends_the_stream() -> None:
    """An eternal silence would look like a topic at rest."""
    log = await log_with()
    stream = (await tail_of(log, "latest")).items()
    assert await anext(stream) is None
    log.partitions.clear()
    with pytest.raises(BrokerRefused, match="was deleted"):
        await anext(stream)


async def test_a_page_is_bounded_in_messages_and_says_where_the_next_one_begins() -> None:
    """A topic of a million messages must not become one answer, and none may be lost between two."""
    log = await log_with(2)
    for number in range(10):
        log.partitions[Partition("t", number % 2)].append((record(str(number)), 0))
    ends = await partitions_of(log, "t") or ()  # type: ignore[arg-type]
    begin, seen = "earliest", []
    for _ in range(4):
        start = await resolve(log, "t", ends, begin)  # type: ignore[arg-type]
        page = await peek(log, "t", ends, start, PLENTY._replace(messages=3))  # type: ignore[arg-type]
        seen += [(each.record.body or b"").decode() for each in page.messages]
        begin = following.text_of(page.next)
    assert seen == ["0", "2", "4", "6", "8", "1", "3", "5", "7", "9"]
    assert page.complete


async def test_a_page_is_bounded_in_bytes_and_never_empty_for_it() -> None:
    """One record larger than the bound must not stop whoever pages."""
    log = await log_with()
    log.submit("t", [record("x" * 100), record("y"), record("z" * 100)])
    ends = await partitions_of(log, "t") or ()  # type: ignore[arg-type]
    start = await resolve(log, "t", ends, "earliest")  # type: ignore[arg-type]
    sizes = []
    for _ in range(3):
        page = await peek(log, "t", ends, start, PLENTY._replace(bytes=50))  # type: ignore[arg-type]
        sizes.append(len(page.messages))
        start = page.next
    assert sizes == [1, 1, 1]
    assert not (await peek(log, "t", ends, start, PLENTY)).messages  # type: ignore[arg-type]


async def test_a_page_is_bounded_in_time() -> None:
    """A broker that stalls half-way costs a person the rest, not the whole; and nothing at all is said
    to be nothing, not an empty topic."""
    log = await log_with()
    log.submit("t", [record("a"), record("b")])
    read = log.read
    stalls_at = 1

    async def stalling(
        partition: Partition, start: str, until: str | None = None
    ) -> AsyncGenerator[Message, None]:
        async for message in read(partition, start, until):
            if message.offset == stalls_at:
                await asyncio.Event().wait()
            yield message

    log.read = stalling  # type: ignore[method-assign]
    ends = await partitions_of(log, "t") or ()  # type: ignore[arg-type]
    start = await resolve(log, "t", ends, "earliest")  # type: ignore[arg-type]
    page = await peek(log, "t", ends, start, PLENTY._replace(seconds=0.05))  # type: ignore[arg-type]
    assert [each.record.body for each in page.messages] == [b"a"]
    assert (page.complete, following.text_of(page.next)) == (False, "0>0")
    stalls_at = 0
    with pytest.raises(BrokerUnavailable, match=r"within 0\.05 s"):
        await peek(log, "t", ends, start, PLENTY._replace(seconds=0.05))  # type: ignore[arg-type]
