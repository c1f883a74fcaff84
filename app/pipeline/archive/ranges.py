"""The ranges of offsets that are derived one after another, and what is left after a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as f

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive import progress, topics
from app.pipeline.archive.progress import Progress
from app.pipeline.settings import Lake
from app.pipeline.typed.schema import PREFIX
from app.spark.pulsar.options import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeriveRange(msgspec.Struct, frozen=True):
    """The records of some partitions from ``start`` to before ``end``.

    Attributes:
        start: The first offset of each partition.
        end: The first offset of each partition that is not in the range.
        before: The progress of ``events``, which may be inside an interrupted range.
        typed: The progress of each typed table.
        only: The typed table that alone is derived, because it is newer than the lake; empty for
            all tables.
        unfit: With ``only``: up to where ``quarantine`` has the records that do not fit the table.
        older: The ranges of typed tables that are derived before this range.
    """

    start: Progress
    end: Progress
    before: Progress
    typed: Mapping[str, Progress] = {}
    only: str = ""
    unfit: Progress = {}
    older: tuple[DeriveRange, ...] = ()

    @property
    def sparse(self) -> bool:
        """Return True if offsets do not count records. This is so for message ids of Pulsar, which
        have gaps.
        """
        return any(topic.startswith(SCHEME) for _, topic, _, _ in progress.places(self.end))

    @property
    def is_empty(self) -> bool:
        """Return True if nothing is to be derived."""
        return progress.covers(self.start, self.end)

    @property
    def size(self) -> int:
        """Return the number of offsets, which is at least the number of records."""
        return sum(
            end - progress.offset_at(self.start, broker, topic, partition)
            for broker, topic, partition, end in progress.places(self.end)
        )

    def is_in(self, done: Progress) -> bool:
        """Return True if a table with this progress has all records of the range. It may not know a
        partition of which the range has no record."""
        return progress.covers(progress.merged(done, self.start), self.end)

    def piece(self, start: Progress, end: Progress) -> DeriveRange:
        """Return a part of the range."""
        return msgspec.structs.replace(self, start=start, end=end, older=())


def pending(spark: SparkSession, lake: Lake) -> DeriveRange:
    """Return the range of all records in ``events_raw`` that are not yet derived.

    Raises:
        SetupError: ``events`` was dropped or rolled back, so it lacks records that are derived.
    """
    done = progress.read(spark, lake.table(tables.QUARANTINE_TABLE))
    events = lake.table(tables.EVENTS_TABLE)
    stated = progress.stored(spark, events)
    before = progress.read(spark, events) if stated is None else stated
    typed = {each.table: _typed(spark, lake, each.table) for each in lake.tables}
    raw = history.iceberg_table(spark, lake.table(tables.RAW_TABLE))
    if raw.currentSnapshot() is None:
        _demand_events(lake, stated, progress.NO_PROGRESS, done)
        return DeriveRange(done, done, before, typed)
    copied = topics.copied(spark, lake, raw)
    begun = progress.lesser(topics.first_offsets(raw), copied)  # topics may have no record yet
    _demand_events(lake, stated, begun, done)
    start = progress.merged(done, begun)
    older = tuple(_older(spark, lake, done, typed))
    return DeriveRange(start, progress.merged(start, copied), before, typed, older=older)


def _demand_events(lake: Lake, stated: Progress | None, begun: Progress, done: Progress) -> None:
    """Raise SetupError if ``events`` states less progress than ``quarantine``, which is written after
    it. Before the offsets ``begun`` there are no records."""
    events = lake.table(tables.EVENTS_TABLE)
    if stated is not None and not progress.covers(progress.merged(stated, begun), done):
        raise SetupError(
            f"{events} lacks events that it had: the table was dropped or rolled back",
            setting="pipeline.lake",
            cure=f"DROP TABLE {events} and {lake.table(tables.QUARANTINE_TABLE)}: the archive fills both from"
            " events_raw",
        )


def _typed(spark: SparkSession, lake: Lake, name: str) -> Progress:
    return progress.read(spark, lake.table(name), PREFIX)


def _older(
    spark: SparkSession, lake: Lake, done: Progress, typed: Mapping[str, Progress]
) -> Iterator[DeriveRange]:
    """Yield the range of each typed table that lacks records which ``events`` has."""
    unfit = progress.read_unfit(spark, lake.table(tables.QUARANTINE_TABLE))
    raw = spark.table(lake.table(tables.RAW_TABLE))
    for name, own in typed.items():
        there = unfit.get(name, {})
        held = progress.lesser(own, there)
        if not progress.covers(held, done):
            # Offsets that no row has, often millions, would become thousands of empty ranges.
            first = progress.first(raw.where(progress.between(held, done)))
            known = {place[:3]: place[3] for place in progress.places(first)}
            start = progress.from_entries(
                (broker, topic, number, known.get((broker, topic, number), at))
                for broker, topic, number, at in progress.places(done)
            )
            yield DeriveRange(start, done, {}, {name: own}, name, there)


def remaining(spark: SparkSession, lake: Lake, piece: DeriveRange) -> DeriveRange:
    """Return the part of a range that is still to be derived after a failure. Some of the tables
    may have been committed before the failure."""
    typed = {
        name: progress.merged(own, _typed(spark, lake, name)) for name, own in piece.typed.items()
    }
    if piece.only:
        unfit = progress.read_unfit(spark, lake.table(tables.QUARANTINE_TABLE))
        there = progress.merged(piece.unfit, unfit.get(piece.only, {}))
        done = progress.lesser(typed[piece.only], there)
        start = progress.merged(piece.start, done)
        return msgspec.structs.replace(piece, start=start, typed=typed, unfit=there)
    done = progress.read(spark, lake.table(tables.QUARANTINE_TABLE))
    before = progress.read(spark, lake.table(tables.EVENTS_TABLE))
    return msgspec.structs.replace(
        piece,
        start=progress.merged(piece.start, done),
        before=progress.merged(piece.before, before),
        typed=typed,
    )


def split_by_offsets(whole: DeriveRange, most: int) -> Iterator[DeriveRange]:
    """Split a range into pieces of about ``most`` offsets. Records that a table already has are in
    separate pieces.
    """
    start = whole.start
    for stop in _stops(whole):
        while not progress.covers(start, stop):
            end = progress.slice_of(start, stop, most)
            yield whole.piece(start, end)
            start = end


def _stops(whole: DeriveRange) -> list[Progress]:
    """Return the ends of the parts of a range that the same tables have. A table is never ahead of
    the one that is committed before it, so their order is that of their offsets."""
    known = sorted((whole.before, whole.unfit, *whole.typed.values()), key=progress.total)
    stops = [whole.start]
    for each in known:
        stops.append(_within(progress.merged(stops[-1], each), whole.end))
    return [*stops[1:], whole.end]


def _within(reached: Progress, end: Progress) -> Progress:
    """Return the progress without partitions and offsets beyond the end of a range."""
    return progress.lesser(end, reached)


def split_by_records(
    spark: SparkSession, lake: Lake, whole: DeriveRange, most: int
) -> Iterator[DeriveRange]:
    """Split a range into pieces of about ``most`` records, even if the offsets have gaps."""
    if not whole.sparse:
        yield from split_by_offsets(whole, most)
        return
    start = whole.start
    for stop in _stops(whole):
        for end in _piece_ends(spark, lake, whole.piece(start, stop), most):
            yield whole.piece(start, end)
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
