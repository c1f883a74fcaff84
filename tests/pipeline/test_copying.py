"""Batches of records into ``events_raw``: each record once, whatever comes between a batch and its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import pyarrow.compute as pc
import pytest

from app.pipeline import history, tables
from app.pipeline.archive import commit, copying, progress, topics
from app.pipeline.archive.copying import CopyRange
from app.pipeline.archive.job import ArchiveJob, ignore
from app.pipeline.archive.lease import LakeHold
from app.pipeline.archive.ranges import pending
from app.spark.pyspark_adapter import jvm
from lake_events import make_topic, produce
from lake_folders import lake_in, plan_for, read_table, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("spark")]

COUNT = 60


class House:
    """A topic with ``COUNT`` records, and a lake without any."""

    def __init__(self, kafka: str, folder: Path) -> None:
        self.kafka, self.folder, self.topic = kafka, folder, f"c-{uuid4().hex[:8]}"
        make_topic(kafka, self.topic)
        self.sent = produce(kafka, self.topic, COUNT).records
        self.lake = lake_in(folder)
        self.session: SparkSession = session_of(self.lake)
        tables.make(self.session, self.lake)
        self.plan = plan_for(self.lake, kafka, self.topic)
        self.raw = self.lake.table(tables.RAW_TABLE)

    def copy(
        self, observe: Callable[[str], None] = ignore, most: int = COUNT
    ) -> tuple[CopyRange, int]:
        plan = msgspec.structs.replace(self.plan, most=most)
        job = ArchiveJob(self.session, self.lake, plan, LakeHold(), observe=observe)
        return copying.copy_next(job)

    def check(self) -> None:
        """Each record is in the lake once, and each file belongs to a snapshot."""
        rows = read_table(self.folder, "events_raw", ("partition", "offset"))
        places = Counter(
            zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True)
        )
        assert len(places) == places.total() == self.sent
        named = self.session.table(f"{self.raw}.files").count()
        assert len([*self.folder.glob("skybridge/events_raw/data/**/*.parquet")]) == named


@pytest.fixture
def house(kafka: str, tmp_path: Path) -> House:
    return House(kafka, tmp_path)


def test_a_batch_has_at_most_so_many_records_and_states_its_end(house: House) -> None:
    found, rows = house.copy(most=COUNT // 2)
    assert COUNT // 2 <= rows < house.sent
    assert not found.is_last
    stated = progress.stored(house.session, house.raw)
    assert stated == {"main": found.end}
    found, more = house.copy()
    assert (rows + more, found.is_last) == (house.sent, True)
    assert house.copy()[0].size == 0
    house.check()


def test_a_process_that_was_suspended_repeats_nothing(house: House) -> None:
    """Another process has copied the same records between its files and its commit."""
    left = [True]

    def other(moment: str) -> None:
        if moment == "files written" and left:
            left.clear()
            assert house.copy()[1] == house.sent

    found, rows = house.copy(other)
    assert (found.size, rows) == (0, 0)
    house.check()


@pytest.mark.parametrize("stored", [True, False])
def test_a_commit_whose_state_is_unknown_is_looked_up(
    house: House, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """The connection to the catalog ended before the answer came."""
    commits: list[Any] = []
    plain = commit._commit

    def unclear(table: str, change: Any, reports: Any) -> None:
        commits.append(change)
        if stored or len(commits) > 1:
            plain(table, change, reports)
        if len(commits) == 1:
            why = jvm(house.session).java.lang.RuntimeException("the connection ended")
            java = jvm(house.session).org.apache.iceberg.exceptions.CommitStateUnknownException(why)
            error = RuntimeError("the state is unknown")
            error.java_exception = java  # type: ignore[attr-defined]
            raise error

    monkeypatch.setattr(commit, "_commit", unclear)
    assert house.copy()[1] == house.sent
    assert len(commits) == (1 if stored else 2)
    if stored:
        house.check()
    assert house.copy()[0].size == 0


@pytest.mark.nightly
def test_a_lake_of_an_earlier_version_goes_on_after_its_rows(house: House) -> None:
    """Its snapshots state no position. An erasure has removed the last rows of a partition."""
    house.copy(most=COUNT // 2)
    rows = house.session.table(house.raw).toArrow()
    kept = rows.filter(pc.greater(rows["partition"], 0))
    before = progress.stored(house.session, house.raw)
    assert before is not None
    house.session.sql(f"DROP TABLE {house.raw} PURGE")
    tables.make(house.session, house.lake)
    house.session.createDataFrame(kept).writeTo(house.raw).append()
    starts = {house.topic: dict.fromkeys(range(8), 0)}
    erased = {house.topic: {0: before["main"][house.topic][0]}}
    text = msgspec.json.encode(
        {"checkpoint": "c", "topics": [house.topic], "starts": starts, "erased": erased}
    ).decode()
    listed = tables.property_list({"skybridge.archive.main": text})
    house.session.sql(f"ALTER TABLE {house.raw} SET TBLPROPERTIES ({listed})")
    topics.keep_position(house.session, house.lake)
    assert progress.stored(house.session, house.raw) is not None
    house.copy()
    found = house.session.table(house.raw).select("partition", "offset")
    assert found.count() == found.distinct().count() == len(kept) + house.sent - len(rows)


def test_records_before_the_first_offset_are_not_looked_for(house: House) -> None:
    """A killed process left a range that is not derived. Retention had removed the offsets before it."""
    house.plan = msgspec.structs.replace(house.plan, start="latest")
    assert house.copy()[0].size == 0
    begin = house.copy()[0].latest[house.topic]
    more = produce(house.kafka, house.topic, 20, seed=2).records
    assert house.copy()[1] == more
    whole = pending(house.session, house.lake)
    assert whole.start["main"][house.topic] == begin
    assert whole.size == more
    assert history.newest_snapshot(house.session, house.raw) is not None
