"""A member with several partitions: who is asked, who waits, and what a pause forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from app.bindings.record import Record
from app.brokers.partition_reader import PartitionReader, PartitionReadingMember
from app.brokers.tail import PartitionTail
from app.errors import BrokerUnavailable
from app.model.message import Message, MessagePage, Partition

BUSY, BEHIND = Partition("t", 0), Partition("t", 1)
PAGE = 2


class Endless(PartitionTail):
    """Has a page at every position, once it may be read; or an error."""

    def __init__(self, place: Partition) -> None:
        super().__init__(place, PAGE, 1 << 20, lambda: None)
        self.error: Exception | None = None

    end = 2**63

    async def page(self, position: int, until: int, most: int) -> MessagePage:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        offsets = range(position, min(until, position + PAGE))
        record = Record(None, (), b"")
        return MessagePage(
            tuple(Message(record, self.place, str(n), n, 0, 0) for n in offsets), offsets.stop
        )


class OneMember(PartitionReadingMember[PartitionReader]):
    def _take(self, owned: PartitionReader) -> Iterable[Message]:
        return owned.take()

    def own(self, tail: Endless) -> PartitionReader:
        following = PartitionReader(tail, 1, 0, None, self._stirred)
        self._own(tail.place, following)
        following.join()
        return following


@pytest.fixture
async def member() -> OneMember:
    return OneMember(PAGE)  # type: ignore[abstract]  # what is not alike is left out


async def batch_of(member: OneMember) -> tuple[Message, ...]:
    batch = await member.poll(60)
    assert isinstance(batch, tuple)
    return batch


async def test_a_partition_that_others_keep_full_keeps_none_from_being_read(
    member: OneMember,
) -> None:
    """Something of it is always ready, without being asked for; one of which this member alone reads is
    asked for all the same."""
    member.own(Endless(BEHIND))
    busy = member.own(Endless(BUSY))
    record = Record(None, (), b"")
    seen: set[Partition] = set()
    for number in range(20):
        busy.offered([Message(record, BUSY, str(number), number, 0, 1)], 0)
        seen |= {message.partition for message in await batch_of(member)}
        await asyncio.sleep(0)
    assert seen == {BUSY, BEHIND}


async def test_a_pause_forgets_what_went_wrong(member: OneMember) -> None:
    """Told after it, the error would be an old one, and what lies ready by then would stay where it is."""
    tail = Endless(BEHIND)
    tail.error = BrokerUnavailable("for a moment")
    following = member.own(tail)
    assert await member.poll(0) is None
    async with asyncio.timeout(60):
        while following.error is None:
            await asyncio.sleep(0)
    member.pause([BEHIND])
    tail.error = None
    member.resume([BEHIND])
    assert [message.offset for message in await batch_of(member)] == [0, 1]
