"""The storage engine: what is stored stays, what cannot be stored says so, and full is not broken."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

import log_format_2
from app.bindings.record import Record
from app.errors import (
    BoundReached,
    BrokerRefused,
    BrokerUnavailable,
    PositionOutOfRange,
    SetupError,
)
from app.log.database import FILE
from app.log.engine import LogEngine
from app.log.groups.positions import CommittedOffset
from app.log.sequences import Batch
from app.log.size import reserve
from app.model.receipt import Receipt
from log_steps import ManualTime, append, append_stored, numbered, place, read_all, started
from pages import CHECKOUT
from waiting import until


async def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    """Records, next offsets, positions and generations survive together."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(0, 1, 2))
    await engine.groups.commit("g", {place("t"): CommittedOffset(2, "f1:1")})
    await engine.groups.advance("g", 5)
    await engine.stop()
    engine = await started(tmp_path)
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0", b"1", b"2"]
    assert engine.groups.positions.of("g") == {place("t"): CommittedOffset(2, "f1:1")}
    assert engine.groups.positions.generation("g") == 5
    (receipt,) = await append_stored(engine, "t", *numbered(3))
    assert receipt.position == "3"
    await engine.stop()


async def test_commits_of_positions_ride_on_the_commit_group_that_is_written_anyway(
    tmp_path: Path,
) -> None:
    """One transaction and one fsync, and told by nobody before it is there; where it fails, both fail."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(0))
    outcomes: list[bool] = []
    told: list[int] = []
    fails = False

    def committing() -> bool:
        outcomes.append(fails)
        told.append(len(engine.groups.positions.of("g")))
        return fails

    await engine._writer_or_raise().run(lambda db: db.set_commit_hook(committing))
    committed = engine.groups.commit("g", {place("t"): CommittedOffset(1)})
    await asyncio.gather(append_stored(engine, "t", *numbered(1)), committed)
    assert (outcomes, told) == ([False], [0])
    fails = True
    refused = engine.groups.commit("g", {place("t"): CommittedOffset(2)})
    (result,) = await append(engine, "t", *numbered(2))
    assert isinstance(result, BrokerRefused)
    with pytest.raises(BrokerRefused):
        await refused
    assert engine.groups.positions.of("g") == {place("t"): CommittedOffset(1)}
    await engine.stop()


async def test_the_same_log_can_be_started_again(tmp_path: Path) -> None:
    """A reload stops and starts it; nothing may be counted twice."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(0, 1))
    await engine.stop()
    await engine.start()
    await append_stored(engine, "t", *numbered(2))
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0", b"1", b"2"]
    await engine.stop()


async def test_a_second_process_is_told_the_path_and_the_cure(tmp_path: Path) -> None:
    """Two writers would hand out the same offsets twice."""
    engine = await started(tmp_path)
    with pytest.raises(SetupError, match=str(tmp_path)) as raised:
        await started(tmp_path)
    assert raised.value.setting == "brokers.log.path"
    assert raised.value.cure
    await engine.stop()
    await (await started(tmp_path)).stop()


async def test_a_newer_format_is_refused_loudly(tmp_path: Path) -> None:
    """A downgrade must not guess at what it cannot read (reliability R15)."""
    await (await started(tmp_path)).stop()
    with_db(tmp_path, "PRAGMA user_version = 99")
    with pytest.raises(SetupError, match="format 99"):
        await started(tmp_path)


async def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    """Neither another program's database nor a text file is written over."""
    other = tmp_path / "other"
    other.mkdir()
    with_db(other, "CREATE TABLE theirs(x)")
    garbage = tmp_path / "garbage"
    garbage.mkdir()
    (garbage / FILE).write_bytes(b"not a database at all" * 400)
    for folder in (other, garbage):
        with pytest.raises(SetupError, match="not a log of Skybridge"):
            await started(folder)


async def test_a_folder_that_cannot_be_made_is_a_setup_error(tmp_path: Path) -> None:
    """It names the path, at start-up, rather than failing the first event."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SetupError, match="file"):
        await started(tmp_path / "file" / "log")


@pytest.mark.parametrize("harm", ["truncate", "flip"])
async def test_a_damaged_tail_of_the_write_ahead_log_costs_only_the_tail(
    tmp_path: Path, harm: str
) -> None:
    """It starts, serves an unbroken beginning, and never garbage (reliability R10)."""
    engine = await started(tmp_path / "a", partitions=1)
    for number in range(30):
        await append_stored(engine, "t", *numbered(number, size=900))
    copy = tmp_path / "b"
    copy.mkdir()
    for name in (FILE, f"{FILE}-wal"):
        (copy / name).write_bytes((tmp_path / "a" / name).read_bytes())
    await engine.stop()
    wal = bytearray((copy / f"{FILE}-wal").read_bytes())
    at = len(wal) * 2 // 3
    if harm == "truncate":
        del wal[at:]
    else:
        wal[at : at + 8] = bytes(byte ^ 0xFF for byte in wal[at : at + 8])
    (copy / f"{FILE}-wal").write_bytes(wal)
    engine = await started(copy)
    served = [int((m.record.body or b"").rstrip(b".")) for m in await read_all(engine, "t")]
    assert 0 < len(served) < 30
    assert served == list(range(len(served)))
    (receipt,) = await append_stored(engine, "t", *numbered(99))
    assert int(receipt.position) == len(served)
    await engine.stop()


async def test_flipped_bytes_cost_the_records_of_one_commit_and_are_reported(
    tmp_path: Path,
) -> None:
    """SQLite does not check its pages: our checksum does (reliability R10)."""
    engine = await started(tmp_path, partitions=1)
    for n in range(5):
        await append_stored(
            engine, "t", *(Record(b"k", (), b"needle-%d.%d" % (n, m)) for m in range(3))
        )
    await engine.stop()
    file = tmp_path / FILE
    data = file.read_bytes()
    assert data.count(b"needle-2.1") == 1
    file.write_bytes(data.replace(b"needle-2.1", b"nEedle-2.1"))
    engine = await started(tmp_path)
    served = [m.record.body for m in await read_all(engine, "t")]
    assert served == [b"needle-%d.%d" % (n, m) for n in (0, 1, 3, 4) for m in range(3)]
    assert engine.damaged == 3
    assert (await engine.page(place("t"), 7)).messages[0].offset == 9, "from within the damage too"
    await engine.stop()


async def test_damage_at_the_end_of_a_segment_and_of_the_log_holds_up_nobody(
    tmp_path: Path,
) -> None:
    """Where a damaged row ended is known from what follows it (reliability R10)."""
    engine = await started(tmp_path, partitions=1, segment_bytes=1_000)
    for n in range(4):  # two rows in each of two segments
        await append_stored(engine, "t", *numbered(n * 2, n * 2 + 1, size=300))
    assert [segment.base for segment in engine.partition(place("t")).segments] == [0, 4]
    tables = [segment.table for segment in engine.partition(place("t")).segments]
    await engine.stop()
    with_db(tmp_path, f"UPDATE {tables[0]} SET count = 77 WHERE base_offset = 2")
    with_db(tmp_path, f"UPDATE {tables[1]} SET checksum = checksum + 1 WHERE base_offset = 6")
    engine = await started(tmp_path)
    assert [m.offset for m in await read_all(engine, "t")] == [0, 1, 4, 5]
    assert engine.damaged == 4
    assert (await append_stored(engine, "t", *numbered(8)))[0].position == "8"
    assert (await engine.page(place("t"), 3)).messages[0].offset == 4
    assert [m.offset for m in (await engine.page(place("t"), 7)).messages] == [8]
    await engine.stop()


async def test_records_that_are_gone_are_reported_and_passed_over(tmp_path: Path) -> None:
    """A hole at the end must not hold up a reader for ever, nor be filled with old offsets (R10)."""
    engine = await started(tmp_path, partitions=1)
    for n in range(3):
        await append_stored(engine, "t", *numbered(n))
    table = engine.partition(place("t")).segments[0].table
    await engine.stop()
    with_db(tmp_path, f"DELETE FROM {table} WHERE base_offset > 0")
    engine = await started(tmp_path)
    assert "next offset 3" in engine.findings[0]
    (receipt,) = await append_stored(engine, "t", *numbered(3))
    assert receipt.position == "3"
    assert (await engine.page(place("t"), 1, until=3)).next_offset == 3
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0", b"3"]
    await engine.stop()


async def test_the_check_at_the_start_finds_a_damaged_page(tmp_path: Path) -> None:
    """For operators who want to know before the first event, at the price of reading everything."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(*range(200), size=500))
    await engine.stop()
    file = tmp_path / FILE
    data = bytearray(file.read_bytes())
    page = len(data) // 4096 - 3
    data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(data)
    engine = await started(tmp_path, check_on_start=True)
    assert engine.findings
    await engine.stop()


async def test_a_record_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    """One bad record must not fail its neighbours in the commit group."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(0))
    limit_length(engine, 20_000)
    good, bad, mixed = (
        append(engine, "t", *numbered(1)),
        append(engine, "t", *numbered(2, size=30_000)),
        append(engine, "t", *numbered(3), *numbered(4, size=30_000), *numbered(5)),
    )
    assert isinstance((await good)[0], Receipt)
    (refused,) = await bad
    assert isinstance(refused, BrokerRefused)
    assert refused.kind == "record-too-large"
    assert [type(result) for result in await mixed] == [Receipt, BrokerRefused, Receipt]
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0", b"1", b"3", b"5"]
    assert [m.offset for m in await read_all(engine, "t")] == [0, 1, 2, 3]
    await engine.stop()


async def test_a_header_name_that_is_no_text_is_refused_alone(tmp_path: Path) -> None:
    """A lone surrogate has no UTF-8."""
    engine = await started(tmp_path, partitions=1)
    results = await append(engine, "t", Record(b"k", (("\ud800", b""),), b"x"), *numbered(1))
    assert [type(result) for result in results] == [BrokerRefused, Receipt]
    assert getattr(results[0], "kind", "") == "unwritable", "no repetition stores it"
    await engine.stop()


async def test_what_nobody_waits_for_is_not_stored(tmp_path: Path) -> None:
    """What is not on the wire when its time is over is dropped (rule 9)."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(0))
    abandoned = append(engine, "t", *numbered(1))
    abandoned.cancel()
    await append_stored(engine, "t", *numbered(2))
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0", b"2"]
    await engine.stop()


async def test_the_size_cap_answers_503_and_room_opens_it_again(tmp_path: Path) -> None:
    """A full bound is not a failure: nothing stored is lost, and it heals (rule 8, R9)."""
    cap = 2 << 20
    engine = await started(tmp_path, partitions=1, max_bytes=cap, segment_bytes=256 << 10)
    accepted = 0
    while True:
        (result,) = await append(engine, "t", *numbered(accepted, size=20_000))
        if not isinstance(result, Receipt):
            break
        accepted += 1
    assert isinstance(result, BoundReached)
    assert result.retry_after
    assert not engine.health().healthy
    assert "max_bytes" in engine.health().cause
    assert len(await read_all(engine, "t")) == accepted
    on_disk = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert on_disk < cap * 1.2
    await engine.groups.commit("g", {place("t"): CommittedOffset(accepted)})
    await drop_oldest(engine, "t", 3)
    await until_healthy(engine)
    await append_stored(engine, "t", *numbered(accepted, size=20_000))
    await engine.stop()


async def test_a_full_disk_answers_503_and_the_log_goes_on_afterwards(tmp_path: Path) -> None:
    """SQLITE_FULL is a full bound, not damage (rule 8)."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(0))
    database = writer_db(engine)
    pages = int(database.pragma("page_count"))
    database.pragma("max_page_count", pages + 2)
    (result,) = await append(engine, "t", *numbered(1, size=100_000))
    assert isinstance(result, BoundReached)
    database.pragma("max_page_count", pages + 10_000)
    await until_healthy(engine)
    await append_stored(engine, "t", *numbered(2, size=100_000))
    assert [m.offset for m in await read_all(engine, "t")] == [0, 1]
    await engine.stop()


async def test_a_volume_that_is_nearly_full_takes_no_events_and_still_settles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 8: the room that is left is for commits and retention, which bring room back."""
    volume = SimpleNamespace(f_frsize=4096, f_blocks=(40 << 30) // 4096, f_bavail=0)
    monkeypatch.setattr("app.log.size.os.statvfs", lambda _: volume)
    engine = await started(tmp_path, partitions=1, segment_bytes=1)
    volume.f_bavail = reserve(40 << 30) // 4096
    await append_stored(engine, "t", *numbered(0))
    volume.f_bavail -= 1
    (result,) = await append(engine, "t", *numbered(1))
    assert isinstance(result, BoundReached)
    assert "reserved for settling" in str(result)
    assert "no room on the disk" in engine.health().cause
    await engine.groups.commit("g", {place("t"): CommittedOffset(1)})
    await engine.upkeep.retain()
    volume.f_bavail += 1
    await until_healthy(engine)
    await append_stored(engine, "t", *numbered(1))
    await engine.stop()


@pytest.mark.parametrize(
    ("size", "kept"),
    [(100 << 30, 5 << 30), (20 << 30, 1 << 30), (10 << 30, 1 << 30), (1 << 30, (1 << 30) // 10)],
)
def test_what_is_kept_free_is_less_than_the_alert_of_a_filling_disk(size: int, kept: int) -> None:
    """5 % or 1 GiB, and a tenth of a small volume: the chart's alert speaks first."""
    assert reserve(size) == pytest.approx(kept, abs=1)
    values = (CHECKOUT / "helm/skybridge/values.yaml").read_text()
    (share,) = re.findall(r"(?m)^ +diskFree: ([0-9.]+)$", values)
    assert reserve(size) < float(share) * size


async def test_the_write_ahead_log_stays_bounded(tmp_path: Path) -> None:
    """It counts towards the cap and costs time at a restart."""
    engine = await started(tmp_path, wal_bytes=256 << 10)
    for _ in range(60):
        await asyncio.gather(*(append(engine, "t", *numbered(n, size=3_000)) for n in range(20)))
    assert (tmp_path / f"{FILE}-wal").stat().st_size < 4 * (256 << 10)
    await engine.stop()


async def test_a_topic_comes_to_be_by_its_first_record(tmp_path: Path) -> None:
    """With the number of partitions that the setting says, unless it was made before."""
    engine = await started(tmp_path, partitions=5)
    await engine.create_topic("made", 2)
    await append_stored(engine, "made", *numbered(0))
    await append_stored(engine, "new", *numbered(0))
    counts = {name: len(topic.partitions) for name, topic in engine.topics().items()}
    assert counts == {"made": 2, "new": 5}
    await engine.stop()


async def test_a_name_that_cannot_be_a_topic_fails_its_records_alone(tmp_path: Path) -> None:
    """Names come from templates, hence from senders; and their number is bounded (rule 8)."""
    engine = await started(tmp_path, max_topics=2)
    bad, good = append(engine, "no/slash", *numbered(0)), append(engine, "good", *numbered(0))
    assert isinstance((await bad)[0], BrokerRefused)
    assert isinstance((await good)[0], Receipt)
    for name in ("", ".", "..", "x" * 250):
        assert isinstance((await append(engine, name, *numbered(0)))[0], BrokerRefused)
    await append_stored(engine, "second", *numbered(0))
    assert isinstance((await append(engine, "third", *numbered(0)))[0], BoundReached)
    await engine.stop()


async def test_times_never_go_back_and_are_found(tmp_path: Path) -> None:
    """A clock that steps back must not break the search by time (reliability R11)."""
    time = ManualTime(1_000)
    engine = await started(tmp_path, partitions=1, segment_bytes=2_000, now_ms=time)
    for now_ms in (1_000, 2_000, 500, 3_000, 4_000):
        time.now_ms = now_ms
        await append_stored(engine, "t", *numbered(0, 1, size=900))
    assert [m.time_ms for m in await read_all(engine, "t")][::2] == [1000, 2000, 2000, 3000, 4000]
    assert len(engine.partition(place("t")).segments) > 2
    found = {at: await engine.offset_at(place("t"), at) for at in (0, 1_000, 1_001, 2_500, 4_001)}
    assert found == {0: 0, 1_000: 0, 1_001: 2, 2_500: 6, 4_001: 10}
    await engine.stop()


async def test_a_time_is_found_between_the_records_of_commits(tmp_path: Path) -> None:
    """All records of a commit have its time; the first of them is what a search by time finds."""
    time = ManualTime(1_000)
    engine = await started(tmp_path, partitions=1, now_ms=time)
    for count in (5, 1, 300):
        await append_stored(engine, "t", *numbered(*range(count)))
        time.now_ms += 1_000
    found = {at: await engine.offset_at(place("t"), at) for at in (999, 1_001, 2_000, 2_001, 3_001)}
    assert found == {999: 0, 1_001: 5, 2_000: 5, 2_001: 6, 3_001: 306}
    await engine.stop()


async def once(engine: LogEngine, batch: Batch, *numbers: int) -> int:
    return (await engine.append_to(place("t"), numbered(*numbers), batch)).base


async def test_a_numbered_batch_is_stored_once(tmp_path: Path) -> None:
    """Idempotent producers: what is sent twice is stored once, also across a restart."""
    engine = await started(tmp_path)
    await engine.create_topic("t", 1)
    first, second = Batch(7, 0, 0, 2), Batch(7, 0, 2, 1)
    assert await once(engine, first, 0, 1) == 0
    assert await once(engine, first, 0, 1) == 0
    assert await once(engine, second, 2) == 2
    await engine.stop()
    engine = await started(tmp_path)
    assert await once(engine, second, 2) == 2
    with pytest.raises(BrokerRefused, match="skipped"):
        await once(engine, Batch(7, 0, 9, 1), 9)
    assert await once(engine, Batch(7, 1, 0, 1), 3) == 3
    with pytest.raises(BrokerRefused, match="newer epoch"):
        await once(engine, Batch(7, 0, 3, 1), 4)
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0", b"1", b"2", b"3"]
    await engine.stop()


async def test_stopping_ends_the_threads_and_stores_what_was_taken(tmp_path: Path) -> None:
    """No thread may outlive its log, and no append its answer."""
    before = threading.active_count()
    engine = await started(tmp_path, partitions=1)
    appending = [append(engine, "t", *numbered(n)) for n in range(100)]
    await engine.stop()
    for each in appending:
        assert isinstance((await each)[0], Receipt)
    await until(lambda: threading.active_count() <= before)
    with pytest.raises(RuntimeError):
        engine.append(appending[0])


async def test_a_page_is_bounded_by_records_and_by_bytes(tmp_path: Path) -> None:
    """A reader holds its transaction for one page only."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(*range(20), size=1_000))
    page = await engine.page(place("t"), 0, max_records=3)
    assert (len(page.messages), page.next_offset) == (3, 3)
    page = await engine.page(place("t"), 3, max_bytes=4_000)
    assert (len(page.messages), page.next_offset) == (4, 7)
    page = await engine.page(place("t"), 7, until=9)
    assert [m.offset for m in page.messages] == [7, 8]
    with pytest.raises(PositionOutOfRange):
        await engine.page(place("t"), 21)
    await engine.stop()


async def test_reading_begins_and_ends_anywhere_within_a_commit(tmp_path: Path) -> None:
    """Consumers ask by record, rows hold many: a page is a slice of them."""
    engine = await started(tmp_path, partitions=1)
    for first in (0, 10, 20):
        await append_stored(engine, "t", *numbered(*range(first, first + 10), size=100))
    for start in range(31):
        for end in range(start, 31, 7):
            page = await engine.page(place("t"), start, until=end)
            assert [m.offset for m in page.messages] == list(range(start, end))
            assert [int((m.record.body or b"").rstrip(b".")) for m in page.messages] == [
                m.offset for m in page.messages
            ]
    page = await engine.page(place("t"), 8, max_records=7)
    assert ([m.offset for m in page.messages], page.next_offset) == (list(range(8, 15)), 15)
    await engine.stop()


async def test_a_job_on_a_broken_log_is_refused(tmp_path: Path) -> None:
    """Commits too: who cannot store must not promise."""
    engine = await started(tmp_path)
    writer_db(engine).close()
    (result,) = await append(engine, "t", *numbered(0))
    assert isinstance(result, BrokerUnavailable)
    with pytest.raises(BrokerUnavailable):
        await engine.groups.commit("g", {place("t"): CommittedOffset(0)})
    await engine.stop()


def with_db(folder: Path, statement: str) -> None:
    database = apsw.Connection(str(folder / FILE))
    database.execute(statement)
    database.close()


def writer_db(engine: object) -> apsw.Connection:
    return engine._writer._db  # type: ignore[attr-defined, no-any-return]


def limit_length(engine: object, size: int) -> None:
    writer_db(engine).limit(apsw.SQLITE_LIMIT_LENGTH, size)


async def drop_oldest(engine: object, topic: str, count: int) -> None:
    """As retention would."""
    log = engine.partition(place(topic))  # type: ignore[attr-defined]
    catalogue = engine._catalogue  # type: ignore[attr-defined]
    await engine._writer.run(lambda db: catalogue.drop_segments(db, log, count))  # type: ignore[attr-defined]


async def until_healthy(engine: object) -> None:
    await until(lambda: engine.health().healthy)  # type: ignore[attr-defined]


async def test_numbered_batches_share_a_commit(tmp_path: Path) -> None:
    """A producer has five in flight: they must not cost an fsync each, nor be judged by what is on disk
    alone."""
    engine = await started(tmp_path)
    await engine.create_topic("t", 1)
    batches = [Batch(7, 0, n, 1) for n in (0, 1, 1, 2, 9, 3)]
    fates = [engine.append_to(place("t"), numbered(each.first), each) for each in batches]
    results = await asyncio.gather(*fates, return_exceptions=True)
    assert [getattr(each, "base", "refused") for each in results] == [0, 1, 1, 2, "refused", 3]
    times = {m.time_ms for m in await read_all(engine, "t")}
    assert len(times) == 1
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0", b"1", b"2", b"3"]
    await engine.stop()


async def test_a_placed_append_is_stored_as_a_whole(tmp_path: Path) -> None:
    """One record that cannot be written refuses its batch: numbers must stand for what is stored."""
    engine = await started(tmp_path)
    await engine.create_topic("t", 1)
    bad = Record(None, (("\ud800", b""),), b"")
    with pytest.raises(BrokerRefused, match="cannot be stored"):
        await engine.append_to(place("t"), [*numbered(0), bad], Batch(7, 0, 0, 2))
    assert (await engine.append_to(place("t"), numbered(0), Batch(7, 0, 0, 1))).base == 0
    with pytest.raises(BrokerRefused, match="no such partition"):
        await engine.append_to(place("t", 1), numbered(0))
    with pytest.raises(BrokerRefused, match="no topic"):
        await engine.append_to(place("gone"), numbered(0))
    await engine.stop()


async def test_a_numbered_batch_that_nobody_waits_for_is_not_stored(tmp_path: Path) -> None:
    """Rule 9, also of numbered batches: the number is free for when it is sent again."""
    engine = await started(tmp_path)
    await engine.create_topic("t", 1)
    engine.append_to(place("t"), numbered(0), Batch(7, 0, 0, 1)).cancel()
    assert (await engine.append_to(place("t"), numbered(1), Batch(7, 0, 0, 1))).base == 0
    assert [m.record.body for m in await read_all(engine, "t")] == [b"1"]
    await engine.stop()


async def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    """Also not after a restart: the state of another would swallow its batches as duplicates."""
    engine = await started(tmp_path)
    cluster = engine.cluster
    first = [await engine.new_producer() for _ in range(3)]
    await engine.stop()
    engine = await started(tmp_path)
    assert engine.cluster == cluster != ""
    assert len({*first, await engine.new_producer()}) == 4
    await engine.stop()


async def test_an_id_that_was_never_given_and_is_used_is_never_given(tmp_path: Path) -> None:
    """A producer that outlived its log goes on under its id: the batches of another under the same one would be taken
    for repeats, acknowledged and not stored (rule 1)."""
    engine = await started(tmp_path)
    await engine.create_topic("t", 1)
    for stranger in (0, 1):
        await engine.append_to(place("t"), numbered(0), Batch(stranger, 0, 0, 1))
    own = await engine.new_producer()
    append_stored = await engine.append_to(place("t"), numbered(1), Batch(own, 0, 0, 1))
    assert (own, append_stored.base) == (2, 2)
    assert await engine.new_producer() == 3
    await engine.stop()


async def test_producers_that_are_quiet_are_forgotten(tmp_path: Path) -> None:
    """Every run of a client is a producer of its own: what is known of them must not grow for ever."""
    time = ManualTime(1_000)
    engine = await started(tmp_path, now_ms=time, producer_age=10.0)
    await engine.create_topic("t", 1)
    await engine.append_to(place("t"), numbered(0), Batch(1, 0, 0, 1))
    time.now_ms += 9_000
    await engine.append_to(place("t"), numbered(0), Batch(2, 0, 0, 1))
    assert await engine.upkeep.forget_producers() == 0
    time.now_ms += 1_001
    assert await engine.upkeep.forget_producers() == 1
    assert await engine.upkeep.forget_producers() == 0
    assert (await engine.append_to(place("t"), numbered(0), Batch(2, 0, 0, 1))).base == 1
    await engine.stop()


async def test_a_log_of_format_1_is_brought_up(tmp_path: Path) -> None:
    """An operator who upgrades keeps every record."""
    engine = await started(tmp_path, partitions=1)
    await append_stored(engine, "t", *numbered(0))
    await engine.stop()
    with_db(
        tmp_path,
        "DROP TABLE identity; DROP TABLE producers; ALTER TABLE groups DROP COLUMN used_ms;"
        "DROP TABLE identities; DROP TABLE prints; CREATE TABLE producers(id INTEGER PRIMARY KEY);"
        "PRAGMA user_version = 1",
    )
    engine = await started(tmp_path)
    assert [m.record.body for m in await read_all(engine, "t")] == [b"0"]
    assert await engine.new_producer() == 0
    await engine.stop()


async def test_a_log_of_format_2_is_brought_up(tmp_path: Path) -> None:
    """Written by the tables of format 2, from before groups had an age: rows, offsets, positions and
    generations are there, what comes next follows them, and no group is taken for an old one.
    """
    log_format_2.write(tmp_path)
    time = ManualTime(1_000_000_000)
    engine = await started(tmp_path, now_ms=time, group_age=3_600.0)
    assert engine.findings == []
    assert engine.cluster == log_format_2.CLUSTER
    found = await read_all(engine, "t")
    assert [(m.offset, m.record.body) for m in found] == [(40, b"0"), (41, b"1"), (42, b"2")]
    assert engine.groups.positions.of("readers") == {place("t"): CommittedOffset(41, "f1:1")}
    assert engine.groups.positions.generation("readers") == 7
    assert await engine.new_producer() == 12
    known = await engine.append_to(place("t"), numbered(2), Batch(11, 0, 4, 1))
    assert known.base == 42  # sent again after the upgrade: stored before it
    assert (await append_stored(engine, "t", *numbered(3)))[0].position == "43"
    assert await engine.upkeep.forget_groups() == 0
    assert engine.groups.positions.generation("readers") == 7
    await engine.stop()
    engine = await started(tmp_path)
    assert len(await read_all(engine, "t")) == 4
    await engine.stop()


async def test_runs_give_what_pages_give(tmp_path: Path) -> None:
    """Across commits, segments and the middle of a row."""
    engine = await started(tmp_path, partitions=1, segment_bytes=2_000)
    for count in (3, 1, 300, 2):
        await append_stored(engine, "t", *numbered(*range(count), size=20))
    messages = await read_all(engine, "t")
    for offset in (0, 1, 4, 100, 305, 306):
        found = await engine.scan(place("t"), offset, list)
        flat = [(run.base + n, fields[2]) for run in found for n, fields in enumerate(run.records)]
        assert flat == [(m.offset, m.record.body) for m in messages[offset:]]
    with pytest.raises(PositionOutOfRange):
        await engine.scan(place("t"), 307, list)
    await engine.stop()
