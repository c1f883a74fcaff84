"""Run the archive once, up to the records stored now; and the steps of every archive."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from app.pipeline import history, tables
from app.pipeline.archive import commit, stream, typed_tables
from app.pipeline.archive.batches import Batch, StreamReports
from app.pipeline.archive.derive import Derived, Observe, derive
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.lease import LakeHold
from app.pipeline.archive.lock import holding_lock
from app.pipeline.archive.ranges import (
    DeriveRange,
    extended,
    pending,
    remaining,
    split_by_records,
)
from app.pipeline.archive.renewed import ArchiveFailed, TopicsRenewed, demanding_same_topics
from app.pipeline.archive.stream import ArchivePlan
from app.pipeline.settings import Lake
from app.spark.faults import REFUSALS, UNKNOWN, is_any, stream_fault
from app.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK: Final = 0.1  # seconds between two looks at a stream
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
    with archiving(spark, lake, tell):
        while True:
            left = pending(spark, lake)
            ready = prepare(spark, lake, plan, left, tell)
            observe("prepared")
            try:
                with same_topics(spark, plan, ready):
                    query = stream.start(spark, lake, plan, ready, once=True)
                    copied, last = _copy(query, ready.pending, tell, stopping)
                break
            except TopicsRenewed:
                continue
        observe("stream ended")
        whole = range_to_derive(spark, lake, plan, left, ready, last)
        derived = derive_all(spark, lake, plan, whole, tell, observe, stopping, IdentityCache())
    return result_of(copied, derived)


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
    with holding_lock(spark, lake, tell=_as_notice(tell)) as held:
        history.demand_clock(spark, lake.table(tables.RAW_TABLE))
        typed_tables.make(spark, lake)
        commit.demand_storage(commit.layout(spark, lake, tables.EVENTS_TABLE))
        yield held


def _as_notice(tell: Tell) -> Callable[[str], None]:
    return lambda text: tell(ArchiveProgress("copy", 0, notice=text))


def prepare(
    spark: SparkSession, lake: Lake, plan: ArchivePlan, left: DeriveRange, tell: Tell
) -> stream.PreparedStream:
    """Find where the stream continues, and report topics that were created again."""
    ready = stream.prepare(spark, lake, plan, left)
    for topic in ready.renewed:
        tell(ArchiveProgress("copy", 0, notice=(
            f"Topic {topic} was deleted and created again. Its records are read from the earliest one,"
            f" and stored as topic {ready.names[topic]}."
        )))  # fmt: skip
    return ready


def same_topics(
    spark: SparkSession, plan: ArchivePlan, ready: stream.PreparedStream
) -> AbstractContextManager[None]:
    """Raise TopicsRenewed after the block if a topic of the stream was created again by then."""
    return demanding_same_topics(
        spark, plan.place, {t: ready.state.ids.get(t, ()) for t in plan.topics}
    )


def range_to_derive(
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
        time.sleep(LOOK)  # awaitTermination would raise an error that raise_if_failed words better
        copied += row_count(seen.new_batches())
        tell(ArchiveProgress("copy", copied, total))
    if query.isActive:
        return copied + row_count(stop_after_batch(seen)), None
    raise_if_failed(query)
    copied += row_count(seen.new_batches())
    tell(ArchiveProgress("copy", copied, total))
    return copied, seen.last


def derive_all(
    spark: SparkSession,
    lake: Lake,
    plan: ArchivePlan,
    whole: DeriveRange,
    tell: Tell,
    observe: Observe,
    stop: threading.Event,
    known: IdentityCache,
) -> Derived:
    """Derive a range and the older ones of typed tables, piece by piece, until ``stop`` is set."""
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


def row_count(batches: list[Batch]) -> int:
    """Return the number of records in these batches."""
    return sum(int(each["numInputRows"]) for each in batches)


def stop_after_batch(seen: StreamReports) -> list[Batch]:
    """Stop the stream after the current batch, and return the batches that ended since the last
    report.

    A stop within a batch would be safe too, but would waste its work.
    """
    query = seen.query
    last = seen.last_number()
    while query.isActive and query.status["isTriggerActive"] and seen.last_number() == last:
        time.sleep(LOOK / 10)
    query.stop()
    return seen.new_batches()


def raise_if_failed(query: StreamingQuery) -> None:
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
    if (fault := stream_fault(query)) is not None:
        raise fault
    raise ArchiveFailed(f"the stream ended: {first_line(error)}")
