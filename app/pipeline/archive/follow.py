"""Run the archive until it is stopped.

The stream writes small batches to one file each, and large ones, such as a backlog, to several at
once. It is started again from its checkpoint when the size of its batches changes, and when an
absent catalog or storage may answer again. Between batches, the archive merges small
files of earlier ones.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from app.errors import LakeUnavailable
from app.pipeline.archive import stream
from app.pipeline.archive.batches import Batch, StreamReports
from app.pipeline.archive.derive import Derived, Observe
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.lag import Lag
from app.pipeline.archive.lease import LakeHold
from app.pipeline.archive.metrics import ArchiveMetrics
from app.pipeline.archive.ranges import DeriveRange, empty_after, pending
from app.pipeline.archive.renewed import ArchiveFailed, TopicsRenewed
from app.pipeline.archive.run import (
    LOOK,
    ArchiveProgress,
    ArchiveResult,
    Tell,
    archiving,
    derive_all,
    ignore,
    prepare,
    raise_if_failed,
    range_to_derive,
    result_of,
    row_count,
    same_topics,
    stop_after_batch,
)
from app.pipeline.archive.small_files import FileMerger
from app.pipeline.archive.stream import ArchivePlan
from app.pipeline.settings import Lake
from app.spark.faults import ended_fault, lake_fault
from app.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAIN: Final = 10.0  # seconds until what failed is tried again
FEW: Final = 50_000
"""The largest number of records of a batch that one file is worth. One task writes them in about a
second.
"""
MANY: Final = 2 * FEW
"""The number of records of a batch above which several tasks write it, each a file."""


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

    Records that are not derived by then are derived by the next run. An error during derivation is
    reported and the derivation tried again, while the copy goes on. If the catalog or the storage
    does not answer, that is reported and the stream started again later. Raises the errors of
    ``once``.
    """
    seen = metrics or ArchiveMetrics(plan.topics)
    with archiving(spark, lake, tell) as held:
        seen.holds(held)
        derived, copied, known = Derived(), 0, IdentityCache()
        following = FollowedStream(spark, lake, plan, tell, seen.lag, held)
        merger = FileMerger(spark, lake, seen)
        while not stop.wait(LOOK):
            merger.step()
            try:
                following.resume()
                found = following.new_batches()
                copied += row_count(found)
                for each in found:
                    seen.copied(each)
                if not found and not following.is_due:
                    following.report_idle()
                    continue
                tell(ArchiveProgress("copy", copied))
                whole = following.take(found)
                with seen.timing("derive"):
                    more = derive_all(spark, lake, plan, whole, tell, observe, stop, known)
                derived += more
                seen.derived(more, found)
                following.finish(whole)
            except TopicsRenewed:
                following.end()
            except Exception as error:  # noqa: BLE001 - raised again unless the step is tried again
                failed = following.failed(error)
                tell(failed)
                seen.failed(failed.step)
        copied += row_count(stop_after_batch(following.seen))
    return result_of(copied, derived)


class FollowedStream:
    """A stream, and the range that is not derived yet.

    Attributes:
        seen: The reports of the last stream that was started.
        is_running: Whether that stream goes on, as far as is known.
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        plan: ArchivePlan,
        tell: Tell,
        lag: Lag,
        held: LakeHold,
    ) -> None:
        self._spark, self._lake, self._plan, self._tell = spark, lake, plan, tell
        self._lag, self._held = lag, held
        self._begin()

    def _begin(self) -> None:
        left = pending(self._spark, self._lake)
        self._left: DeriveRange | None = left
        self._ready = prepare(self._spark, self._lake, self._plan, left, self._tell)
        self._lag.started(self._ready.next, self._ready.end)
        waiting = self._ready.pending
        self._start(few=waiting is not None and waiting <= FEW)
        self._wait = time.monotonic()  # records that an earlier run copied are derived at once

    def _start(self, *, few: bool) -> None:
        self._has_few = few
        query = stream.start(
            self._spark, self._lake, self._plan, self._ready, once=False, few_files=few
        )
        self.seen, self.is_running = StreamReports(query), True

    def end(self) -> None:
        """End the stream, whose topics were created again. ``resume`` starts the next one."""
        self.is_running, self._wait = False, time.monotonic()

    def resume(self) -> None:
        """Check that this process still has the lock of the lake, and start a stream if there is
        none. This precedes each new attempt. Raises the errors of ``once``, and those of Spark.
        """
        if self.is_due:
            self._held.demand()
            if not self.is_running:
                self.seen.query.stop()
                self._begin()

    @property
    def is_due(self) -> bool:
        """Return True if a stream is to be started, or a derivation is due without a new batch."""
        return self._wait != 0.0 and time.monotonic() >= self._wait

    def report_idle(self) -> None:
        """Report to the lag that there was no new record, if all records are derived."""
        if self.seen.idle and not self._wait:
            self._lag.reached(self.seen.idle)

    def new_batches(self) -> list[Batch]:
        """Return the batches that have ended since the last call.

        Raises:
            TopicsRenewed: The stream failed, and a topic was created again.
            ArchiveFailed: The stream failed.
            LakeUnavailable: The stream failed, because the catalog or the storage is away.
        """
        if not self.is_running:
            return []
        if self.seen.query.exception() is not None:
            self.is_running = False
            with same_topics(self._spark, self._plan, self._ready):
                raise_if_failed(self.seen.query)
        found = self.seen.new_batches()
        if found and self._fits_badly(int(found[-1]["numInputRows"])):
            found += self._restart()
        return found

    def _restart(self) -> list[Batch]:
        """Start the stream again with fewer or more tasks, and return the batches that ended."""
        self.is_running = False
        try:
            ended = stop_after_batch(self.seen)
            self._start(few=not self._has_few)
        except Exception as error:
            failed = ArchiveFailed(f"the stream could not be started again: {first_line(error)}")
            raise lake_fault(error) or failed from error
        return ended

    def _fits_badly(self, records: int) -> bool:
        """Return True if batches of this size should be written to more files, or to fewer."""
        return records > MANY if self._has_few else records <= FEW

    def take(self, found: list[Batch]) -> DeriveRange:
        """Return the range to derive after these batches.

        Raises:
            TopicsRenewed: A topic was created again before the batches ended.
        """
        last = found[-1] if found else None
        with same_topics(self._spark, self._plan, self._ready):
            whole = range_to_derive(
                self._spark, self._lake, self._plan, self._left, self._ready, last
            )
        self._left = None  # unknown until the derivation has succeeded
        return whole

    def finish(self, whole: DeriveRange) -> None:
        """Record that a range is derived."""
        self._left, self._wait = empty_after(whole), 0.0

    def failed(self, error: Exception) -> ArchiveProgress:
        """Return the report of the step that failed, which is tried again later. Raise an error that
        ends the archive.
        """
        if isinstance(error, ArchiveFailed):
            raise error
        if ended := ended_fault(error):
            raise ended from error
        away = error if isinstance(error, LakeUnavailable) else lake_fault(error)
        if away is None and not self.is_running:
            raise error
        self._left, self._wait = None, time.monotonic() + AGAIN
        step = "derive" if self.is_running else "copy"
        return ArchiveProgress(step, 0, trouble=str(away or first_line(error)))
