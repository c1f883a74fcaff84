"""Run the archive until it is stopped.

The stream writes small batches to one file each, and large ones, such as a backlog, to several at
once. It is started again from its checkpoint when the size of its batches changes. Between
batches, the archive merges small files of earlier ones.
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

AGAIN: Final = 10.0  # seconds until a failed derivation is tried again
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
    reported and the derivation tried again, while the copy goes on. Raises the errors of ``once``.
    """
    seen = metrics or ArchiveMetrics(plan.topics)
    with archiving(spark, lake, tell) as held:
        seen.holds(held)
        derived, copied, known = Derived(), 0, IdentityCache()
        following = FollowedStream(spark, lake, plan, tell, seen.lag)
        merger = FileMerger(spark, lake, seen)
        while not stop.wait(LOOK):
            merger.step()
            try:
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
                following.begin_again()
            except (ArchiveFailed, LakeUnavailable):
                raise
            except Exception as error:
                if ended := ended_fault(error):
                    raise ended from error
                tell(ArchiveProgress("derive", 0, trouble=first_line(error)))
                seen.failed("derive")
                following.retry_later()
        copied += row_count(stop_after_batch(following.seen))
    return result_of(copied, derived)


class FollowedStream:
    """A running stream, and the range that is not derived yet."""

    def __init__(
        self, spark: SparkSession, lake: Lake, plan: ArchivePlan, tell: Tell, lag: Lag
    ) -> None:
        self._spark, self._lake, self._plan, self._tell = spark, lake, plan, tell
        self._lag = lag
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
        self.seen = StreamReports(query)

    def begin_again(self) -> None:
        """Start a new stream after topics were created again."""
        self.seen.query.stop()
        self._begin()

    @property
    def is_due(self) -> bool:
        """Return True if a derivation is due without a new batch."""
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
        if self.seen.query.exception() is not None:
            with same_topics(self._spark, self._plan, self._ready):
                raise_if_failed(self.seen.query)
        found = self.seen.new_batches()
        if found and self._fits_badly(int(found[-1]["numInputRows"])):
            found += self._restart()
        return found

    def _restart(self) -> list[Batch]:
        """Start the stream again with fewer or more tasks, and return the batches that ended."""
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

    def retry_later(self) -> None:
        self._left, self._wait = None, time.monotonic() + AGAIN
