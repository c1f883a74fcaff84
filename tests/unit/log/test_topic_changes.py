"""Topics that grow and go, and groups that are forgotten with their age."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from app.bindings.record import Record
from app.errors import BoundReached, BrokerRefused, PositionOutOfRange
from app.log.engine import LogEngine
from app.log.groups.positions import CommittedOffset, DeclaredGroup
from app.log.groups.protocol import GroupJoinRequest
from app.log.sequences import Batch
from log_steps import ManualTime, append_stored, numbered, place, read_all, started

DAY_MS = 86_400_000


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LogEngine]:
    engine = await started(tmp_path, partitions=2, segment_bytes=200)
    yield engine
    await engine.stop()


def tables(folder: Path) -> int:
    db = apsw.Connection(str(folder / "log.db"))
    ((count,),) = db.execute("SELECT count(*) FROM sqlite_schema WHERE name GLOB 's[0-9]*'")
    db.close()
    return count


async def test_a_deleted_topic_is_gone_with_all_that_was_known_of_it(
    engine: LogEngine, tmp_path: Path
) -> None:
    """One of its name begins anew: an old position would pass over new records."""
    for count in range(5):
        await append_stored(engine, "t", *numbered(*range(count + 1), size=100))
    await append_stored(engine, "other", *numbered(7))
    await engine.groups.commit(
        "g", {place("t"): CommittedOffset(3), place("other"): CommittedOffset(1)}
    )
    await engine.append_to(place("t"), [Record(None, (), b"n")], Batch(1, 0, 0, 1))
    await engine.delete_topic("t")
    assert set(engine.topics()) == {"other"}
    assert dict(engine.groups.positions.of("g")) == {place("other"): CommittedOffset(1)}
    assert tables(tmp_path) == 1
    await engine.create_topic("t", 1)
    assert await engine.append_to(place("t"), [Record(None, (), b"n")], Batch(1, 0, 5, 1))
    assert [m.offset for m in await read_all(engine, "t")] == [0]


async def test_a_deleted_topic_stays_deleted(engine: LogEngine, tmp_path: Path) -> None:
    """Also for the start after."""
    await append_stored(engine, "t", *numbered(1))
    await engine.delete_topic("t")
    await engine.stop()
    await engine.start()
    assert not engine.topics()
    assert not engine.findings


async def test_what_a_subscription_reads_is_neither_deleted_nor_grown(engine: LogEngine) -> None:
    """Its place, and the order of its keys, would mean something else."""
    await engine.create_topic("t")
    await engine.groups.declare([DeclaredGroup("billing", ("t",))])
    with pytest.raises(BrokerRefused, match="read by billing"):
        await engine.delete_topic("t")
    with pytest.raises(BrokerRefused, match="read by billing"):
        await engine.grow_topic("t", 5)
    await engine.groups.forget("billing")
    await engine.delete_topic("t")


async def test_who_waits_for_a_deleted_topic_is_told(engine: LogEngine) -> None:
    """A long poll must not last for what cannot come."""
    await engine.create_topic("t")
    told = asyncio.Event()
    engine.watch(place("t"), told.set)
    await engine.delete_topic("t")
    assert told.is_set()
    with pytest.raises(PositionOutOfRange):
        engine.partition(place("t"))


async def test_a_page_of_a_deleted_topic_is_refused(engine: LogEngine) -> None:
    """A reader that had found its partition meets no missing table."""
    await append_stored(engine, "t", *numbered(1, 2, 3))
    number = next(p.number for p in engine.topics()["t"].partitions if p.next_offset)
    reading = asyncio.create_task(engine.page(place("t", number), 0))
    await engine.delete_topic("t")
    with contextlib.suppress(PositionOutOfRange):
        assert len((await reading).messages) == 3
    with pytest.raises(PositionOutOfRange):
        await engine.page(place("t", number), 0)


async def test_a_topic_grows_and_stays_grown(engine: LogEngine) -> None:
    """The partitions it had keep their records."""
    await append_stored(engine, "t", *numbered(1))
    await engine.grow_topic("t", 5)
    await engine.append_to(place("t", 4), [Record(None, (), b"new")])
    await engine.stop()
    await engine.start()
    assert len(engine.topics()["t"].partitions) == 5
    assert sorted(m.record.body or b"" for m in await read_all(engine, "t")) == [b"1", b"new"]
    with pytest.raises(BrokerRefused, match="already"):
        await engine.grow_topic("t", 5)
    with pytest.raises(BrokerRefused):
        await engine.grow_topic("absent", 5)


async def test_partitions_are_bounded_over_all_topics(tmp_path: Path) -> None:
    """Rule 8: a client that asks for a million of them gets an answer, not the memory."""
    engine = await started(tmp_path, max_partitions=10)
    await engine.create_topic("t", 8)
    for refused in (engine.create_topic("u", 3), engine.grow_topic("t", 11)):
        with pytest.raises(BoundReached):
            await refused
    await engine.create_topic("u", 2)
    await engine.stop()


async def test_a_group_nobody_uses_is_forgotten_and_its_generations_never_come_back(
    tmp_path: Path,
) -> None:
    """Names of console consumers must not fill the file; an epoch that came twice would fence nobody."""
    clock = ManualTime(100 * DAY_MS)
    engine = await started(tmp_path, now_ms=clock)
    await engine.create_topic("t")
    for group in ("gone", "declared", "used", "live"):
        await engine.groups.commit(group, {place("t"): CommittedOffset(0)})
        await engine.groups.advance(group, 41)
    await engine.groups.declare([DeclaredGroup("declared", ("t",))])
    clock.now_ms += 8 * DAY_MS
    await engine.groups.commit("used", {place("t"): CommittedOffset(0)})
    coordinator = engine.coordinator
    join = GroupJoinRequest(
        member="m", protocols=(("range", b""),), session_timeout=9, rebalance_timeout=9
    )
    await coordinator.join("live", join)
    await engine.stop()
    await engine.start()
    assert await engine.upkeep.forget_groups() == 1
    assert engine.groups.positions.groups() == ["declared", "live", "used"]
    assert engine.groups.positions.generation("gone") == 41
    await engine.stop()
    await engine.start()
    assert engine.groups.positions.generation("whoever") == 41
    await engine.stop()


async def test_a_group_counts_its_age_from_its_last_member(tmp_path: Path) -> None:
    """Members that committed nothing for long have not left it idle."""
    clock = ManualTime(100 * DAY_MS)
    engine = await started(tmp_path, now_ms=clock)
    coordinator = engine.coordinator
    await engine.create_topic("t")
    await engine.groups.commit("g", {place("t"): CommittedOffset(0)})
    join = GroupJoinRequest(
        member="m", protocols=(("range", b""),), session_timeout=9, rebalance_timeout=9
    )
    await coordinator.join("g", join)
    clock.now_ms += 30 * DAY_MS
    assert await engine.upkeep.forget_groups() == 0
    coordinator.leave("g", "m")
    assert await engine.upkeep.forget_groups() == 0
    clock.now_ms += 8 * DAY_MS
    assert await engine.upkeep.forget_groups() == 1
    await engine.stop()


async def test_a_topic_that_is_created_again_has_another_id(
    engine: LogEngine, tmp_path: Path
) -> None:
    """Its id would else be that of the last topic, if that was the newest one."""
    await engine.create_topic("t", 1)
    first = engine.topics()["t"].id
    await engine.delete_topic("t")
    await engine.stop()
    again = await started(tmp_path, partitions=2, segment_bytes=200)
    await again.create_topic("t", 1)
    assert again.topics()["t"].id > first
    await again.stop()
