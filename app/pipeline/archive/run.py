"""Run the archive once up to the records stored now, or until it is stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import msgspec

from app.errors import LakeUnavailable
from app.pipeline import tables
from app.pipeline.archive import commit, stream, typed_tables
from app.pipeline.archive.batches import Batch, StreamReports
from app.pipeline.archive.derive import Derived, Observe, derive
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.lock import holding_lock
from app.pipeline.archive.ranges import (
    DeriveRange,
    empty_after,
    extended,
    pending,
    remaining,
    split_by_records,
)
from app.pipeline.archive.renewed import ArchiveFailed, TopicsRenewed, demanding_same_topics
from app.pipeline.archive.stream import ArchivePlan
from app.pipeline.settings import Lake
from app.spark.faults import REFUSALS, UNKNOWN, is_any, lake_fault
from app.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK: Final = 0.1  # seconds between two looks at a stream
AGAIN: Final = 10.0  # seconds until a failed derivation is tried again
RETRIES: Final = 5
_LOST: Final = ("OFFSET_OUT_OF_RANGE", "KAFKA_DATA_LOSS", "Some data may have been lost")


class ArchiveProgress(msgspec.Struct, frozen=True):
    """A progress report of the archive.

    Attributes:
        step: The step: ``copy`` (topic to ``events_raw``) or ``derive``.
        done: The number of records done in this step.
        total: The number of records of this step; None if unknown.
        derived: The counts of the last derived range.
        trouble: The error that made a step fail. The step is tried again.
        notice: A sentence for the operator, who need not do anything.
    """

    step: str
    done: int
    total: int | None = None
    derived: Derived | None = None
    trouble: str = ""
    notice: str = ""


Tell = Callable[[ArchiveProgress], None]

BatchCallback = Callable[[Batch], None]
"""A callback that receives the report of each batch whose records are in all tables, and of idle
moments.
"""


def ignore(_: object) -> None:
    """Do nothing, as the default of callbacks."""


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
        ArchiveFailed: The stream ended with an error.
    """
    stopping = stop or threading.Event()
    _make(spark, lake)
    with holding_lock(spark, lake, tell=_as_notice(tell)):
        while True:
            left = pending(spark, lake)
            ready = _prepare(spark, lake, plan, left, tell)
            observe("prepared")
            try:
                with _same_topics(spark, plan, ready):
                    query = stream.start(spark, lake, plan, ready, once=True)
                    copied, last = _copy(query, ready.pending, tell, stopping)
                break
            except TopicsRenewed:
                continue
        observe("stream ended")
        whole = _range_to_derive(spark, lake, plan, left, ready, last)
        derived = _derive_all(spark, lake, plan, whole, tell, observe, stopping, IdentityCache())
    return _result(copied, derived)


def forever(
    spark: SparkSession,
    lake: Lake,
    plan: ArchivePlan,
    *,
    tell: Tell = ignore,
    observe: Observe = ignore,
    reached: BatchCallback = ignore,
    stop: threading.Event,
) -> ArchiveResult:
    """Archive records as they arrive, until ``stop`` is set and the current batch has ended.

    Records that are not derived by then are derived by the next run. An error during derivation is
    reported and the derivation tried again, while the copy goes on. Raises the errors of ``once``.
    """
    _make(spark, lake)
    with holding_lock(spark, lake, tell=_as_notice(tell)):
        derived, copied, known = Derived(), 0, IdentityCache()
        following = _Following(spark, lake, plan, tell)
        while not stop.wait(LOOK):
            try:
                found = following.new_batches()
                copied += _rows(found)
                if not found and not following.is_due:
                    following.report_idle(reached)
                    continue
                tell(ArchiveProgress("copy", copied))
                whole = following.take(found)
                derived += _derive_all(spark, lake, plan, whole, tell, observe, stop, known)
                following.finish(whole)
                for each in found:
                    reached(each)
            except TopicsRenewed:
                following.begin_again()
            except (ArchiveFailed, LakeUnavailable):
                raise
            except Exception as error:  # noqa: BLE001 - the copy goes on after any error
                tell(ArchiveProgress("derive", 0, trouble=first_line(error)))
                following.retry_later()
        copied += _stop_after_batch(following.seen)
    return _result(copied, derived)


class _Following:
    """A running stream, and the range that is not derived yet."""

    def __init__(self, spark: SparkSession, lake: Lake, plan: ArchivePlan, tell: Tell) -> None:
        self._spark, self._lake, self._plan, self._tell = spark, lake, plan, tell
        self._begin()

    def _begin(self) -> None:
        left = pending(self._spark, self._lake)
        self._left: DeriveRange | None = left
        self._ready = _prepare(self._spark, self._lake, self._plan, left, self._tell)
        query = stream.start(self._spark, self._lake, self._plan, self._ready, once=False)
        self.seen = StreamReports(query)
        self._wait = time.monotonic()  # records that an earlier run copied are derived at once

    def begin_again(self) -> None:
        """Start a new stream after topics were created again."""
        self.seen.query.stop()
        self._begin()

    @property
    def is_due(self) -> bool:
        """Return True if a derivation is due without a new batch."""
        return self._wait != 0.0 and time.monotonic() >= self._wait

    def report_idle(self, reached: BatchCallback) -> None:
        if self.seen.idle and not self._wait:
            reached(self.seen.idle)

    def new_batches(self) -> list[Batch]:
        """Return the batches that have ended since the last call.

        Raises:
            TopicsRenewed: The stream failed, and a topic was created again.
            ArchiveFailed: The stream failed.
        """
        if self.seen.query.exception() is not None:
            with _same_topics(self._spark, self._plan, self._ready):
                _raise_if_failed(self.seen.query)
        return self.seen.new_batches()

    def take(self, found: list[Batch]) -> DeriveRange:
        """Return the range to derive after these batches.

        Raises:
            TopicsRenewed: A topic was created again before the batches ended.
        """
        last = found[-1] if found else None
        with _same_topics(self._spark, self._plan, self._ready):
            whole = _range_to_derive(
                self._spark, self._lake, self._plan, self._left, self._ready, last
            )
        self._left = None  # unknown until the derivation has succeeded
        return whole

    def finish(self, whole: DeriveRange) -> None:
        """Record that a range is derived."""
        self._left, self._wait = empty_after(whole), 0.0

    def retry_later(self) -> None:
        self._left, self._wait = None, time.monotonic() + AGAIN


def _result(copied: int, derived: Derived) -> ArchiveResult:
    return ArchiveResult(
        copied, derived.events, derived.duplicates, derived.quarantined, derived.unfit
    )


def _as_notice(tell: Tell) -> Callable[[str], None]:
    return lambda text: tell(ArchiveProgress("copy", 0, notice=text))


def _make(spark: SparkSession, lake: Lake) -> None:
    tables.make(spark, lake)
    typed_tables.make(spark, lake)
    commit.demand_storage(commit.layout(spark, lake, tables.EVENTS_TABLE))


def _prepare(
    spark: SparkSession, lake: Lake, plan: ArchivePlan, left: DeriveRange, tell: Tell
) -> stream.PreparedStream:
    ready = stream.prepare(spark, lake, plan, left)
    for topic in ready.renewed:
        tell(ArchiveProgress("copy", 0, notice=(
            f"Topic {topic} was deleted and created again. Its records are read from the earliest one,"
            f" and stored as topic {ready.names[topic]}."
        )))  # fmt: skip
    return ready


def _same_topics(
    spark: SparkSession, plan: ArchivePlan, ready: stream.PreparedStream
) -> AbstractContextManager[None]:
    return demanding_same_topics(
        spark, plan.place, {t: ready.state.ids.get(t, ()) for t in plan.topics}
    )


def _range_to_derive(
    spark: SparkSession,
    lake: Lake,
    plan: ArchivePlan,
    left: DeriveRange | None,
    ready: stream.PreparedStream,
    last: Batch | None,
) -> DeriveRange:
    """Return the range to derive.

    The tables are read only if ``left`` is None, or if the source of the ``last`` batch does not
    report how far it read.
    """
    ends = stream.reached(last) if last else {}
    if left is None or (last and not ends):
        return pending(spark, lake)
    return extended(left, plan.place.broker, ready.stored(ready.next), ready.stored(ends))


def _copy(
    query: StreamingQuery, total: int | None, tell: Tell, stop: threading.Event
) -> tuple[int, Batch | None]:
    """Wait until the stream ends, or stop it after the current batch when ``stop`` is set.

    Returns:
        The number of copied records, and the last batch; None if the stream was stopped.
    """
    seen, copied = StreamReports(query), 0
    tell(ArchiveProgress("copy", 0, total))
    while query.isActive and not stop.is_set():
        time.sleep(LOOK)  # awaitTermination would raise an error that _raise_if_failed words better
        copied += _rows(seen.new_batches())
        tell(ArchiveProgress("copy", copied, total))
    if query.isActive:
        return copied + _stop_after_batch(seen), None
    _raise_if_failed(query)
    copied += _rows(seen.new_batches())
    tell(ArchiveProgress("copy", copied, total))
    return copied, seen.last


def _derive_all(
    spark: SparkSession,
    lake: Lake,
    plan: ArchivePlan,
    whole: DeriveRange,
    tell: Tell,
    observe: Observe,
    stop: threading.Event,
    known: IdentityCache,
) -> Derived:
    derived, done = Derived(), 0
    ranges = (*whole.older, whole)
    size = sum(each.size for each in ranges)
    for each in ranges:
        for piece in split_by_records(spark, lake, each, plan.at_once):
            if stop.is_set():
                return derived
            found = _derive(spark, lake, piece, observe, known)
            derived, done = derived + found, done + piece.size
            at, total = (derived.records, None) if whole.sparse else (done, size)
            tell(ArchiveProgress("derive", at, total, found))
    return derived


def _derive(
    spark: SparkSession, lake: Lake, piece: DeriveRange, observe: Observe, known: IdentityCache
) -> Derived:
    """Derive a range, and try again if ``maintain`` rewrote its files or the state of a commit is
    unknown.

    Rows that the tables have by then are not derived twice.
    """
    for _ in range(RETRIES):
        try:
            return derive(spark, lake, piece, observe, known)
        except Exception as error:
            if not is_any(error, REFUSALS | UNKNOWN):
                raise
            piece = remaining(spark, lake, piece)
    return derive(spark, lake, piece, observe, known)


def _rows(batches: list[Batch]) -> int:
    return sum(int(each["numInputRows"]) for each in batches)


def _stop_after_batch(seen: StreamReports) -> int:
    """Stop the stream after the current batch, and return the number of records copied since the
    last report.

    A stop within a batch would be safe too, but would waste its work.
    """
    query = seen.query
    last = seen.last_number()
    while query.isActive and query.status["isTriggerActive"] and seen.last_number() == last:
        time.sleep(LOOK / 10)
    query.stop()
    return _rows(seen.new_batches())


def _raise_if_failed(query: StreamingQuery) -> None:
    """Raise ArchiveFailed if the stream has failed."""
    error = query.exception()
    if error is None:
        return
    text = str(error)
    if any(word in text for word in _LOST):
        raise ArchiveFailed(
            "unread records are gone: retention dropped them, or the topic was created again."
            " Run the command again to see the offsets."
        )
    if (fault := lake_fault(error)) is not None:
        raise fault
    raise ArchiveFailed(f"the stream ended: {first_line(error)}")
