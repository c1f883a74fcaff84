"""Whole segments go, oldest first, and never what a declared group has not read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from app.errors import PositionOutOfRange
from app.log.engine import LogEngine
from app.log.groups.positions import CommittedOffset, DeclaredGroup
from app.log.partitions import Segment
from app.log.settings import RetentionLimits
from app.log.upkeep import droppable
from log_steps import ManualTime, append_stored, numbered, place, read_all, started

NOW = 100_000
SEGMENTS = [Segment(1, 0, 100, 10_000), Segment(2, 10, 100, 50_000), Segment(3, 20, 100, 90_000)]
END = 30


@pytest.mark.parametrize(
    ("retention", "needed", "expected"),
    [
        (RetentionLimits(), None, 0),
        (RetentionLimits(max_age=60), None, 1),
        (RetentionLimits(max_age=5), None, 3),
        (RetentionLimits(max_age=90.001), None, 0),
        (RetentionLimits(max_bytes=300), None, 0),
        (RetentionLimits(max_bytes=299), None, 1),
        (RetentionLimits(max_bytes=1), None, 2),
        (RetentionLimits(max_age=5), 9, 0),
        (RetentionLimits(max_age=5), 10, 1),
        (RetentionLimits(max_age=5), 19, 1),
        (RetentionLimits(max_age=5), 30, 3),
        (RetentionLimits(max_age=5), 0, 0),
    ],
)
def test_only_whole_segments_that_nobody_needs_may_go(
    retention: RetentionLimits, needed: int | None, expected: int
) -> None:
    """By age the newest too, by size never the newest: it is what is kept."""
    assert droppable(SEGMENTS, END, retention, NOW, needed) == expected


def test_an_empty_segment_stays() -> None:
    """It keeps the place: offsets must never be given out again."""
    assert droppable([Segment(1, 30)], 30, RetentionLimits(max_age=1, max_bytes=0), NOW, None) == 0


async def filled(folder: Path, time: ManualTime, **settings: object) -> LogEngine:
    """Ten records, a second apart, two in a segment."""
    engine = await started(
        folder, partitions=1, segment_bytes=1_500, now_ms=time, retention_interval=3600, **settings
    )
    for number in range(10):
        time.now_ms += 1_000
        await append_stored(engine, "t", *numbered(number, size=900))
    return engine


async def test_old_segments_go_and_their_offsets_are_never_used_again(tmp_path: Path) -> None:
    """Also when all of them went, and also after a restart."""
    time = ManualTime()
    engine = await filled(tmp_path, time, retention=RetentionLimits(max_age=60))
    time.now_ms += 61_000
    assert await engine.upkeep.retain() > 0
    log = engine.partition(place("t"))
    assert (log.earliest, log.next_offset) == (10, 10)
    with pytest.raises(PositionOutOfRange) as raised:
        await engine.page(place("t"), 3)
    assert raised.value.earliest == "10"
    await engine.stop()
    engine = await started(tmp_path)
    (receipt,) = await append_stored(engine, "t", *numbered(10))
    assert receipt.position == "10"
    assert [m.offset for m in await read_all(engine, "t")] == [10]
    await engine.stop()


async def test_a_crash_after_everything_went_does_not_give_old_offsets_again(
    tmp_path: Path,
) -> None:
    """No record is left to tell the next offset: the empty segment does, without an orderly stop."""
    time = ManualTime()
    engine = await filled(tmp_path / "a", time, retention=RetentionLimits(max_age=60))
    time.now_ms += 61_000
    assert await engine.upkeep.retain() > 0
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    await engine.stop()
    for _ in range(2):  # the second start has had an orderly stop before it
        engine = await started(tmp_path / "b")
        log = engine.partition(place("t"))
        assert (log.earliest, log.next_offset, engine.findings) == (10, 10, [])
        await engine.stop()
    engine = await started(tmp_path / "b")
    (receipt,) = await append_stored(engine, "t", *numbered(10))
    assert receipt.position == "10"
    await engine.stop()


async def test_a_declared_group_keeps_what_it_has_not_read(tmp_path: Path) -> None:
    """Retention never passes the lowest position of a declared subscription."""
    time = ManualTime()
    engine = await filled(tmp_path, time, retention=RetentionLimits(max_age=1))
    await engine.groups.declare([DeclaredGroup("slow", ("t",)), DeclaredGroup("fast", ("t",))])
    await engine.groups.commit("fast", {place("t"): CommittedOffset(10)})
    time.now_ms += 100_000
    assert await engine.upkeep.retain() == 0, "the slow one has committed nothing yet"
    await engine.groups.commit("slow", {place("t"): CommittedOffset(5)})
    await engine.upkeep.retain()
    assert 0 < engine.partition(place("t")).earliest <= 5
    await engine.stop()


async def test_a_group_may_say_that_its_unread_records_can_go(tmp_path: Path) -> None:
    """``drop_unread``, and a group that is declared no more."""
    time = ManualTime()
    engine = await filled(tmp_path, time, retention=RetentionLimits(max_age=1))
    time.now_ms += 100_000
    await engine.groups.declare([DeclaredGroup("g", ("t",))])
    assert await engine.upkeep.retain() == 0
    await engine.groups.declare([DeclaredGroup("g", ("t",), drop_unread=True)])
    assert await engine.upkeep.retain() > 0
    await engine.stop()


async def test_who_is_declared_survives_a_restart_until_the_whole_is_declared_anew(
    tmp_path: Path,
) -> None:
    """Between the start of the log and of its subscriptions nothing may go."""
    time = ManualTime()
    engine = await filled(tmp_path, time)
    await engine.groups.declare([DeclaredGroup("gone", ("t",))])
    await engine.stop()
    time.now_ms += 100_000
    engine = await started(tmp_path, now_ms=time, retention=RetentionLimits(max_age=1))
    assert await engine.upkeep.retain() == 0
    await engine.groups.declare([], whole=True)
    assert await engine.upkeep.retain() > 0
    await engine.stop()


async def test_a_topic_can_have_a_retention_of_its_own(tmp_path: Path) -> None:
    """By size: the newest are kept."""
    time = ManualTime()
    engine = await filled(tmp_path, time, topic_retention={"t": RetentionLimits(max_bytes=4_000)})
    await append_stored(engine, "other", *numbered(*range(10), size=900))
    await engine.upkeep.retain()
    kept = [m.offset for m in await read_all(engine, "t")]
    assert kept == list(range(kept[0], 10))
    assert 3 <= len(kept) <= 5
    assert len(await read_all(engine, "other")) == 10
    await engine.stop()


async def test_a_trickle_does_not_outlive_its_age(tmp_path: Path) -> None:
    """A segment that never fills is closed by age, else one fresh record keeps all old ones."""
    time = ManualTime()
    engine = await started(
        tmp_path,
        partitions=1,
        now_ms=time,
        retention=RetentionLimits(max_age=40),
        retention_interval=3600,
    )
    for number in range(20):
        await append_stored(engine, "t", *numbered(number))
        time.now_ms += 10_000
        await engine.upkeep.retain()
    kept = await read_all(engine, "t")
    assert kept[-1].offset == 19
    assert all(message.time_ms >= time.now_ms - 80_000 for message in kept)
    await engine.stop()
