"""Derive ``events`` and ``quarantine`` from ``events_raw``, one range of offsets after another.

A range is decoded once, by tasks that write the data files of both tables. Files of new events are
committed to ``events`` (``unique`` finds the new ones); files of invalid records are committed to
``quarantine``.

Both tables carry their progress in the snapshot of the range's rows. ``quarantine`` is written last
and for every range, so its progress states which ranges are finished. A range that a killed driver
interrupted is derived again. Events that ``events`` already has are then skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as f

from app.pipeline import history, tables
from app.pipeline.archive import commit, progress, raw, unique
from app.pipeline.archive.files import FILES, DataFile, write_files
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.progress import Progress
from app.pipeline.archive.raw import Batches, RangeRecords
from app.pipeline.pulsar_options import SCHEME
from app.pipeline.settings import Lake
from app.pipeline.source import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DERIVED: Final = (tables.EVENTS_TABLE, tables.QUARANTINE_TABLE)

Observe = Callable[[str], None]
"""A callback that receives the name of each moment. Tests kill the process there."""


class Derived(msgspec.Struct, frozen=True):
    """The counts of a derived range: ``records = events + duplicates + quarantined``."""

    records: int = 0
    events: int = 0
    duplicates: int = 0
    quarantined: int = 0

    def __add__(self, other: Derived) -> Derived:
        return Derived(
            self.records + other.records,
            self.events + other.events,
            self.duplicates + other.duplicates,
            self.quarantined + other.quarantined,
        )


class DeriveRange(msgspec.Struct, frozen=True):
    """The records of some partitions from ``start`` to before ``end``.

    Attributes:
        start: The first offset of each partition.
        end: The first offset of each partition that is not in the range.
        before: The progress of ``events``, which may be inside an interrupted range.
    """

    start: Progress
    end: Progress
    before: Progress

    @property
    def sparse(self) -> bool:
        """Return True if offsets do not count records. This is so for message ids of Pulsar, which
        have gaps.
        """
        return any(topic.startswith(SCHEME) for _, topic, _, _ in progress.places(self.end))

    @property
    def size(self) -> int:
        """Return the number of offsets, which is at least the number of records."""
        return sum(
            end - progress.offset_at(self.start, broker, topic, partition)
            for broker, topic, partition, end in progress.places(self.end)
        )


def pending(spark: SparkSession, lake: Lake) -> DeriveRange:
    """Return the range of all records in ``events_raw`` that are not yet derived."""
    done = progress.read(spark, lake.table(tables.QUARANTINE_TABLE))
    before = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    if history.newest_snapshot(spark, lake.table(tables.RAW_TABLE)) is None:
        return DeriveRange(done, done, before)
    rest = spark.table(lake.table(tables.RAW_TABLE)).where(progress.beyond(done))
    return DeriveRange(done, progress.merged(done, progress.reach(rest)), before)


def extended(whole: DeriveRange, broker: str, begin: Offsets, end: Offsets) -> DeriveRange:
    """Return the range extended by the records that the stream has copied, up to ``end``.

    A partition without progress starts at its offset in ``begin``.
    """
    fresh = progress.from_entries(
        (broker, topic, n, at)
        for topic, each in begin.items()
        for n, at in each.items()
        if not progress.offset_at(whole.end, broker, topic, n)
    )
    start = progress.merged(whole.start, fresh)
    return DeriveRange(
        start, progress.merged(start, progress.merged(whole.end, {broker: end})), whole.before
    )


def remaining(spark: SparkSession, lake: Lake, piece: DeriveRange) -> DeriveRange:
    """Return the part of a range that is still to be derived after a failure. One of the tables may have been
    committed before the failure."""
    done = progress.read(spark, lake.table(tables.QUARANTINE_TABLE))
    before = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    start, before = progress.merged(piece.start, done), progress.merged(piece.before, before)
    return DeriveRange(start, piece.end, before)


def empty_after(whole: DeriveRange) -> DeriveRange:
    """Return the empty range after a derived one."""
    return DeriveRange(whole.end, whole.end, whole.end)


def split_by_offsets(whole: DeriveRange, most: int) -> Iterator[DeriveRange]:
    """Split a range into pieces of about ``most`` offsets. Records that ``events`` already has are
    in separate pieces.
    """
    start = whole.start
    for stop in _stops(whole):
        while not progress.covers(start, stop):
            end = progress.slice_of(start, stop, most)
            yield DeriveRange(start, end, whole.before)
            start = end


def _stops(whole: DeriveRange) -> tuple[Progress, Progress]:
    return progress.merged(whole.start, whole.before), whole.end


def split_by_records(
    spark: SparkSession, lake: Lake, whole: DeriveRange, most: int
) -> Iterator[DeriveRange]:
    """Split a range into pieces of about ``most`` records, even if the offsets have gaps."""
    if not whole.sparse:
        yield from split_by_offsets(whole, most)
        return
    start = whole.start
    for stop in _stops(whole):
        for end in _piece_ends(spark, lake, DeriveRange(start, stop, whole.before), most):
            yield DeriveRange(start, end, whole.before)
            start = end


def _piece_ends(
    spark: SparkSession, lake: Lake, whole: DeriveRange, most: int
) -> Iterator[Progress]:
    """Yield the end of each piece. A piece has the same fraction of the records of every partition."""
    stored = spark.table(lake.table(tables.RAW_TABLE))
    chosen = stored.where(progress.between(whole.start, whole.end))
    parts = -(-chosen.count() // most)
    shares = [n / parts for n in range(1, parts)]
    if shares:
        ends = f.percentile_approx("offset", shares, 10_000).alias("ends")
        rows = chosen.groupBy("broker", "topic", "partition").agg(ends).collect()
        for n in range(len(shares)):
            yield progress.merged(
                whole.start,
                progress.from_entries((row[0], row[1], row[2], row["ends"][n] + 1) for row in rows),
            )
    if parts:
        yield whole.end


def derive(
    spark: SparkSession, lake: Lake, piece: DeriveRange, observe: Observe, known: IdentityCache
) -> Derived:
    """Derive one range and return the counts. If it fails with an error of Spark, it may be derived
    again.

    Args:
        spark: The session.
        lake: The lake.
        piece: The range.
        observe: Called with the name of each moment.
        known: The cache of event identities.
    """
    observe("range begun")
    arrived = raw.records(spark, lake, piece.start, piece.end)
    there = progress.covers(piece.before, piece.end)
    valid, refused = write_decoded(spark, lake, arrived, only_count=there)
    observe("range decoded")
    ends = progress.merged(piece.before, piece.end)
    with commit.removing_on_error(spark, lake.table(tables.QUARANTINE_TABLE), refused):
        added = 0 if there else append(spark, lake, valid, ends, observe, known)
    observe("events committed")
    commit.append(spark, lake.table(tables.QUARANTINE_TABLE), refused, piece.end)
    observe("quarantine committed")
    whole, broken = commit.row_count(valid), commit.row_count(refused)
    return Derived(whole + broken, added, whole - added, broken)


def write_decoded(
    spark: SparkSession, lake: Lake, records: RangeRecords, *, only_count: bool = False
) -> tuple[list[DataFile], list[DataFile]]:
    """Decode records and write their data files, which no snapshot names yet.

    Args:
        spark: The session.
        lake: The lake.
        records: The records.
        only_count: Whether to count the events without writing them, because the lake has them.

    Returns:
        The files of events, and the files of quarantined records.
    """
    layouts = [commit.layout(spark, lake, name) for name in _DERIVED]
    task = partial(
        _written, read=records.read, events=layouts[0], quarantine=layouts[1], only_count=only_count
    )
    found = commit.run_tasks(records.frame.mapInArrow(task, FILES))
    events, refused = ([each for each in found if each.name == name] for name in _DERIVED)
    return events, refused


def _written(batches: Batches, read: Callable[[Batches], Batches], **how: Any) -> Batches:
    """Read the rows of a task with ``read`` and pass them to ``write_files``. Spark calls a function with one
    argument, so the others are bound beforehand."""
    return write_files(read(batches), **how)


def append(
    spark: SparkSession,
    lake: Lake,
    arriving: list[DataFile],
    ends: Progress,
    observe: Observe,
    known: IdentityCache,
) -> int:
    """Commit the new events and return their number. Without new events a snapshot is made too: it
    carries the progress.
    """
    table = lake.table(tables.EVENTS_TABLE)
    with commit.removing_on_error(spark, table, arriving):
        new = unique.new(spark, lake, arriving, known)
    observe("duplicates found")
    known.extend(commit.append(spark, table, new, ends), (each.known for each in new))
    return commit.row_count(new)
