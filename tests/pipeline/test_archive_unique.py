"""Every event once, of ranges that are made by hand: which of several records stays, what a range that was left
half-way leaves, and that no wide row is moved for it. Counted by PyIceberg.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bindings.record import Record
from app.errors import SetupError
from app.pipeline import history
from app.pipeline.archive import known, progress, raw, unique
from app.pipeline.archive.derive import Derived, derive
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.ranges import pending, split_by_records
from hand_made_lake import HandMadeLake
from replay_records import binary_record

pytestmark = [pytest.mark.usefixtures("spark")]

BROKEN = Record(b"k", (("ce_specversion", b"1.0"), ("ce_id", b"x")), b"{}")
TOMBSTONE = Record(b"k", (), None)


@pytest.fixture
def house(tmp_path: Path) -> HandMadeLake:
    return HandMadeLake(tmp_path)


def test_the_record_stored_first_stays_and_later_ranges_change_nothing(house: HandMadeLake) -> None:
    """Also in a lake that the release before has made, whose ``events`` asks for a shuffle by bucket."""
    table = house.lake.table("events")
    house.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.distribution-mode' = 'hash')")
    house.stored(
        (5, binary_record("a")),
        (1, binary_record("b")),
        (2, binary_record("a")),
        (3, BROKEN),
        (4, TOMBSTONE),
    )
    rules = {"missing-attribute": 1, "not-a-cloudevent": 1}
    assert house.derived() == Derived(5, 2, 1, quarantined=2, rules=rules)
    assert house.events() == {("/s", "a"): 2, ("/s", "b"): 1}, "a: by the broker's clock"
    assert house.quarantined() == [3, 4]

    house.stored((0, binary_record("a")), (0, binary_record("b")))
    before = len(list(history.snapshots(house.session, table)))
    assert house.derived() == Derived(records=2, duplicates=2), "what is there wins over all"
    assert house.events() == {("/s", "a"): 2, ("/s", "b"): 1}
    assert len(list(history.snapshots(house.session, table))) == before + 1, "for its progress"

    house.stored((9, binary_record("c")), (9, BROKEN), (9, binary_record("a", source="/other")))
    house.left_half_way()
    assert house.quarantined() == [3, 4]
    house.stored((9, binary_record("d")), (9, binary_record("c")))
    assert house.derived() == Derived(
        records=5, events=1, duplicates=3, quarantined=1, rules={"missing-attribute": 1}
    )
    assert house.events() == {
        ("/s", "a"): 2, ("/s", "b"): 1, ("/s", "c"): 7, ("/other", "a"): 9, ("/s", "d"): 10,
    }  # fmt: skip
    assert house.quarantined() == [3, 4, 8]
    assert house.derived() == Derived()
    assert progress.read(house.session, table) == {"main": {"t": {0: 12}}}


def shuffled(chance: random.Random, count: int, names: int) -> Iterator[tuple[float, Record]]:
    for _ in range(count):
        broken = chance.random() < 0.1
        yield (
            chance.randrange(50),
            BROKEN if broken else binary_record(str(chance.randrange(names))),
        )


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 8))
def test_many_duplicates_leave_what_a_plain_loop_leaves(
    house: HandMadeLake, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Fewer duplicates than new ones, more, and identities by the hundred: the driver remembers those of the table, or those
    that arrive go to every task.
    """
    monkeypatch.setattr(unique, "FEW", 3)
    chance, broken = random.Random(seed), []
    expected: dict[tuple[str, str], int] = {}
    for names, larger in ((400, 4), (60, 4), (5_000, 0)):
        monkeypatch.setattr(known, "LARGER", larger)
        house.known = house.known if larger else IdentityCache()
        records = list(shuffled(chance, 120, names))
        arriving: dict[tuple[str, str], tuple[float, int]] = {}
        for offset, (at, record) in enumerate(records, house.next):
            if record is BROKEN:
                broken.append(offset)
                continue
            key = ("/s", (dict(record.headers)["ce_id"] or b"").decode())
            arriving[key] = min((at, offset), arriving.get(key, (at, offset)))
        fresh = {key: offset for key, (_, offset) in arriving.items() if key not in expected}
        house.stored(*records)
        assert house.derived().events == len(fresh)
        expected |= fresh
    assert house.events() == expected
    assert house.quarantined() == broken


@pytest.mark.nightly
def test_an_operator_may_add_columns_and_change_the_codec(house: HandMadeLake) -> None:
    """Also in a session whose strings are large: rows that come later have nulls, and duplicates are found."""
    house.stored((1, binary_record("a")), (2, BROKEN))
    house.derived()
    for words in ("ADD COLUMN later STRING", "ADD COLUMN ratio DOUBLE"):
        house.session.sql(f"ALTER TABLE {house.lake.table('events')} {words}")
    for name, codec in (("events", "snappy"), ("quarantine", "uncompressed")):
        changed = f"SET TBLPROPERTIES ('write.parquet.compression-codec' = '{codec}')"
        house.session.sql(f"ALTER TABLE {house.lake.table(name)} {changed}")
    house.session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    house.stored((3, binary_record("a")), (4, binary_record("b")), (5, BROKEN))
    assert house.derived() == Derived(
        records=3, events=1, duplicates=1, quarantined=1, rules={"missing-attribute": 1}
    )
    assert house.events() == {("/s", "a"): 0, ("/s", "b"): 3}
    rows = house.session.table(house.lake.table("events")).select("later", "ratio").collect()
    assert {tuple(row) for row in rows} == {(None, None)}


@pytest.mark.nightly
def test_files_with_struck_rows_are_read_by_spark(house: HandMadeLake) -> None:
    """An operator has struck a record out of ``events_raw``, and the file still has it."""
    name = house.lake.table("events_raw")
    changed = "SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    house.session.sql(f"ALTER TABLE {name} {changed}")
    house.stored(
        (0, binary_record("a")), (0, binary_record("b")), (0, BROKEN), (0, binary_record("c"))
    )
    assert _without_spark(house), "as long as nothing is struck"
    house.session.sql(f"DELETE FROM {name} WHERE offset = 1")
    assert not _without_spark(house)
    assert house.derived() == Derived(
        records=3, events=2, quarantined=1, rules={"missing-attribute": 1}
    )
    assert house.events() == {("/s", "a"): 0, ("/s", "c"): 3}


def _without_spark(house: HandMadeLake) -> bool:
    whole = pending(house.session, house.lake)
    found = raw.records(house.session, house.lake, whole.start, whole.end)
    return found.frame.columns == ["paths"]


@pytest.mark.nightly
def test_a_range_ends_within_a_file(house: HandMadeLake) -> None:
    """Upkeep has made one file of many, and it has more than is derived at once."""
    for n in range(0, 9, 3):
        house.stored(*((0, binary_record(f"{n + more}")) for more in range(3)))
    house.session.sql(
        f"CALL lake.system.rewrite_data_files(table => '{house.lake.table('events_raw')}', options => map('min-input-files', '2'))"
    )
    assert house.derived(most=2) == Derived(records=9, events=9)
    assert house.events() == {("/s", f"{n}"): n for n in range(9)}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("table", "field", "other"),
    [
        ("events", "identity_bucket", "bucket(2, source)"),
        ("events", "time_day", "days(record_time)"),
        ("quarantine", "record_time_day", "bucket(2, offset)"),
    ],
)
def test_other_partitions_are_refused_before_a_row_is_written(
    house: HandMadeLake, table: str, field: str, other: str
) -> None:
    named = house.lake.table(table)
    house.session.sql(f"ALTER TABLE {named} REPLACE PARTITION FIELD {field} WITH {other}")
    house.stored((1, binary_record("a")))
    with pytest.raises(SetupError, match=rf"{table} has other partitions"):
        house.derived()
    assert not list((house.folder / "skybridge" / "events").rglob("*.parquet"))


def test_identities_and_buckets_are_those_of_spark_and_iceberg(house: HandMadeLake) -> None:
    """Of the rows that tasks have written. Iceberg looks for a bucket's rows in the files of that bucket alone."""
    house.stored(*((n, binary_record(f"e-{n}-ü", source=f"/s/{n % 3}")) for n in range(50)))
    house.derived()
    table = house.lake.table("events")
    named = "regexp_extract(input_file_name(), 'identity_bucket=([0-9])', 1)"
    rows = house.session.table(table).selectExpr(
        "identity = xxhash64(source, id)", f"lake.system.bucket(2, identity) = {named}"
    )
    assert rows.distinct().collect() == [(True, True)]
    assert rows.count() == 50


@pytest.mark.nightly
def test_rows_are_written_by_the_tasks_that_decoded_them(house: HandMadeLake) -> None:
    """No job that writes has a stage before it: no shuffle, no sort."""
    table = house.lake.table("events")
    house.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.distribution-mode' = 'hash')")
    house.stored(*((n, binary_record(str(n % 90))) for n in range(100)), (0, BROKEN))
    found: dict[str, list[int]] = {}
    context: Any = house.session.sparkContext

    def named(moment: str) -> None:
        context.setJobGroup(moment, moment)
        found[moment] = []

    [piece] = split_by_records(house.session, house.lake, pending(house.session, house.lake), 1_000)
    assert derive(house.session, house.lake, piece, named, house.known).duplicates == 10
    tracker = context.statusTracker()
    for moment, stages in found.items():
        for job in tracker.getJobIdsForGroup(moment):
            stages.append(len(tracker.getJobInfo(job).stageIds))
    assert found["range begun"] == [1], "events and quarantine"
    assert not found["events committed"]
