"""A running archive merges its small files: the rows stay, and other programs lose nothing."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.bindings.record import Record
from app.pipeline import tables
from app.pipeline.archive import small_files, unique
from app.pipeline.archive.derive import Derived
from app.pipeline.archive.follow import follow
from app.pipeline.archive.lock import holding_lock
from app.pipeline.archive.metrics import ArchiveMetrics
from app.pipeline.archive.small_files import FileMerger
from app.pipeline.kinds import TypedTable
from app.pipeline.maintain import LakeRetention, maintain
from app.pipeline.typed.schema import columns_of
from hand_made_lake import HandMadeLake
from lake_events import make_topic, produce
from lake_folders import lake_in, plan_for, read_table, session_of
from replay_records import BEGIN, binary_record
from waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.usefixtures("spark"),
]

TYPED = TypedTable(
    "com.example.a", "kept", columns_of(b'{"properties": {"n": {"type": "number"}}}', "at")
)
BROKEN = Record(b"k", (("ce_specversion", b"1.0"), ("ce_id", b"x")), b"{}")
NAMES = (*tables.COLUMNS, "kept")
FEWEST = 5
"""The number of small files that Iceberg's own compaction is worth."""


class Following:
    """A lake as an archive sees it that goes on, batch after batch."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(small_files, "EVERY", 0.0)
        monkeypatch.setattr(small_files, "MERGED", 3)
        self.house = HandMadeLake(folder, (TYPED,), buckets=1)
        self.metrics = ArchiveMetrics(["t"])
        self.merger = FileMerger(self.house.session, self.house.lake, self.metrics)
        self.merger.step()

    def batch(self, n: int) -> None:
        event = binary_record(f"e{n}", time="2026-01-02T00:00:00Z")
        self.house.stored(
            (n, event), (n, BROKEN), (n, binary_record("e0", time="2026-01-02T00:00:00Z"))
        )
        self.house.derived()

    def step(self) -> None:
        """All tables, of which one is merged in a step."""
        for _ in NAMES:
            self.merger.step()

    def files(self) -> dict[str, int]:
        table = self.house.lake.table
        return {name: self.house.session.table(f"{table(name)}.files").count() for name in NAMES}

    def rows(self) -> dict[str, list[Any]]:
        return {
            name: sorted(read_table(self.house.folder, name).to_pylist(), key=repr)
            for name in NAMES
        }

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"skybridge_archive_{name}", labels) or 0.0


@pytest.fixture
def following(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following(tmp_path, monkeypatch)


def test_files_become_few_and_rows_stay(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duplicates are known as before, without a further look at the table."""
    for n in range(3):
        following.batch(n)
    before = following.rows()
    many = following.files()
    assert many == {"events_raw": 3, "events": 3, "quarantine": 3, "kept": 3}
    following.step()
    assert following.files() == dict.fromkeys(NAMES, 1)
    assert following.rows() == before
    assert following.metric("merged_files_total", table="events_raw") == 3
    assert following.metric("rows_total", table="events_raw") == 9
    following.step()
    assert following.metric("files", table="events") == 1
    assert following.metric("failures_total", step="merge") == 0

    def search(*_: Any) -> Any:
        raise AssertionError("Spark searches the table")

    monkeypatch.setattr(unique, "_identities", search)
    following.batch(3)
    assert len(following.house.events()) == 4
    monkeypatch.undo()
    assert following.house.derived() == Derived()


def test_a_file_that_another_program_has_changed_is_given_up(following: Following) -> None:
    """Rows that were deleted meanwhile do not come back, and the archive goes on."""
    session, name = following.house.session, following.house.lake.table("events")
    session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    for n in range(2):
        following.batch(n)
        following.merger.step()
    session.sql(f"DELETE FROM {name} WHERE id = 'e1'")
    following.batch(2)
    following.step()
    assert {each for _, each in following.house.events()} == {"e0", "e2"}
    assert following.metric("failures_total", step="merge") == 0
    following.step()
    assert following.metric("conflicts_total", table="events") >= 1
    for n in range(3, 6):
        following.batch(n)
    following.step()
    assert {each for _, each in following.house.events()} == {"e0", "e2", "e3", "e4", "e5"}


def test_upkeep_beside_an_archive_leaves_it_the_day(following: Following) -> None:
    """Files of days before are rewritten. Those of today are, if no archive runs."""
    house = following.house
    for n in range(FEWEST):
        house.stored((n, binary_record(f"e{n}")))

    def rewritten(at: datetime) -> int:
        found = maintain(house.session, house.lake, LakeRetention(), now=at)
        return {each.table: each.rewritten for each in found}["events_raw"]

    with holding_lock(house.session, house.lake):
        assert rewritten(BEGIN + timedelta(hours=12)) == 0
        assert rewritten(BEGIN + timedelta(hours=36)) == FEWEST
    for n in range(FEWEST):
        house.stored((n, binary_record(f"e{n}")))
    assert rewritten(BEGIN + timedelta(hours=12)) >= FEWEST


@pytest.mark.kafka
def test_an_archive_that_follows_writes_a_file_for_a_batch(kafka: str, tmp_path: Path) -> None:
    """Of a topic with four partitions, while records arrive; and each record and event once."""
    lake = lake_in(tmp_path)
    session = session_of(lake)
    topic = f"few-{uuid4().hex[:8]}"
    make_topic(kafka, topic)
    metrics, stop = ArchiveMetrics([topic]), threading.Event()
    plan = plan_for(lake, kafka, topic, trigger=1.0)
    thread = threading.Thread(
        target=follow, args=(session, lake, plan), kwargs={"metrics": metrics, "stop": stop}
    )
    thread.start()
    sent = 0
    try:
        for seed in range(5):
            sent += produce(kafka, topic, 200, seed=seed).records

            def arrived(wanted: int = sent) -> bool:
                return read_table(tmp_path, "events_raw", ("offset",)).num_rows == wanted

            wait_until(arrived, "a batch", 300, turn=0.5)
    finally:
        stop.set()
        thread.join()
    appends = session.table(f"{lake.table('events_raw')}.snapshots").where("operation = 'append'")
    made = [int(row["summary"]["added-data-files"]) for row in appends.collect()]
    days = session.table(f"{lake.table('events_raw')}.files").select("partition").distinct().count()
    assert max(made) <= days
