"""Frames to small tables. Each function is one or two jobs of Spark; what comes back fits on a page.

``Scope`` holds the three tables, narrowed to the range. Percentiles are approximate (``ACCURACY``), counts of
distinct sources too (HyperLogLog); every other count is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import functions as f

from app.pipeline import tables as lake_tables
from app.pipeline.archive import progress
from app.pipeline.report.spans import Span
from app.pipeline.report.tables import Table, of
from app.pipeline.settings import Lake
from app.store.attempt_log import LONGEST_ID, Tried

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ACCURACY: Final = 1000  # of percentiles: a rank is off by at most count / ACCURACY
TYPES: Final = 500  # most rows of a table of types
TOP: Final = 20  # keys, sources, partitions
SERIES: Final = 6  # of a chart; the rest is one more
OTHER: Final = "all others"
SIZES: Final = (0, *(2**n for n in range(5, 25)))
"""Where the bars of the histogram begin, in bytes."""

DELIVERIES: Final = (
    "subscription type events delivered at_once given_up open attempts latency_p50 latency_p99"
)
"""``events``: those that the store has attempts of; ``at_once``: delivered by the first attempt; ``open``:
neither delivered nor given up; latency: seconds from the record to its delivery.
"""

_MICRO: Final = 1_000_000


class Scope(msgspec.Struct, frozen=True):
    """``raw``: what ``events`` and ``quarantine`` were derived from already; ``waiting``: the rest. A range of
    offsets that the archive is half through is left out of all three: their sums agree while it runs.
    """

    raw: Any
    events: Any
    quarantine: Any
    waiting: Any
    span: Span


def reach(
    spark: SparkSession, lake: Lake, since: datetime | None, until: datetime | None
) -> Span | None:
    """From the first to the last record, or as told. None where there is nothing in it."""
    raw = spark.table(lake.table(lake_tables.RAW_TABLE)).where(progress.within(since, until))
    ends = f.min("record_time").alias("first"), f.max("record_time").alias("last")
    [row] = raw.agg(*ends).toArrow().to_pylist()  # whose times have their zone
    if row["first"] is None:
        return None
    return Span(since or row["first"], until or row["last"] + timedelta(microseconds=1))


def scope_of(spark: SparkSession, lake: Lake, span: Span) -> Scope:
    done = progress.read(spark, lake.table(lake_tables.QUARANTINE_TABLE))
    raw, events, quarantine = (
        spark.table(lake.table(name)).where(progress.within(span.begin, span.end))
        for name in (lake_tables.RAW_TABLE, lake_tables.EVENTS_TABLE, lake_tables.QUARANTINE_TABLE)
    )
    beyond = progress.beyond(done)
    return Scope(
        raw=raw.where(~beyond),
        events=events.where(~beyond),
        quarantine=quarantine.where(~beyond),
        waiting=raw.where(beyond),
        span=span,
    )


def delay() -> Column:
    """Seconds from the producer's ``time`` to the broker's; null without a time. Below nothing where a
    producer's clock is ahead.
    """
    return (f.unix_micros("record_time") - f.unix_micros("time")) / f.lit(float(_MICRO))


def types(scope: Scope) -> Table:
    """A type each, the most frequent first; ``data`` is the payload's size."""
    size = f.coalesce(f.octet_length("data"), f.octet_length("data_bytes"), f.lit(0))
    measured = scope.events.select(
        "type", "source", "record_time", delay().alias("delay"), size.alias("size")
    )
    found = measured.groupBy("type").agg(
        f.count(f.lit(1)).alias("events"),
        f.approx_count_distinct("source").alias("sources"),
        f.min("record_time").alias("first"),
        f.max("record_time").alias("last"),
        *_percentiles("delay"),
        *_percentiles("size"),
    )
    names = "type events sources first last delay_p50 delay_p99 size_p50 size_p99"
    return _table(found.orderBy(f.desc("events"), "type").limit(TYPES), names)


def sources(scope: Scope) -> Table:
    found = scope.events.groupBy("source").agg(
        f.count(f.lit(1)).alias("events"), f.approx_count_distinct("type").alias("types")
    )
    return _table(found.orderBy(f.desc("events"), "source").limit(TOP), "source events types")


def volume(scope: Scope, column: str, names: Sequence[str]) -> Table:
    """Events of each bin, by the first ``SERIES`` names; the others are one."""
    shown = f.col(column).isin(list(names[:SERIES])) if names else f.lit(False)
    named = f.when(shown, f.col(column)).otherwise(f.lit(None))
    found = scope.events.groupBy(_bin(scope).alias("bin"), named.alias("name")).count()
    begins = scope.span.bins()
    rows = [
        (begins[row["bin"]], OTHER if row["name"] is None else row["name"], row["count"])
        for row in found.collect()
    ]
    return of(f"begin {column} events", sorted(rows, key=lambda row: (row[0], row[1])))


def arrivals(scope: Scope) -> tuple[Table, Mapping[str, Any]]:
    """Delay by bin, and of all: ``events``, ``timed`` (those with a time), ``ahead`` (of the broker's clock)."""
    timed = scope.events.select(_bin(scope).alias("bin"), delay().alias("delay"))
    found = timed.rollup("bin").agg(
        f.count(f.lit(1)).alias("events"),
        f.count("delay").alias("timed"),
        f.count_if(f.col("delay") < 0).alias("ahead"),
        *_percentiles("delay"),
    )
    rows = found.toArrow().to_pylist()
    total: dict[str, Any] = next((row for row in rows if row["bin"] is None), {})
    names = ("events", "timed", "ahead", "delay_p50", "delay_p99")
    bins = sorted((row for row in rows if row["bin"] is not None), key=lambda row: row["bin"])
    begins = scope.span.bins()
    listed = [(begins[row["bin"]], *(row[name] for name in names)) for row in bins]
    return of(f"begin {' '.join(names)}", listed), total


def flow(scope: Scope) -> Table:
    """Records of each bin and topic, and what became of them: ``records = events + duplicates + invalid``.

    A duplicate is a record whose event, by source and id, was there already.
    """
    found: dict[tuple[int, str, str], list[int]] = {}
    for at, frame in enumerate((scope.raw, scope.events, scope.quarantine)):
        grouped = frame.groupBy(_bin(scope).alias("bin"), "broker", "topic").count()
        for row in grouped.collect():
            found.setdefault((row["bin"], row["broker"], row["topic"]), [0, 0, 0])[at] += row[
                "count"
            ]
    begins = scope.span.bins()
    rows = [
        (begins[at], broker, topic, records, events, records - events - invalid, invalid)
        for (at, broker, topic), (records, events, invalid) in sorted(found.items())
    ]
    return of("begin broker topic records events duplicates invalid", rows)


def invalid(scope: Scope) -> Table:
    """Quarantined records by the first rule that they broke, with the newest as an example."""
    found = scope.quarantine.groupBy("verdict", "rule").agg(
        f.count(f.lit(1)).alias("records"),
        f.min("record_time").alias("first"),
        f.max("record_time").alias("last"),
        f.max_by(f.substring("detail", 1, 300), "record_time").alias("detail"),
        f.max_by(f.concat_ws("/", "topic", "partition", "offset"), "record_time").alias("example"),
    )
    names = "verdict rule records first last detail example"
    return _table(found.orderBy(f.desc("records"), "verdict", "rule").limit(TYPES), names)


def sizes(scope: Scope) -> tuple[Table, Mapping[str, Any]]:
    """A histogram of whole values on the wire, and ``p50``, ``p99``, ``most``, ``total`` in bytes."""
    size = f.coalesce(f.octet_length("value"), f.lit(0))
    bars = [
        f.count_if((f.col("size") >= begin) & (f.col("size") < end)).alias(str(begin))
        for begin, end in zip(SIZES, [*SIZES[1:], 2**62], strict=True)
    ]
    summed = scope.raw.select(size.alias("size")).agg(
        *bars,
        *_percentiles("size"),
        f.max("size").alias("most"),
        f.sum(f.col("size").cast("bigint")).alias("total"),
    )
    [row] = summed.toArrow().to_pylist()
    ends = [*SIZES[1:], None]
    return of(
        "at_least below records",
        [(at, end, row[str(at)]) for at, end in zip(SIZES, ends, strict=True)],
    ), row


def keys(scope: Scope) -> tuple[Table, int]:
    """The record keys with most records, and how many different keys there are. Null is a record without."""
    counted = scope.raw.groupBy("key").count()
    found = counted.orderBy(f.desc("count"), "key").limit(TOP + 1).toArrow().to_pylist()
    distinct = scope.raw.agg(f.approx_count_distinct("key", 0.02).alias("n")).collect()[0]["n"]
    rows = [
        (None if row["key"] is None else _readable(row["key"]), row["count"]) for row in found[:TOP]
    ]
    exact = sum(1 for row in found if row["key"] is not None)
    return of("key records", rows), exact if len(found) <= TOP else max(distinct, exact)


def partitions(scope: Scope) -> Table:
    found = scope.raw.groupBy("broker", "topic", "partition").agg(
        f.count(f.lit(1)).alias("records")
    )
    ordered = found.orderBy("broker", "topic", "partition")
    return _table(ordered, "broker topic partition records")


def known_before(
    spark: SparkSession, lake: Lake, span: Span, names: Collection[str]
) -> set[str] | None:
    """Which of these types the lake had before the range; None where it had no event at all."""
    events = spark.table(lake.table(lake_tables.EVENTS_TABLE)).where(
        progress.within(None, span.begin)
    )
    found = {
        row["type"]
        for row in events.where(f.col("type").isin(list(names))).select("type").distinct().collect()
    }
    return None if not found and events.isEmpty() else found


def deliveries(spark: SparkSession, scope: Scope, tried: Sequence[Tried]) -> Table:
    """What became of the events, by subscription and type. Those that are not in the range are not counted."""
    if not tried:
        return of(DELIVERIES)
    here = scope.events.select(
        "source", f.substring("id", 1, LONGEST_ID).alias("id"), "type", "record_time"
    )
    joined = _tried(spark, tried).join(here, ["source", "id"])
    delivered = f.col("delivered_ms").isNotNull()
    given_up = ~delivered & f.col("given_up")
    waited = (f.col("delivered_ms") - f.unix_millis("record_time")) / f.lit(1000.0)
    found = joined.groupBy("subscription", "type").agg(
        f.count(f.lit(1)).alias("events"),
        f.count_if(delivered).alias("delivered"),
        f.count_if(delivered & (f.col("attempts") == 1)).alias("at_once"),
        f.count_if(given_up).alias("given_up"),
        f.count_if(~delivered & ~given_up).alias("open"),
        f.sum("attempts").alias("attempts"),
        f.percentile_approx(waited, 0.5).alias("latency_p50"),
        f.percentile_approx(waited, 0.99).alias("latency_p99"),
    )
    rows = found.orderBy("subscription", f.desc("events")).toArrow().to_pylist()
    return of(DELIVERIES, [[row[name] for name in DELIVERIES.split()] for row in rows])


def _bin(scope: Scope) -> Column:
    """Which bin of the span a row is in."""
    first = int(scope.span.floor().timestamp()) * _MICRO
    width = int(scope.span.step.total_seconds()) * _MICRO
    return ((f.unix_micros("record_time") - f.lit(first)) / f.lit(width)).cast("int")


def _percentiles(column: str) -> list[Column]:
    """``column_p50``, ``column_p99``."""
    return [
        f.percentile_approx(column, share, ACCURACY).alias(f"{column}_{name}")
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]


def _table(frame: DataFrame, names: str) -> Table:
    """By Arrow, whose times have their zone."""
    rows = frame.select(*names.split()).toArrow().to_pylist()
    return of(names, [tuple(row.values()) for row in rows])


def _readable(key: bytes) -> str:
    """Text where it is some, else its bytes in hexadecimal."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"


def _tried(spark: SparkSession, tried: Sequence[Tried]) -> DataFrame:
    columns: dict[str, Any] = {
        name: [getattr(each, name) for each in tried]
        for name in ("subscription", "source", "id", "attempts", "delivered_ms", "given_up")
    }
    types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.bool_())
    schema = pa.schema(list(zip(columns, types, strict=True)))
    return spark.createDataFrame(pa.table(columns, schema))
