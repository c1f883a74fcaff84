"""Groups at work: futures, timers, and generations that are durable before anybody hears of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from app.errors import BoundReached
from app.log.engine import LogEngine
from app.log.groups.coordinator import Coordinator
from app.log.groups.positions import CommittedOffset
from app.log.groups.protocol import Code, GroupJoinRequest, GroupState
from log_steps import place, started

GROUP = "g"


def a_join(member: str, session: float = 10.0, rebalance: float = 10.0) -> GroupJoinRequest:
    return GroupJoinRequest(
        member=member,
        protocols=(("range", b""),),
        session_timeout=session,
        rebalance_timeout=rebalance,
    )


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LogEngine]:
    engine = await started(tmp_path, partitions=1)
    yield engine
    await engine.stop()


@pytest.fixture
async def coordinator(engine: LogEngine) -> Coordinator:
    return engine.coordinator


async def test_a_generation_is_stored_before_it_is_told(
    engine: LogEngine, coordinator: Coordinator
) -> None:
    """One that could be handed out twice would not fence anybody."""
    joined = await coordinator.join(GROUP, a_join("a"))
    assert engine.groups.positions.generation(GROUP) == joined.generation == 1


async def test_a_generation_that_cannot_be_stored_is_not_told(
    engine: LogEngine, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member is asked to try again, and may once there is room."""

    def refuse(*_: object) -> asyncio.Future[None]:
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(BoundReached("full"))
        return refused

    with monkeypatch.context() as patch:
        patch.setattr(engine.groups, "advance", refuse)
        joined = await coordinator.join(GROUP, a_join("a"))
        assert joined.code is Code.COORDINATOR_NOT_AVAILABLE
    joined = await coordinator.join(GROUP, a_join("a"))
    assert joined.code is Code.NONE
    assert engine.groups.positions.generation(GROUP) == joined.generation


async def test_a_silent_member_is_removed_by_the_timer(coordinator: Coordinator) -> None:
    """Nobody has to ask: the others' heartbeats tell them to join again."""
    joined = await coordinator.join(GROUP, a_join("a", session=0.05))
    await coordinator.sync(GROUP, "a", joined.generation, {})
    async with asyncio.timeout(60):
        while coordinator.state(GROUP) is not GroupState.EMPTY:
            await asyncio.sleep(0.005)
    assert coordinator.heartbeat(GROUP, "a", joined.generation) is Code.UNKNOWN_MEMBER


async def test_a_join_that_is_given_up_leaves_the_group(coordinator: Coordinator) -> None:
    """Else the others would wait for it until the rebalance time-out."""
    first = await coordinator.join(GROUP, a_join("a"))
    await coordinator.sync(GROUP, "a", first.generation, {})
    waiting = asyncio.create_task(coordinator.join(GROUP, a_join("b")))
    await asyncio.sleep(0)
    assert coordinator.heartbeat(GROUP, "a", first.generation) is Code.REBALANCE_IN_PROGRESS
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(60):
        again = await coordinator.join(GROUP, a_join("a"))
    assert [member for member, _ in again.members] == ["a"]


async def test_members_are_stirred_when_somebody_joins(coordinator: Coordinator) -> None:
    """So that a rebalance does not wait for the next heartbeat."""
    stirred = asyncio.Event()
    first = await coordinator.join(GROUP, a_join("a"))
    await coordinator.sync(GROUP, "a", first.generation, {})
    coordinator.watch(GROUP, stirred.set)
    waiting = asyncio.create_task(coordinator.join(GROUP, a_join("b")))
    async with asyncio.timeout(60):
        await stirred.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_commits_are_fenced_and_durable(engine: LogEngine, coordinator: Coordinator) -> None:
    """An old generation's commit changes nothing (reliability R12)."""
    joined = await coordinator.join(GROUP, a_join("a"))
    await coordinator.sync(GROUP, "a", joined.generation, {})
    good = {place("t"): CommittedOffset(5, "text")}
    assert await coordinator.commit(GROUP, "a", joined.generation, good) is Code.NONE
    stale = {place("t"): CommittedOffset(99)}
    code = await coordinator.commit(GROUP, "a", joined.generation - 1, stale)
    assert code is Code.ILLEGAL_GENERATION
    assert engine.groups.positions.of(GROUP) == good


async def test_commits_of_many_groups_share_a_transaction(
    engine: LogEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred subscriptions must not cost two hundred fsyncs a second."""
    rounds: list[int] = []
    store = engine.groups.positions.store
    monkeypatch.setattr(
        engine.groups.positions,
        "store",
        lambda db, commits: rounds.append(len(commits)) or store(db, commits),
    )
    groups = [f"group-{number}" for number in range(200)]
    await asyncio.gather(
        *(engine.groups.commit(g, {place("t"): CommittedOffset(7)}) for g in groups)
    )
    assert sum(rounds) == 200
    assert len(rounds) <= 3
    assert all(
        engine.groups.positions.of(group) == {place("t"): CommittedOffset(7)} for group in groups
    )


async def test_who_asks_again_takes_the_place_of_its_earlier_question(
    coordinator: Coordinator,
) -> None:
    """Over a new connection, before the old one is found dead: the old question is answered, and its
    end takes nobody out of the group."""
    joined = await coordinator.join(GROUP, a_join("a"))
    await coordinator.sync(GROUP, "a", joined.generation, {})
    first = asyncio.create_task(coordinator.join(GROUP, a_join("b")))
    await asyncio.sleep(0)
    second = asyncio.create_task(coordinator.join(GROUP, a_join("b")))
    assert (await first).code is Code.REBALANCE_IN_PROGRESS
    await coordinator.join(GROUP, a_join("a"))
    assert (await second).code is Code.NONE


async def test_an_invited_member_is_let_in_once_as_returning(coordinator: Coordinator) -> None:
    """KIP-394: a client whose first answer was lost must not leave a member behind."""
    coordinator.invite(GROUP, "a")
    returning = msgspec.structs.replace(a_join("a"), returning=True)
    assert (await coordinator.join(GROUP, returning)).code is Code.NONE
    coordinator.leave(GROUP, "a")
    assert (await coordinator.join(GROUP, returning)).code is Code.UNKNOWN_MEMBER


async def test_asking_about_a_group_does_not_make_one(coordinator: Coordinator) -> None:
    """Rule 8: heartbeats of unknown groups must not fill the memory."""
    assert coordinator.heartbeat("x", "m", 1) is Code.UNKNOWN_MEMBER
    assert (await coordinator.sync("x", "m", 1, {})).code is Code.UNKNOWN_MEMBER
    assert await coordinator.commit("x", "m", 1, {}) is Code.UNKNOWN_MEMBER
    assert coordinator.leave("x", "m") is Code.UNKNOWN_MEMBER
    assert coordinator.groups() == []
