"""Run the archive until it is stopped: a batch for each trigger, and the merging of small files between
batches.

A step that fails is tried again later, so the archive goes on when an absent broker, catalog or
storage answers again.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from app.errors import BrokerUnavailable, LakeUnavailable, SetupError, TopicsMissing
from app.pipeline.archive.copying import CopyRange, copy_next
from app.pipeline.archive.derive import Derived, Observe
from app.pipeline.archive.job import ArchiveJob, ArchivePlan, ArchiveProgress, Tell, ignore
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.metrics import ArchiveMetrics
from app.pipeline.archive.run import ArchiveResult, archiving, derive_all, result_of
from app.pipeline.archive.small_files import FileMerger
from app.pipeline.settings import Lake
from app.spark.faults import ended_fault, lake_fault
from app.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK: Final = 0.1  # seconds between two looks at the clock
AGAIN: Final = 10.0  # seconds until what failed is tried again


def follow(
    spark: SparkSession,
    lake: Lake,
    plan: ArchivePlan,
    *,
    tell: Tell = ignore,
    observe: Observe = ignore,
    metrics: ArchiveMetrics | None = None,
    stop: threading.Event,
) -> ArchiveResult:
    """Archive records as they arrive, until ``stop`` is set and the current batch has ended.

    Records that are not derived by then are derived by the next run. If a step fails, that is reported
    and the step tried again. Raises the errors of ``once`` if the first look at the topics fails.
    """
    seen = metrics or ArchiveMetrics(plan.topics)
    with archiving(spark, lake, tell) as held:
        seen.holds(held)
        job = ArchiveJob(spark, lake, plan, held, tell=tell, observe=observe, stop=stop)
        following = Following(job, seen)
        merger = FileMerger(spark, lake, seen)
        while not stop.wait(LOOK):
            merger.step()
            following.step()
    return result_of(following.copied, following.derived)


class Following:
    """An archive that goes on.

    Attributes:
        copied: The number of records that this process has copied.
        derived: The counts of the records that it has derived.
    """

    def __init__(self, job: ArchiveJob, seen: ArchiveMetrics) -> None:
        self._job, self._seen = job, seen
        self._known, self._due = IdentityCache(), 0.0
        self._copied: list[CopyRange] = []  # ranges that are not derived yet
        self._is_complete = False  # an earlier run may have left records
        self._has_begun = self._has_failed = False
        self.copied, self.derived = 0, Derived()

    def step(self) -> None:
        """Copy the next batch and derive it, if it is due.

        Raises:
            SetupError: The topics or the lake cannot be archived, or another process has the lock.
            BrokerUnavailable: The broker does not answer at the first step.
        """
        self._job.held.demand_not_lost()
        begun = time.monotonic()
        if begun < self._due:
            return
        step = "copy"
        try:
            if self._has_failed:
                self._job.held.demand()
            found = self._copy()
            step = "derive"
            self._derive()
        except Exception as error:  # noqa: BLE001 - raised again unless the step is tried again
            self._fail(step, error)
        else:
            self._has_failed = False
            self._due = begun + self._job.plan.trigger if found.is_last else begun

    def _copy(self) -> CopyRange:
        begun = time.perf_counter()
        found, rows = copy_next(self._job)
        self._has_begun = True
        self._copied.append(found)
        if found.size:
            self._is_complete = False
            self.copied += rows
            self._seen.copied(found, time.perf_counter() - begun)
            self._job.tell(ArchiveProgress("copy", self.copied))
        return found

    def _derive(self) -> None:
        if not self._is_complete:
            with self._seen.timing("derive"):
                more = derive_all(self._job, self._known)
            self.derived += more
            self._seen.derived(more)
        if not self._job.stop.is_set():
            self._is_complete = True
            for each in self._copied:
                self._seen.lag.reached(each)
            self._copied = []

    def _fail(self, step: str, error: Exception) -> None:
        """Report a step that failed. Raise an error that ends the archive."""
        if ended := ended_fault(error):
            raise ended from error
        passing = isinstance(error, BrokerUnavailable | LakeUnavailable | TopicsMissing)
        if not passing and isinstance(error, SetupError):
            raise error
        if not self._has_begun and isinstance(error, BrokerUnavailable | SetupError):
            raise error
        away = error if passing else lake_fault(error)
        self._is_complete, self._has_failed = False, True
        self._due = time.monotonic() + AGAIN
        self._job.tell(ArchiveProgress(step, 0, trouble=str(away or first_line(error))))
        self._seen.failed(step)
