"""``events`` by days: what a query of a day reads, what retention drops, what the window of duplicates means, and
lakes of the layout before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.bindings.record import Record
from app.pipeline import history, tables
from app.pipeline.archive import relayout
from app.pipeline.archive.derive import Derived
from app.pipeline.kinds import TypedTable
from app.pipeline.maintain import LakeRetention, UpkeepResult, maintain
from app.pipeline.query.duck import answer_from, datasets_of
from app.pipeline.query.scan import LakeDataset
from app.pipeline.typed.schema import columns_of
from hand_made_lake import HandMadeLake, Killed
from lake_folders import read_table
from replay_records import BEGIN, binary_record

pytestmark = [pytest.mark.usefixtures("spark")]

DAY = 86_400.0
KEPT = TypedTable(
    "com.example.a", "kept", columns_of(b'{"properties": {"n": {"type": "number"}}}', "at")
)


@pytest.fixture
def house(tmp_path: Path) -> HandMadeLake:
    return HandMadeLake(tmp_path)


def event(
    name: str, day: int, *, stored: float | None = None, timed: bool = True
) -> tuple[float, Record]:
    """An event of a day after BEGIN, whose record is stored on the same day or on another."""
    when = BEGIN + timedelta(days=day, hours=7)
    given = {"time": when.isoformat().replace("+00:00", "Z")} if timed else {}
    return (day if stored is None else stored) * DAY, binary_record(name, b"k", **given)


def opened(house: HandMadeLake, sql: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    """The first row of an answer, and the files that were opened for it."""
    found: list[str] = []
    read = LakeDataset._by_arrow

    def reading(self: LakeDataset, task: Any, *args: Any) -> Any:
        found.append(task.file.file_path)
        return read(self, task, *args)

    monkeypatch.setattr(LakeDataset, "_by_arrow", reading)
    answer = answer_from(datasets_of(house.lake, sql), sql, limit=1)
    monkeypatch.undo()
    return answer.rows[0], found


def upkeep(house: HandMadeLake, now: datetime, **how: Any) -> dict[str, UpkeepResult]:
    """What upkeep did, by table."""
    kept = LakeRetention(age=how.pop("age", None))
    found = maintain(house.session, house.lake, kept, now=now, **how)
    return {each.table: each for each in found}


def test_a_query_of_a_day_reads_the_files_of_that_day(
    house: HandMadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten days. The table has two buckets for each day."""
    house.has(KEPT)
    house.stored(*(event(f"{day}-{n}", day) for day in range(10) for n in range(4)))
    assert house.derived().events == 40
    for table, column in (("events", "time"), ("kept", "ce_time")):
        day = f"{column} >= '2026-01-06T00:00:00Z' AND {column} < '2026-01-07T00:00:00Z'"
        row, files = opened(house, f"SELECT count(*) FROM {table} WHERE {day}", monkeypatch)
        assert row == (4,)
        assert 1 <= len(files) <= 2
        assert all(f"{column}_day=2026-01-06/" in each for each in files)


@pytest.mark.nightly
def test_retention_drops_whole_days_and_nothing_comes_back(house: HandMadeLake) -> None:
    house.has(KEPT)
    house.stored(
        *(event(f"e{day}", day) for day in range(10)),
        *(event(f"untimed{day}", day, timed=False) for day in (1, 8)),
        event("late", 2, stored=9),
        (3 * DAY, Record(b"k", (("ce_id", b"broken"),), b"{}")),
    )
    house.derived()
    now = BEGIN + timedelta(days=10, hours=3)
    looked = upkeep(house, now, age=timedelta(days=5), dry_run=True)
    assert len(house.events()) == 13
    found = upkeep(house, now, age=timedelta(days=5))
    aged = {"events_raw": 7, "events": 7, "quarantine": 1, "kept": 7}
    assert {name: each.aged for name, each in found.items()} == aged
    assert {name: each.aged for name, each in looked.items()} == aged
    left = {"e5", "e6", "e7", "e8", "e9", "untimed8"}
    assert {name for _, name in house.events()} == left
    assert set(read_table(house.folder, "kept", ("ce_id",))["ce_id"].to_pylist()) == left
    deleted = [
        each for each in history.snapshots(house.session, house.lake.table("events"))
        if each.count("deleted-records") and each.operation == "delete"
    ]  # fmt: skip
    assert deleted, "whole files, which were not read"
    assert all(not each.count("added-records") for each in deleted)

    assert upkeep(house, now, age=timedelta(days=5))["events"].aged == 0
    assert house.derived() == Derived()
    house.stored(event("e9", 9), event("e1", 1), event("new", 9))
    assert house.derived() == Derived(records=3, events=2, duplicates=1), "e1 is not known any more"


@pytest.mark.nightly
def test_duplicates_are_found_across_days_within_the_window(house: HandMadeLake) -> None:
    """The time between the records counts, whatever the events' times. In one range as in several."""
    house.lake = msgspec.structs.replace(house.lake, window=30 * DAY)
    house.stored(event("a", 0), event("b", 0), event("a", 1, stored=20), event("b", 0, stored=31))
    assert house.derived() == Derived(records=4, events=3, duplicates=1)
    house.stored(event("a", 0, stored=29), event("a", 0, stored=40), event("b", 0, stored=50))
    assert house.derived() == Derived(records=3, events=1, duplicates=2), "a of day 40"
    house.stored(event("a", 0, stored=69), event("c", 0, stored=69), event("b", 5, stored=61.5))
    assert house.derived() == Derived(records=3, events=2, duplicates=1)
    rows = read_table(house.folder, "events", ("id", "offset")).to_pylist()
    found = sorted((row["id"], row["offset"]) for row in rows)
    assert found == [("a", 0), ("a", 5), ("b", 1), ("b", 3), ("b", 9), ("c", 8)]


@pytest.mark.nightly
def test_a_lake_of_the_layout_before_goes_on_and_can_be_moved(
    house: HandMadeLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move is killed after each commit, and an archive writes beside it. A file has deleted rows."""
    name = house.lake.table("events")
    house.session.sql(f"DROP TABLE {name}")
    house.session.sql(
        f"CREATE TABLE {name} ({tables.EVENTS}) USING iceberg PARTITIONED BY (bucket(4, identity))"
        f" TBLPROPERTIES ({tables.property_list(tables.PROPERTIES)})"
    )
    for n in range(3):
        house.stored(*(event(f"{day}-{n}", day) for day in range(8)))
        house.derived()
    house.session.sql(f"ALTER TABLE {name} ADD COLUMN mark STRING")
    house.session.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('write.update.mode' = 'merge-on-read')"
    )
    house.session.sql(f"UPDATE {name} SET mark = 'seen' WHERE id = '3-1'")
    deletes = house.session.table(f"{name}.delete_files")
    assert deletes.count() > 0, "a file has deleted rows"
    before = house.events()
    now = BEGIN + timedelta(days=9)
    assert upkeep(house, now, relayout=True, dry_run=True)["events"].moved > 1

    monkeypatch.setattr(relayout, "TOGETHER", 1)
    moves = []

    def die(step: str) -> None:
        moves.append(step)
        raise Killed

    for n in range(2):
        with pytest.raises(Killed):
            relayout.relayout(house.session, house.lake, die)
        house.stored(event(f"new-{n}", n), event("3-1", 3))
        assert house.derived() == Derived(records=2, events=1, duplicates=1)
    assert house.events().items() >= before.items()
    monkeypatch.undo()
    assert upkeep(house, now, relayout=True)["events"].moved > 0
    assert relayout.waiting(house.session, house.lake) == 0
    assert upkeep(house, now, relayout=True)["events"].moved == 0
    assert house.events() == {**before, ("/s", "new-0"): 24, ("/s", "new-1"): 26}
    rows = read_table(house.folder, "events", ("id", "mark")).to_pylist()
    assert {row["id"] for row in rows if row["mark"]} == {"3-1"}
    files = house.session.table(f"{name}.data_files").select("partition").distinct().collect()
    assert {str(each["partition"]["time_day"]) for each in files} >= {"2026-01-03"}
    assert all(each["partition"]["time_day"] is not None for each in files)
    house.stored(event("0-0", 0), event("later", 7))
    assert house.derived() == Derived(records=2, events=1, duplicates=1)
    assert now.tzinfo is UTC
