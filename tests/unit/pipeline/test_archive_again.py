"""What an archive does where nobody knows whether it did it: nothing twice."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.archive import commit, progress, ranges, run
from app.pipeline.archive import lease as lease_module
from app.pipeline.archive.derive import Derived
from app.pipeline.archive.job import ArchiveJob
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.ranges import DeriveRange
from app.pipeline.archive.run import ArchiveFailed
from app.pipeline.query import duck
from app.pipeline.settings import Lake
from app.spark.faults import REFUSALS, UNKNOWN
from app.spark.settings import LakeCatalog

LAKE = Lake(catalog=LakeCatalog(kind="rest", uri="http://127.0.0.1:9", warehouse="s3://lake/"))
START, HALF, END = ({"main": {"orders": {0: n}}} for n in (0, 50, 100))


def test_a_range_is_done_again_from_where_the_tables_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog may not say whether a commit was made: ``quarantine`` must not get its rows twice."""
    at = {LAKE.table(tables.QUARANTINE_TABLE): HALF, LAKE.table(tables.EVENTS_TABLE): END}
    monkeypatch.setattr(progress, "read", lambda _, table: at[table])
    done: list[DeriveRange] = []

    def deriving(
        _spark: Any, _lake: Lake, piece: DeriveRange, _observe: Any, _known: IdentityCache
    ) -> Derived:
        done.append(piece)
        if len(done) == 1:
            raise RuntimeError("503")
        return Derived(records=1)

    monkeypatch.setattr(run, "derive", deriving)
    monkeypatch.setattr(commit, "is_any", lambda _, classes: classes == REFUSALS | UNKNOWN)
    nothing: Any = None
    job = ArchiveJob(nothing, LAKE, nothing, nothing)
    assert run._derive(job, DeriveRange(START, END, START), IdentityCache()).records == 1
    assert done == [DeriveRange(START, END, START), DeriveRange(HALF, END, END)]


def test_what_is_left_of_a_range_that_is_finished_is_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "read", lambda *_: END)
    spark: Any = None
    left = ranges.remaining(spark, LAKE, DeriveRange(START, END, START))
    assert progress.covers(left.start, left.end)
    assert progress.covers(left.before, left.end)


class Lease:
    """A lease that another process has, or has not, and that ends the test when it is renewed."""

    def __init__(self, ended: threading.Event, *, lost: bool) -> None:
        self._ended, self._lost = ended, lost
        self.spark = Spark()

    def renew(self) -> bool:
        self._ended.set()
        return not self._lost

    def holder(self) -> lease_module.Holder:
        return lease_module.Holder(2, "another")


class Spark:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("lost", [True, False])
def test_a_lease_that_another_process_has_is_not_taken_back(
    monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """A process that stood still for longer than it lasts: what both write would be there twice."""
    monkeypatch.setattr(lease_module, "RENEWED", 0.001)
    ended = threading.Event()
    lease: Any = Lease(ended, lost=lost)
    lease_module._renew(lease, ended)
    assert lease.spark.stopped is lost


@pytest.mark.parametrize("lost", ["", "another"])
def test_work_that_fails_because_the_lease_is_lost_names_the_holder(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Spark is stopped then, and says "Cannot call methods on a stopped SparkContext"."""
    spark: Any = None
    lease, released = lease_module.Lease(spark, LAKE, "upkeep"), list[str]()
    monkeypatch.setattr(lease, "take", lambda _: None)
    monkeypatch.setattr(lease, "release", lambda: released.append("released"))
    error = SetupError if lost else RuntimeError
    with pytest.raises(error), lease_module.holding_lease(lease, lambda _: None):
        lease.lost_to = lost
        raise RuntimeError("a stopped SparkContext")
    with pytest.raises(error if lost else ArchiveFailed), run._failing(lease, "copied"):
        raise RuntimeError("a stopped SparkContext")
    assert released == ([] if lost else ["released"])


def test_the_table_that_is_written_last_is_opened_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``quarantine`` says is finished, the tables that are opened behind it have."""
    order: list[str] = []
    monkeypatch.setattr(duck, "open_table", lambda _, name: order.append(name) or name)
    monkeypatch.setattr("app.pipeline.query.scan.LakeDataset", lambda opened, _at: opened)
    assert list(duck.open_datasets(LAKE)) == list(tables.COLUMNS)
    assert order == [tables.QUARANTINE_TABLE, tables.EVENTS_TABLE, tables.RAW_TABLE]
