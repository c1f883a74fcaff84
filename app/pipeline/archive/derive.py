"""``events`` and ``quarantine`` out of ``events_raw``, one range of offsets after another.

A range is decoded natively and merged into ``events``; while that runs, the records in doubt are counted.
Only where there are any, the records that no row of ``events`` came from are decoded by the bindings: the
valid ones are merged too, the others go to ``quarantine``. A range that is small goes to the bindings at
once: to plan the native way costs seconds, whatever the number of records.

Both tables carry their progress in the snapshot of the range's rows. ``quarantine`` is written last, and for
every range: its progress says that a range is finished. A range that a killed driver left half-way is done
again. MERGE inserts nothing twice, and nothing of it is in ``quarantine`` yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import Observation, Window
from pyspark.sql import functions as f

from app.pipeline import decode, history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.progress import Progress
from app.pipeline.pulsar.options import SCHEME
from app.pipeline.session import kept
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Observe = Callable[[str], None]
"""Told of named moments: tests kill there."""

_KEY: Final = ("identity", "source", "id")
_RANK: Final = ("record_time", *tables.PLACE)


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
    """``start`` to ``end``, which is not part of it. ``before``: what ``events`` covers already."""

    start: Progress
    end: Progress
    before: Progress

    @property
    def sparse(self) -> bool:
        """Whether offsets do not count records: message ids of Pulsar are far from each other."""
        return any(topic.startswith(SCHEME) for _, topic, _, _ in progress.places(self.end))

    @property
    def touched(self) -> bool:
        """Whether ``events`` may hold rows of it."""
        return not progress.covers(self.start, self.before)

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
    raw = spark.table(lake.table(tables.RAW_TABLE)).where(progress.beyond(done))
    return Range(done, progress.joined(done, progress.reach(raw)), before)


def ranges(whole: Range, most: int) -> Iterator[Range]:
    """In pieces of about ``most`` offsets."""
    start, before = whole.start, whole.before
    while not progress.covers(start, whole.end):
        end = progress.slice_of(start, whole.end, most)
        yield Range(start, end, before)
        start = end


def pieces(spark: SparkSession, lake: Lake, whole: Range, most: int) -> Iterator[Range]:
    """In pieces of about ``most`` records, whatever their offsets."""
    if not whole.sparse:
        yield from ranges(whole, most)
        return
    start = whole.start
    for end in _cuts(spark, lake, whole, most):
        yield Range(start, end, whole.before)
        start = end


def _cuts(spark: SparkSession, lake: Lake, whole: Range, most: int) -> Iterator[Progress]:
    """Where each piece ends: every partition gives its share of its records."""
    raw = spark.table(lake.table(tables.RAW_TABLE)).where(progress.between(whole.start, whole.end))
    parts = -(-raw.count() // most)
    shares = [n / parts for n in range(1, parts)]
    if shares:
        ends = f.percentile_approx("offset", shares, 10_000).alias("ends")
        rows = raw.groupBy("broker", "topic", "partition").agg(ends).collect()
        for n in range(len(shares)):
            yield progress.joined(
                whole.start,
                progress.of((row[0], row[1], row[2], row["ends"][n] + 1) for row in rows),
            )
    if parts:
        yield whole.end


def derive(
    spark: SparkSession, lake: Lake, piece: Range, observe: Observe, *, small: int = 0
) -> Derived:
    """One range, whole; by the bindings alone where it has fewer than ``small`` records. Raises what Spark
    raises: it may be done again.
    """
    observe("range begun")
    way = _exactly if piece.size < small or piece.sparse else _natively
    return way(spark, lake, piece, observe)


def _exactly(spark: SparkSession, lake: Lake, piece: Range, observe: Observe) -> Derived:
    with kept(decode.exactly(_records(spark, lake, piece))) as exact:
        merged, quarantined = _finish(spark, lake, exact, piece, observe, beside=piece.touched)
        records = exact.count()
    return Derived(records, merged, records - merged - quarantined, quarantined)


def _natively(spark: SparkSession, lake: Lake, piece: Range, observe: Observe) -> Derived:
    """And by the bindings what is in doubt."""
    raw = _records(spark, lake, piece)
    judged = decode.natively(raw)
    seen = Observation()
    watched = judged.observe(
        seen, f.count(f.lit(1)).alias("records"), f.count_if(f.col("doubt")).alias("doubtful")
    )
    clear = event_rows(watched.where(~f.col("doubt")))
    merged = merge(spark, lake, first_of_each(clear), _ends(piece))
    observe("clear events committed")
    records, doubtful = int(seen.get["records"]), int(seen.get["doubtful"])
    if not doubtful:
        _quarantine(spark, lake, None, piece.end)
        observe("quarantine committed")
        return Derived(records, merged, records - merged, 0)
    with kept(decode.exactly(_left_over(spark, lake, raw, piece))) as exact:
        more, quarantined = _finish(spark, lake, exact, piece, observe, beside=True)
    return Derived(records, merged + more, records - merged - more - quarantined, quarantined)


def _records(spark: SparkSession, lake: Lake, piece: Range) -> DataFrame:
    raw = spark.table(lake.table(tables.RAW_TABLE))
    return decode.fenced(raw.where(progress.between(piece.start, piece.end)))


def _finish(
    spark: SparkSession,
    lake: Lake,
    exact: DataFrame,
    piece: Range,
    observe: Observe,
    *,
    beside: bool,
) -> tuple[int, int]:
    """What the bindings decoded into both tables: how many events were new, and how many records are refused.

    ``beside``: whether ``events`` may hold rows of this range already.
    """
    if beside:
        merged = _merge_beside(spark, lake, exact, piece)
    else:
        merged = merge(spark, lake, _valid(exact), _ends(piece))
    observe("doubtful events committed")
    quarantined = _quarantine(spark, lake, exact, piece.end)
    observe("quarantine committed")
    return merged, quarantined


def _ends(piece: Range) -> str:
    return progress.as_text(progress.joined(piece.before, piece.end))


def first_of_each(events: DataFrame) -> DataFrame:
    """One row a (source, id): the one that was stored first."""
    order = Window.partitionBy(*_KEY).orderBy(*_RANK)
    numbered = events.withColumn("_rank", f.row_number().over(order))
    return numbered.where(f.col("_rank") == 1).drop("_rank")


def event_rows(decoded: DataFrame) -> DataFrame:
    """The columns of ``events``."""
    identity = f.xxhash64("source", "id").alias("identity")
    return decoded.select(identity, *tables.names(tables.DECODED))


def _left_over(spark: SparkSession, lake: Lake, raw: DataFrame, piece: Range) -> DataFrame:
    """The records of a range that no row of ``events`` came from: the ones in doubt, and duplicates of clear
    ones. To decode those by the bindings is cheaper than to find out by another pass of the native way which
    they are, and to merge them changes nothing.

    They are found by their places, which are narrow: whole records are not sorted for it.
    """
    where = list(tables.PLACE)
    events = _as_of_now(spark, lake.table(tables.EVENTS_TABLE))
    there = events.where(progress.between(piece.start, piece.end)).select(*where)
    places = raw.select(*where).join(there, where, "left_anti")
    return raw.join(f.broadcast(places), where, "left_semi")


def _as_of_now(spark: SparkSession, table: str) -> DataFrame:
    """A table at its newest snapshot: when it grows, what was kept of it is not worked out again."""
    snapshot = history.newest(spark, table)
    if snapshot is None:
        return spark.table(table)
    return spark.read.option("snapshot-id", snapshot.id).table(table)


def merge(
    spark: SparkSession, lake: Lake, events: DataFrame, ends: str, *, better: Column | None = None
) -> int:
    """How many were new. Where there are none the snapshot is made all the same: it carries the progress.

    ``better``: which rows that are there already give way to those that come.
    """
    table = lake.table(tables.EVENTS_TABLE)
    same = " AND ".join(f"{table}.{name} = arriving.{name}" for name in _KEY)
    merging = events.alias("arriving").mergeInto(table, f.expr(same))
    if better is not None:
        merging = merging.whenMatched(better).updateAll()
    with history.carrying(spark, {progress.PROPERTY: ends}):
        merging.whenNotMatched().insertAll().merge()
    return _grown(spark, table, ends)


def _valid(exact: DataFrame) -> DataFrame:
    return first_of_each(event_rows(exact.where("verdict IS NULL")))


def _merge_beside(spark: SparkSession, lake: Lake, exact: DataFrame, piece: Range) -> int:
    """The clear ones of this range are there already. One of them gives way where the bindings found the
    same event in a record that was stored before it.
    """
    table, ends, valid = lake.table(tables.EVENTS_TABLE), _ends(piece), _valid(exact)
    here = spark.table(table).where(progress.between(piece.start, piece.end))
    late = here.select(*_KEY, f.struct(*_RANK).alias("theirs"))
    early = valid.select(*_KEY, f.struct(*_RANK).alias("ours")).join(f.broadcast(late), [*_KEY])
    if early.where("ours < theirs").isEmpty():
        return merge(spark, lake, valid, ends)
    ours = ", ".join(f"arriving.{name}" for name in _RANK)
    theirs = ", ".join(f"{table}.{name}" for name in _RANK)
    among = progress.between(piece.start, piece.end, of=table)
    better = among & f.expr(f"struct({ours}) < struct({theirs})")
    return merge(spark, lake, valid, ends, better=better)


def _quarantine(spark: SparkSession, lake: Lake, exact: DataFrame | None, end: Progress) -> int:
    table = lake.table(tables.QUARANTINE_TABLE)
    if exact is None:
        rows = spark.table(table).limit(0)
    else:
        refused = exact.where("verdict IS NOT NULL").withColumn("seen", f.current_timestamp())
        rows = refused.select(*tables.names(tables.QUARANTINE))
    property_name = f"snapshot-property.{progress.PROPERTY}"
    rows.writeTo(table).option(property_name, progress.as_text(end)).option(
        "fanout-enabled", "true"
    ).append()
    return 0 if exact is None else _grown(spark, table, progress.as_text(end))


def _grown(spark: SparkSession, table: str, ends: str) -> int:
    """By the snapshot that we made, whatever maintenance has put on it since."""
    for snapshot in history.snapshots(spark, table):
        if snapshot.summary.get(progress.PROPERTY) == ends:
            return snapshot.count("added-records") - snapshot.count("deleted-records")
    return 0
