"""The progress of a table, stored in the summary of the snapshot that holds the rows.

So rows and progress never differ, even if the driver is killed. Compaction makes snapshots without
progress. So the newest snapshot with progress counts, and ``maintain`` keeps it. If another program
expired that snapshot, the progress is computed from the rows, which cannot lead to duplicates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import or_
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import functions as f

from app.pipeline import history, tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

T = TypeVar("T")

PROPERTY: Final = tables.PROGRESS_PROPERTY
Progress = tables.Progress
NO_PROGRESS: Final[Progress] = {}
places = tables.places


def as_text(progress: Progress) -> str:
    """Return the progress as canonical JSON."""
    return json.dumps(progress, sort_keys=True, separators=(",", ":"))


def read(spark: SparkSession, table: str, prefix: str = "") -> Progress:
    """Return the progress of a table; empty if the table has no rows yet. ``prefix`` is that of the
    columns PLACE."""
    found = stored(spark, table)
    if found is not None:
        return found
    return reach(
        spark.table(table).select(*(f.col(prefix + each).alias(each) for each in tables.PLACE))
    )


def stored(spark: SparkSession, table: str) -> Progress | None:
    """Return the progress that a snapshot of a table states: empty if the table has no snapshot, and
    None if no snapshot states it."""
    return stated(history.iceberg_table(spark, table))


def stated(loaded: Any) -> Progress | None:
    """Return the progress that a snapshot of a loaded table states, as ``stored`` does."""
    newest = None
    for newest in history.snapshots_of(loaded):
        if text := newest.summary.get(PROPERTY):
            return tables.progress_of(text)
    return {} if newest is None else None


def read_unfit(spark: SparkSession, table: str) -> dict[str, Progress]:
    """Return for each typed table up to where ``quarantine`` has the records that do not fit."""
    for each in history.snapshots(spark, table):
        if main := each.summary.get(PROPERTY):
            told = json.loads(each.summary.get(tables.UNFIT_PROPERTY, "{}"))
            return {
                name: tables.progress_of(main if own is None else json.dumps(own))
                for name, own in told.items()
            }
    return {}


def unfit_property(unfit: Mapping[str, Progress], done: Progress) -> dict[str, str]:
    """Return the property that ``read_unfit`` reads, for a snapshot with the progress ``done``."""
    told = {name: None if own == done else own for name, own in unfit.items()}
    return {tables.UNFIT_PROPERTY: as_text(told)} if told else {}  # type: ignore[arg-type]


def reach(records: DataFrame) -> Progress:
    """Return the offset after the last record of each partition in a frame with the columns
    LOCATION.
    """
    ends = records.groupBy("broker", "topic", "partition").agg(f.max("offset").alias("last"))
    return from_entries(
        (broker, topic, number, last + 1) for broker, topic, number, last in ends.collect()
    )


def first(records: DataFrame) -> Progress:
    """Return the first offset of each partition in a frame with the columns LOCATION."""
    begins = records.groupBy("broker", "topic", "partition").agg(f.min("offset").alias("first"))
    return from_entries(
        (broker, topic, number, at) for broker, topic, number, at in begins.collect()
    )


def from_entries(places: Iterable[tuple[str, str, int, int]]) -> Progress:
    """Build a progress from tuples of broker, topic, partition and offset."""
    found: dict[str, dict[str, dict[int, int]]] = {}
    for broker, topic, partition, offset in places:
        found.setdefault(broker, {}).setdefault(topic, {})[partition] = offset
    return found


def merged(progress: Progress, other: Progress) -> Progress:
    """Return the larger offset of the two for every partition."""
    found = {
        broker: {topic: dict(each) for topic, each in topics.items()}
        for broker, topics in progress.items()
    }
    for broker, topic, partition, offset in places(other):
        offsets = found.setdefault(broker, {}).setdefault(topic, {})
        offsets[partition] = max(offset, offsets.get(partition, 0))
    return found


def lesser(progress: Progress, other: Progress) -> Progress:
    """Return the smaller offset of the two for every partition; 0 if one of them is unknown."""
    return from_entries(
        (broker, topic, number, min(at, offset_at(other, broker, topic, number)))
        for broker, topic, number, at in places(progress)
    )


def total(progress: Progress) -> int:
    """Return the sum of all offsets, by which progresses of the same partitions can be ordered."""
    return sum(offset for *_, offset in places(progress))


def offset_at(progress: Progress, broker: str, topic: str, partition: int) -> int:
    """Return the offset of a partition; 0 if it is unknown."""
    return progress.get(broker, {}).get(topic, {}).get(partition, 0)


def covers(progress: Progress, end: Progress) -> bool:
    """Return True if ``progress`` has reached ``end`` in every partition."""
    return all(
        offset_at(progress, broker, topic, partition) >= offset
        for broker, topic, partition, offset in places(end)
    )


def between(start: Progress, end: Progress) -> Column:
    """Return a condition for the records from ``start`` to before ``end``.

    The condition has a form by which Iceberg skips files and row groups without such records.
    """
    broker_of, topic_of, partition_of, offset_of = map(f.col, tables.PLACE)
    each = [
        (broker_of == broker)
        & (topic_of == topic)
        & (partition_of == partition)
        & (offset_of >= first)
        & (offset_of < offset)
        for broker, topic, partition, offset in places(end)
        if (first := offset_at(start, broker, topic, partition)) < offset
    ]
    return balanced(or_, each) if each else f.lit(False)


def balanced(combine: Callable[[T, T], T], conditions: Sequence[T]) -> T:
    """Combine conditions into a balanced tree. A chain of a thousand partitions is too deep for Spark
    and for Iceberg's parser."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return combine(balanced(combine, conditions[:middle]), balanced(combine, conditions[middle:]))


def beyond(start: Progress) -> Column:
    """Return a condition for every record that the progress does not cover, including those of
    unknown partitions.
    """
    return ~between({}, start)


def slice_of(start: Progress, end: Progress, most: int) -> Progress:
    """Return the end of a batch of about ``most`` offsets from ``start``, with the same fraction of
    every partition.
    """
    pending = {place[:3]: place[3] - offset_at(start, *place[:3]) for place in places(end)}
    total = sum(n for n in pending.values() if n > 0)
    if total <= most:
        return merged(start, end)
    ends = (
        (*place, offset_at(start, *place) + (-(-n * most // total) if n > 0 else 0))
        for place, n in pending.items()
    )
    return merged(start, from_entries(ends))
