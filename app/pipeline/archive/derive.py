"""``events`` and ``quarantine`` out of ``events_raw``, one range of offsets after another.

A range is decoded once, by tasks that write the files of both tables. Those of new events are committed to ``events``
(``unique`` says which), those of the other records to ``quarantine``.

Both tables carry their progress in the snapshot of the range's rows. ``quarantine`` is written last, and for
every range: its progress says that a range is finished. A range that a killed driver left half-way is done
again: what ``events`` covers already goes to ``quarantine`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as f

from app.pipeline import history, tables
from app.pipeline.archive import commit, progress, raw, unique
from app.pipeline.archive.files import FILES, File, written
from app.pipeline.archive.known import Known
from app.pipeline.archive.progress import Progress
from app.pipeline.archive.raw import Batches, Records
from app.pipeline.pulsar_options import SCHEME
from app.pipeline.settings import Lake
from app.pipeline.source import Offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DERIVED: Final = (tables.EVENTS_TABLE, tables.QUARANTINE_TABLE)

Observe = Callable[[str], None]
"""Told of named moments: tests kill there."""


class Derived(msgspec.Struct, frozen=True):
    """What came of a range. ``records = events + duplicates + quarantined``."""

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


class Range(msgspec.Struct, frozen=True):
    """``start`` to ``end``, which is not part of it. ``before``: what ``events`` covers already, of a range that
    was left half-way too.
    """

    start: Progress
    end: Progress
    before: Progress

    @property
    def sparse(self) -> bool:
        """Whether offsets do not count records: message ids of Pulsar are far from each other."""
        return any(topic.startswith(SCHEME) for _, topic, _, _ in progress.places(self.end))

    @property
    def size(self) -> int:
        """In offsets, which is never less than in records."""
        return sum(
            end - progress.at(self.start, broker, topic, partition)
            for broker, topic, partition, end in progress.places(self.end)
        )


def pending(spark: SparkSession, lake: Lake) -> Range:
    """All that ``events_raw`` has and the others have not."""
    done = progress.read(spark, lake.table(tables.QUARANTINE_TABLE))
    before = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    if history.newest(spark, lake.table(tables.RAW_TABLE)) is None:
        return Range(done, done, before)
    rest = spark.table(lake.table(tables.RAW_TABLE)).where(progress.beyond(done))
    return Range(done, progress.joined(done, progress.reach(rest)), before)


def further(whole: Range, broker: str, begin: Offsets, end: Offsets) -> Range:
    """With what a stream has put behind it, from ``begin`` in partitions that it knows nothing of."""
    fresh = progress.of(
        (broker, topic, n, at)
        for topic, each in begin.items()
        for n, at in each.items()
        if not progress.at(whole.end, broker, topic, n)
    )
    start = progress.joined(whole.start, fresh)
    return Range(
        start, progress.joined(start, progress.joined(whole.end, {broker: end})), whole.before
    )


def resumed(spark: SparkSession, lake: Lake, piece: Range) -> Range:
    """What is left of a range whose work ended with an error: either table may have its commit."""
    done = progress.read(spark, lake.table(tables.QUARANTINE_TABLE))
    before = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    start, before = progress.joined(piece.start, done), progress.joined(piece.before, before)
    return Range(start, piece.end, before)


def finished(whole: Range) -> Range:
    """What comes behind it: nothing yet."""
    return Range(whole.end, whole.end, whole.end)


def ranges(whole: Range, most: int) -> Iterator[Range]:
    """In pieces of about ``most`` offsets. What ``events`` has already is in pieces of its own."""
    start = whole.start
    for stop in _stops(whole):
        while not progress.covers(start, stop):
            end = progress.slice_of(start, stop, most)
            yield Range(start, end, whole.before)
            start = end


def _stops(whole: Range) -> tuple[Progress, Progress]:
    return progress.joined(whole.start, whole.before), whole.end


def pieces(spark: SparkSession, lake: Lake, whole: Range, most: int) -> Iterator[Range]:
    """In pieces of about ``most`` records, whatever their offsets."""
    if not whole.sparse:
        yield from ranges(whole, most)
        return
    start = whole.start
    for stop in _stops(whole):
        for end in _cuts(spark, lake, Range(start, stop, whole.before), most):
            yield Range(start, end, whole.before)
            start = end


def _cuts(spark: SparkSession, lake: Lake, whole: Range, most: int) -> Iterator[Progress]:
    """Where each piece ends: every partition gives its share of its records."""
    stored = spark.table(lake.table(tables.RAW_TABLE))
    chosen = stored.where(progress.between(whole.start, whole.end))
    parts = -(-chosen.count() // most)
    shares = [n / parts for n in range(1, parts)]
    if shares:
        ends = f.percentile_approx("offset", shares, 10_000).alias("ends")
        rows = chosen.groupBy("broker", "topic", "partition").agg(ends).collect()
        for n in range(len(shares)):
            yield progress.joined(
                whole.start,
                progress.of((row[0], row[1], row[2], row["ends"][n] + 1) for row in rows),
            )
    if parts:
        yield whole.end


def derive(
    spark: SparkSession, lake: Lake, piece: Range, observe: Observe, known: Known
) -> Derived:
    """One range, whole. ``known``: of the ranges before. Raises what Spark raises: it may be done again."""
    observe("range begun")
    arrived = raw.records(spark, lake, piece.start, piece.end)
    there = progress.covers(piece.before, piece.end)
    valid, refused = decoded(spark, lake, arrived, only_count=there)
    observe("range decoded")
    ends = progress.joined(piece.before, piece.end)
    with commit.discarding(spark, lake.table(tables.QUARANTINE_TABLE), refused):
        added = 0 if there else append(spark, lake, valid, ends, observe, known)
    observe("events committed")
    commit.append(spark, lake.table(tables.QUARANTINE_TABLE), refused, piece.end)
    observe("quarantine committed")
    whole, broken = commit.rows(valid), commit.rows(refused)
    return Derived(whole + broken, added, whole - added, broken)


def decoded(
    spark: SparkSession, lake: Lake, records: Records, *, only_count: bool = False
) -> tuple[list[File], list[File]]:
    """Files that no snapshot names yet: of events, and of quarantine. ``only_count`` of the events, which are in the
    lake already.
    """
    layouts = [commit.layout(spark, lake, name) for name in _DERIVED]
    task = partial(
        _written, read=records.read, events=layouts[0], quarantine=layouts[1], only_count=only_count
    )
    found = commit.files(records.frame.mapInArrow(task, FILES))
    events, refused = ([each for each in found if each.name == name] for name in _DERIVED)
    return events, refused


def _written(batches: Batches, read: Callable[[Batches], Batches], **how: Any) -> Batches:
    """In a task. Functions of Spark take one argument."""
    return written(read(batches), **how)


def append(
    spark: SparkSession,
    lake: Lake,
    arriving: list[File],
    ends: Progress,
    observe: Observe,
    known: Known,
) -> int:
    """How many were new. Where there are none the snapshot is made all the same: it carries the progress."""
    table = lake.table(tables.EVENTS_TABLE)
    with commit.discarding(spark, table, arriving):
        new = unique.new(spark, lake, arriving, known)
    observe("duplicates found")
    known.grew(commit.append(spark, table, new, ends), (each.known for each in new))
    return commit.rows(new)
