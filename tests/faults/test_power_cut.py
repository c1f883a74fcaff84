"""The embedded log loses nothing that it has acknowledged when the power goes off at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from random import Random
from typing import Literal

import apsw
import pytest

from app.bindings.record import Record
from app.brokers.embedded import ConsumerSettings, EmbeddedDriver, EngineSettings, RetentionLimits
from app.brokers.portable import PortableLog, PublishBounds
from app.errors import BrokerUnavailable, SkybridgeError
from app.log.database import Synchronous
from app.log.engine import LogEngine
from app.log.groups.positions import CommittedOffset
from app.model.message import Partition
from app.model.receipt import Receipt
from log_steps import ManualTime, append, append_stored, numbered, read_all, started
from power_cut import ForgetfulDisk
from power_cut_history import CutHistory
from spool_rig import SpoolHouse
from waiting import until

WRITERS = 6
EACH = 40
SEGMENT = 2 << 10  # bytes: the run makes dozens of them
TOPIC = "orders"
GROUP = "skybridge.test.reader"

pytestmark = pytest.mark.fault


class Run:
    """What was promised until the power went off."""

    def __init__(self) -> None:
        self.history = CutHistory()
        self.committed: dict[Partition, int] = {}


def settings(folder: Path, vfs: str | None, synchronous: Synchronous) -> EngineSettings:
    """Small enough that cuts fall into checkpoints and into the making of segments too."""
    return EngineSettings(
        path=folder,
        partitions=3,
        segment_bytes=SEGMENT,
        wal_bytes=96 << 10,
        synchronous=synchronous,
        vfs=vfs,
    )


def driver(
    folder: Path, vfs: str | None = None, synchronous: Synchronous = "FULL"
) -> EmbeddedDriver:
    return EmbeddedDriver(settings(folder, vfs, synchronous), ConsumerSettings())


async def run_until_cut(folder: Path, disk: ForgetfulDisk, synchronous: Synchronous) -> Run:
    """Several tasks publish, one after the other each, until they are done or the power is off."""
    run = Run()
    embedded = driver(folder, disk.name, synchronous)
    log = PortableLog(embedded, PublishBounds(drain_timeout=1.0))
    try:
        await log.start()
    except apsw.Error:
        assert disk.is_cut, "only the power may stop it"
        return run
    await asyncio.gather(*(_write(log, embedded, disk, run, number) for number in range(WRITERS)))
    disk.cut()
    await log.stop()
    return run


async def _write(
    log: PortableLog, embedded: EmbeddedDriver, disk: ForgetfulDisk, run: Run, number: int
) -> None:
    for count in range(EACH):
        body = b"%d:%d:" % (number, count) + b"x" * (37 * (count % 11))
        begun = time.monotonic()
        (result,) = await log.submit(TOPIC, [Record(b"%d" % number, (("n", b"1"),), body)])
        stored = isinstance(result, Receipt) and not disk.is_cut
        place = f"{result.partition}/{result.position}" if stored else None
        run.history.sent(*identity(body), body, begun, place, 202 if stored else None)
        if not stored:
            return
        if count % 8 == 7:
            place = Partition(TOPIC, result.partition)
            position = max(int(result.position), run.committed.get(place, 0))
            try:
                await embedded.engine.groups.commit(GROUP, {place: CommittedOffset(position)})
            except BrokerUnavailable:
                return
            if not disk.is_cut:
                run.committed[place] = max(position, run.committed.get(place, 0))


def identity(body: bytes) -> tuple[str, str]:
    """Return the id of an event and its key, which is the number of its writer."""
    writer, count, _ = body.decode().split(":")
    return f"{writer}:{count}", writer


Found = tuple[list[bytes], dict[Partition, int]]
"""The bodies by partition and position, and the committed positions."""


async def what_is_there(folder: Path) -> Found:
    """Return what another start of the log finds. Raises when the file is damaged."""
    embedded = driver(folder)
    log = PortableLog(embedded)
    try:
        await log.start()
        assert embedded.engine.findings == []
        return await _everything(log, embedded)
    finally:
        await log.stop()


async def _everything(log: PortableLog, embedded: EmbeddedDriver) -> Found:
    found: list[bytes] = []
    for topic in (await log.metadata()).topics:
        for partition in topic.partitions:
            place = Partition(topic.name, partition.number)
            async for message in log.read(place, partition.earliest):
                assert message.record.body is not None
                found.append(message.record.body)
    positions = {place: c.offset for place, c in embedded.engine.groups.positions.of(GROUP).items()}
    return found, positions


async def cut_and_judge(
    tmp_path: Path, seed: int, cut_at: int, synchronous: Synchronous = "FULL"
) -> dict[str, int]:
    """Return what the checker finds after a cut at that operation: the count of each verdict that convicts."""
    kept = (0.0, 0.5, 0.9, 1.0) if synchronous == "FULL" else (0.0,)
    disk = ForgetfulDisk(seed, cut_at, kept)
    try:
        run = await run_until_cut(tmp_path / "before", disk, synchronous)
        disk.restore(tmp_path / "after")
    finally:
        disk.close()
    try:
        found, positions = await what_is_there(tmp_path / "after")
    except (AssertionError, SkybridgeError, apsw.Error):
        if synchronous == "FULL":
            raise
        found, positions = (
            [],
            {},
        )  # without its syncs the file may even be damaged: all of it is lost
    for body in found:
        run.history.found(*identity(body), body)
    for place, offset in run.committed.items() if synchronous == "FULL" else ():
        assert positions.get(place, -1) >= offset, "a committed position went back"
    return run.history.judge().faults


async def operations_of_a_whole_run(tmp_path: Path) -> int:
    disk = ForgetfulDisk(0)
    try:
        await run_until_cut(tmp_path / "whole", disk, "FULL")
    finally:
        disk.close()
    return disk.operations


async def many_cuts(tmp_path: Path, cuts: int, seed: int) -> list[dict[str, int]]:
    """Cut in each of ``cuts`` equal stretches of the run, and return the verdicts of each."""
    total = await operations_of_a_whole_run(tmp_path)
    random = Random(seed)
    found = []
    for number in range(cuts):
        low, high = 1 + total * number // cuts, total * (number + 1) // cuts
        cut_at = random.randint(low, max(low, high))
        folder = tmp_path / f"cut-{number}"
        found.append(await cut_and_judge(folder, random.randrange(1 << 30), cut_at))
    return found


async def test_a_power_cut_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The first promise (reliability G1, 5.5): 202 means the disk has it."""
    assert await many_cuts(tmp_path, cuts=8, seed=20261121) == [{}] * 8


async def test_the_run_rolls_over_many_segments(tmp_path: Path) -> None:
    """Else the cuts above would not fall into the making of segments."""
    disk = ForgetfulDisk(0)
    embedded = driver(tmp_path / "log", disk.name)
    try:
        log = PortableLog(embedded)
        await log.start()
        run = Run()
        await asyncio.gather(*(_write(log, embedded, disk, run, n) for n in range(WRITERS)))
        segments = [len(p.segments) for p in embedded.engine.topics()[TOPIC].partitions]
        await log.stop()
    finally:
        disk.close()
    assert sum(segments) > 12


async def emptied_until_cut(folder: Path, disk: ForgetfulDisk) -> int:
    """Some records, all of which retention then drops, and one more; cut at the latest at the end.
    Returns how many were acknowledged."""
    time = ManualTime()
    engine = LogEngine(
        EngineSettings(
            path=folder,
            partitions=1,
            segment_bytes=SEGMENT,
            retention=RetentionLimits(max_age=60),
            retention_interval=3600,
            now_ms=time,
            vfs=disk.name,
        )
    )
    acknowledged = 0
    try:
        await engine.start()
        for number in range(3):
            results = await append(engine, TOPIC, *numbered(*range(4), size=500 * number))
            acknowledged += sum(isinstance(result, Receipt) for result in results)
        time.now_ms += 61_000
        await engine.upkeep.retain()
        (result,) = await append(engine, TOPIC, *numbered(12))
        acknowledged += isinstance(result, Receipt)
    except (apsw.Error, SkybridgeError):
        assert disk.is_cut, "only the power may stop it"
    disk.cut()
    await engine.stop()
    return acknowledged


async def test_no_cut_while_segments_are_made_and_dropped_gives_an_offset_twice(
    tmp_path: Path,
) -> None:
    """The next offset is told by the last row, or by the base of a segment that has none: one of
    them is there after a cut at any operation (reliability G1, R10)."""
    disk = ForgetfulDisk(0)
    assert await emptied_until_cut(tmp_path / "whole", disk) == 13
    disk.close()
    earliest = set()
    for cut_at in range(1, disk.operations + 1):
        disk = ForgetfulDisk(cut_at, cut_at)
        acknowledged = await emptied_until_cut(tmp_path / f"{cut_at}", disk)
        disk.restore(tmp_path / f"{cut_at}-after")
        disk.close()
        engine = await started(tmp_path / f"{cut_at}-after", partitions=1)
        assert engine.findings == []
        if TOPIC in engine.topics():
            log = engine.topics()[TOPIC].partitions[0]
            earliest.add(log.earliest)
            assert log.next_offset >= acknowledged
            served = [message.offset for message in await read_all(engine, TOPIC)]
            assert served == list(range(log.earliest, log.next_offset))
        assert acknowledged == 0 or TOPIC in engine.topics()
        (receipt,) = await append_stored(engine, TOPIC, *numbered(0))
        assert int(receipt.position) >= acknowledged
        await engine.stop()
    assert earliest == {0, 12}, "cuts before the segments went, and after"


class Spooled:
    """Events of a route with a spool: what was acknowledged, and what the target has in the end."""

    def __init__(self, folder: Path) -> None:
        self.house = SpoolHouse(folder)
        folder.mkdir()
        self.history = CutHistory()

    async def until_cut(self, disk: ForgetfulDisk, synchronous: Synchronous) -> None:
        """The target is away, comes back for a while, and goes away again."""
        settings = {"vfs": disk.name, "synchronous": synchronous, "segment_bytes": SEGMENT}
        try:
            async with self.house.running(**settings, wal_bytes=96 << 10):
                await asyncio.gather(*(self._write(disk, number) for number in range(WRITERS)))
                disk.cut()
        except (apsw.Error, SkybridgeError):
            assert disk.is_cut, "only the power may stop it"

    async def _write(self, disk: ForgetfulDisk, number: int) -> None:
        for count in range(EACH):
            if count == EACH // 3:
                self.house.back()
                await until(lambda: bool(self.house.target.stored) or disk.is_cut)
            elif count == EACH * 2 // 3:
                self.house.target.fault = BrokerUnavailable("away")
            body, begun, result = b"%d:%d:" % (number, count), time.monotonic(), None
            with contextlib.suppress(SkybridgeError):
                (result,) = await self.house.post(body.decode(), b"%d" % number)
            stored = isinstance(result, Receipt) and not disk.is_cut
            self.history.sent(*identity(body), body, begun, None, 202 if stored else None)
            if not stored:
                return

    async def judge(self, disk: ForgetfulDisk) -> dict[str, int]:
        """Return the verdicts after another start has drained what the disk has kept."""
        for file in (self.house.folder / "log").iterdir():
            file.unlink()
        (self.house.folder / "log").rmdir()
        disk.restore(self.house.folder / "log")
        self.house.back()
        async with self.house.running():
            await self.house.until_state("empty")
            assert (await self.house.post("again"))[0].broker == "main"
        self.history.may_repeat()
        for body in self.house.target.bodies[:-1]:
            self.history.found(*identity(body.encode()), body.encode())
        return self.history.judge().faults


async def spooled_and_cut(
    folder: Path, seed: int, cut_at: int, synchronous: Synchronous = "FULL"
) -> tuple[int, dict[str, int], int]:
    """Return the count of acknowledged events, the verdicts, and the operations of the disk."""
    kept = (0.0, 0.5, 0.9, 1.0) if synchronous == "FULL" else (0.0,)
    disk, run = ForgetfulDisk(seed, cut_at, kept), Spooled(folder)
    try:
        await run.until_cut(disk, synchronous)
        faults = await run.judge(disk)
        return run.history.acknowledged, faults, disk.operations
    finally:
        disk.close()


async def test_a_power_cut_of_the_disk_of_a_spool_loses_nothing(tmp_path: Path) -> None:
    """Rule 1: 202 means the spool's disk has it, or the target; what is drained and what is not is told apart by
    that disk too."""
    acknowledged, faults, total = await spooled_and_cut(tmp_path / "whole", 0, 0)
    assert (faults, acknowledged) == ({}, WRITERS * EACH)
    random = Random(22)
    for number in range(4):
        cut_at = random.randint(1 + total * number // 4, total * (number + 1) // 4)
        _, faults, _ = await spooled_and_cut(tmp_path / f"cut-{number}", number, cut_at)
        assert faults == {}


@pytest.mark.nightly
async def test_without_full_synchronisation_the_same_cut_of_a_spool_does_lose(
    tmp_path: Path,
) -> None:
    """The control."""
    _, _, total = await spooled_and_cut(tmp_path / "whole", 0, 0)
    found: dict[str, int] = {}
    for tenth in (3, 5, 8):
        with contextlib.suppress(SkybridgeError, apsw.Error):  # it may even be damaged
            cut_at = total * tenth // 10
            found |= (await spooled_and_cut(tmp_path / f"{tenth}", tenth, cut_at, "OFF"))[1]
    assert "lost" in found


@pytest.mark.nightly
async def test_many_power_cuts_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """The same at 300 moments."""
    assert await many_cuts(tmp_path, cuts=300, seed=7) == [{}] * 300


@pytest.mark.parametrize("synchronous", [pytest.param("OFF", marks=pytest.mark.nightly), "NORMAL"])
async def test_without_full_synchronisation_the_same_cut_does_lose(
    tmp_path: Path, synchronous: Literal["OFF", "NORMAL"]
) -> None:
    """The control: a test of loss that cannot lose proves nothing (reliability 1, lesson c)."""
    total = await operations_of_a_whole_run(tmp_path)
    convicted = [
        await cut_and_judge(tmp_path / f"cut-{tenth}", tenth, total * tenth // 10, synchronous)
        for tenth in (3, 5, 7, 9)
    ]
    assert any("lost" in each for each in convicted)


async def test_a_failed_sync_stops_acceptance_for_good(tmp_path: Path) -> None:
    """After a failed fsync nobody knows what is stored: a second one may lie (reliability 5.5)."""
    disk = ForgetfulDisk(1)
    log = PortableLog(driver(tmp_path / "log", disk.name))
    await log.start()
    record = Record(b"k", (), b"x")
    (append_stored,) = await log.submit(TOPIC, [record])
    assert isinstance(append_stored, Receipt)
    disk.fail_syncs = True
    (refused,) = await log.submit(TOPIC, [record])
    assert isinstance(refused, BrokerUnavailable)
    disk.fail_syncs = False
    (again,) = await log.submit(TOPIC, [record])
    assert isinstance(again, BrokerUnavailable)
    health = await log.health()
    assert not health.healthy
    assert "start again" in health.cause
    await log.stop()
    disk.close()
