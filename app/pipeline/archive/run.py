"""Run the archive once, up to the records stored now; and the steps of every archive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from app.errors import SkybridgeError
from app.pipeline import history, tables
from app.pipeline.archive import commit, copying, layouts, progress, typed_tables
from app.pipeline.archive.derive import Derived, Observe, derive
from app.pipeline.archive.job import ArchiveJob, ArchivePlan, ArchiveProgress, Tell, ignore
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.lease import LakeHold
from app.pipeline.archive.lock import holding_lock
from app.pipeline.archive.ranges import DeriveRange, pending, remaining, split_by_records
from app.pipeline.settings import Lake
from app.spark.faults import lake_fault
from app.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRIES: Final = 5


class ArchiveFailed(SkybridgeError):
    """The error for a batch that could not be copied or decoded. What is committed is in the lake, and
    the next run continues."""


class ArchiveResult(msgspec.Struct, frozen=True):
    """The counts of an archive run.

    Attributes:
        copied: The records copied into ``events_raw``.
        events: The new events, also from records that an earlier run had copied.
        duplicates: The events that the lake already had.
        quarantined: The records that are not valid events.
        unfit: The events whose data does not fit the typed table of their type.
    """

    copied: int
    events: int
    duplicates: int
    quarantined: int
    unfit: int = 0


def once(
    spark: SparkSession,
    lake: Lake,
    plan: ArchivePlan,
    *,
    tell: Tell = ignore,
    observe: Observe = ignore,
    stop: threading.Event | None = None,
) -> ArchiveResult:
    """Archive all records that are stored when the run begins. Missing tables are created.

    Progress is reported to ``tell``, and the name of each moment to ``observe``. When ``stop`` is
    set, the run ends after the current batch.

    Raises:
        SetupError: The topics or the lake cannot be archived as configured.
        BrokerUnavailable: The broker does not answer.
        ArchiveFailed: A batch could not be copied or decoded.
    """
    with archiving(spark, lake, tell) as held:
        job = ArchiveJob(spark, lake, plan, held, tell=tell, observe=observe, stop=stop)
        with _failing(held, "copied"):
            copied = _copy_all(job)
        observe("records copied")
        with _failing(held, "decoded"):
            derived = derive_all(job, IdentityCache())
    return result_of(copied, derived)


@contextmanager
def _failing(held: LakeHold, what: str) -> Iterator[None]:
    """Name the cause in one line if a batch cannot be ``copied`` or ``decoded``."""
    try:
        yield
    except SkybridgeError:
        raise
    except Exception as error:
        held.demand_not_lost()
        failed = ArchiveFailed(f"the records could not be {what}: {first_line(error)}")
        raise lake_fault(error) or failed from error


def result_of(copied: int, derived: Derived) -> ArchiveResult:
    """Return the counts of a run."""
    return ArchiveResult(
        copied, derived.events, derived.duplicates, derived.quarantined, derived.unfit
    )


@contextmanager
def archiving(spark: SparkSession, lake: Lake, tell: Tell) -> Iterator[LakeHold]:
    """Hold the lock of the archive inside the context. Tables that are missing are created, and the
    columns of typed tables changed, only with the lock: another archive may run.
    """
    tables.make(spark, lake)  # the lease needs the namespace; tables that exist are not changed
    with holding_lock(
        spark, lake, tell=lambda text: tell(ArchiveProgress("copy", 0, notice=text))
    ) as held:
        history.demand_clock(spark, lake.table(tables.RAW_TABLE))
        typed_tables.make(spark, lake)
        layouts.demand_storage(layouts.layout(spark, lake, tables.EVENTS_TABLE))
        yield held


def _copy_all(job: ArchiveJob) -> int:
    """Copy the records that are stored now, batch after batch, and return their number."""
    copied, until, total = 0, copying.NO_OFFSETS, None
    while not job.stop.is_set():
        found, rows = copying.copy_next(job, until)
        if not until and not found.is_sparse:
            total = found.waiting
        until = {**found.stored(found.latest), **until}
        copied += rows
        job.tell(ArchiveProgress("copy", copied, total))
        if not found.size or progress.covers({"": found.stored(found.end)}, {"": until}):
            break
    return copied


def derive_all(job: ArchiveJob, known: IdentityCache) -> Derived:
    """Derive all records that are not derived yet, piece by piece. Older ranges of typed tables come
    first.
    """
    whole = pending(job.spark, job.lake)
    ranges = [each for each in (*whole.older, whole) if not each.is_empty]
    derived, done, size = Derived(), 0, sum(each.size for each in ranges)
    for each in ranges:
        for piece in split_by_records(job.spark, job.lake, each, job.plan.at_once):
            if job.stop.is_set():
                return derived
            found = _derive(job, piece, known)
            derived, done = derived + found, done + piece.size
            at, total = (derived.records, None) if whole.sparse else (done, size)
            job.tell(ArchiveProgress("derive", at, total, found))
    return derived


def _derive(job: ArchiveJob, piece: DeriveRange, known: IdentityCache) -> Derived:
    """Derive a range, and try again if another program has committed meanwhile or the state of a commit is
    unknown.

    Rows that the tables have by then are not derived twice.
    """
    for _ in range(RETRIES):
        try:
            return derive(job.spark, job.lake, piece, job.observe, known)
        except Exception as error:
            if not commit.may_be_repeated(error):
                raise
            piece = remaining(job.spark, job.lake, piece)
    return derive(job.spark, job.lake, piece, job.observe, known)
