"""What every member of a group does alike: what it tells, in which order, and what the next poll means."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

import pytest

from app.bindings.record import Record
from app.brokers.member import GroupMember
from app.model.message import Assigned, Lost, Message, Partition, Revoked

PLACE = Partition("orders", 0)
MESSAGE = Message(Record(None, (), b""), PLACE, "0", 0, 0, 1)
ASSIGNED, REVOKED, LOST = Assigned((PLACE,), 1), Revoked((PLACE,), 1), Lost((PLACE,), 1)


class OneMember(GroupMember):
    """Hands out what the test puts there."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: deque[tuple[Message, ...]] = deque()
        self.resumed: list[Partition] = []

    def resume(self, partitions: Collection[Partition]) -> None:
        self.resumed += partitions

    async def _batch(self) -> tuple[Message, ...]:
        return self.batches.popleft() if self.batches else ()


@pytest.fixture
async def member() -> OneMember:
    return OneMember()  # type: ignore[abstract]  # what is not alike is left out


async def test_changes_come_in_their_order_before_messages(member: OneMember) -> None:
    """Messages of a partition are of no use to who does not know yet that it is his."""
    member.batches.append((MESSAGE,))
    member._enqueue(ASSIGNED)
    member._enqueue(LOST)
    assert [await member.poll(0.0) for _ in range(4)] == [ASSIGNED, LOST, (MESSAGE,), None]


async def test_a_pause_ends_with_a_new_assignment(member: OneMember) -> None:
    """The worker forgets with the loss of a partition that it has paused it, and would never resume it."""
    member._enqueue(LOST)
    member._enqueue(ASSIGNED)
    assert await member.poll(0.0) == LOST
    assert member.resumed == []
    assert await member.poll(0.0) == ASSIGNED
    assert member.resumed == [PLACE]


async def test_a_poll_that_waits_is_woken_by_a_change(member: OneMember) -> None:
    polling = asyncio.create_task(member.poll(600.0))
    await asyncio.sleep(0)
    member._enqueue(ASSIGNED)
    assert await polling == ASSIGNED


async def test_a_revocation_is_dealt_with_by_the_poll_after_the_one_that_told_it(
    member: OneMember,
) -> None:
    """Until then what is in work may still be settled (rule 5)."""
    member._enqueue(ASSIGNED)
    dealt = member._revoke(REVOKED)
    assert await member.poll(0.0) == ASSIGNED
    assert await member.poll(0.0) == REVOKED
    assert not dealt.is_set()
    assert await member.poll(0.0) is None
    assert dealt.is_set()


async def test_a_revocation_that_came_too_late_deals_with_no_newer_one(member: OneMember) -> None:
    assert not await member._revoke_and_wait(REVOKED, within=0.0)
    newer = member._revoke(Revoked((PLACE,), 2))
    assert await member.poll(0.0) == REVOKED
    assert await member.poll(0.0) == Revoked((PLACE,), 2)
    assert not newer.is_set()


async def test_a_failure_is_raised_once_and_after_what_was_told_before(member: OneMember) -> None:
    member._enqueue(ASSIGNED)
    member._fail(ZeroDivisionError())
    assert await member.poll(0.0) == ASSIGNED
    with pytest.raises(ZeroDivisionError):
        await member.poll(0.0)
    assert await member.poll(0.0) is None


async def test_nobody_waits_for_a_member_that_is_closed(member: OneMember) -> None:
    polling = asyncio.create_task(member.poll(600.0))
    revoking = asyncio.create_task(member._revoke_and_wait(REVOKED, within=600.0))
    await asyncio.sleep(0)
    member._end()
    assert await revoking
    await polling
    assert await member._revoke_and_wait(REVOKED, within=600.0)


async def test_a_nudged_poll_returns_and_only_one(member: OneMember) -> None:
    """Also where nothing waits yet: the poll that comes next. What is there to hand out comes all the same."""
    polling = asyncio.create_task(member.poll(600.0))
    await asyncio.sleep(0)
    member.nudge()
    assert await polling is None
    member.nudge()
    assert await member.poll(600.0) is None
    member.nudge()
    member.batches.append((MESSAGE,))
    assert await member.poll(600.0) == (MESSAGE,)
    assert await member.poll(600.0) is None
