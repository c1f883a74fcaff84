"""Read a range of ``events_raw`` in the tasks that decode it: rows go from Parquet into Arrow, not
through the JVM.

The driver asks Iceberg's Java classes which files have records of the range, and each task reads a
share of them. Spark reads the range if Arrow cannot: files with deleted rows, or files that are not
Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from app.pipeline import history, tables
from app.pipeline.archive import commit, iceberg_adapter, progress
from app.pipeline.archive.progress import Progress
from app.pipeline.archive.reading import batches
from app.pipeline.decode import KEPT, SENT
from app.pipeline.decode.buffers import Numbers
from app.pipeline.settings import Lake
from app.spark.pyspark_adapter import jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (*KEPT, *SENT)

Batches = Iterable[pa.RecordBatch]


class RangeRecords(NamedTuple):
    """The records of a range, as a frame and a function for its tasks.

    Attributes:
        frame: The rows that Spark brings to a task.
        read: Converts these rows into batches of COLUMNS, in the task.
    """

    frame: DataFrame
    read: Callable[[Batches], Batches] = iter


class ReadTask(msgspec.Struct, frozen=True):
    """The records that a task reads from its files.

    Attributes:
        schema: The columns COLUMNS, with the field ids of Iceberg.
        start: The first offset of each partition.
        end: The first offset of each partition that is not read.
        access: The storage properties of the table.
    """

    schema: pa.Schema
    start: Progress
    end: Progress
    access: Mapping[str, str]


def records(spark: SparkSession, lake: Lake, start: Progress, end: Progress) -> RangeRecords:
    """Return the records from ``start`` to before ``end``."""
    name = lake.table(tables.RAW_TABLE)
    table = history.iceberg_table(spark, name)
    found = _files(spark, table, start, end)
    if found is None:
        return RangeRecords(spark.table(name).where(progress.between(start, end)).select(*COLUMNS))
    wanted = ReadTask(
        iceberg_adapter.schema(table, name, COLUMNS), start, end, iceberg_adapter.access(table)
    )
    each_core = shares(found, spark.sparkContext.defaultParallelism)
    frame = commit.one_task_each(spark, as_shares(each_core))
    return RangeRecords(frame, partial(read_files, wanted=wanted))


def as_shares(each_task: Sequence[Sequence[str]]) -> pa.Table:
    """Return a table with a row for each task: the paths of the files that it reads."""
    return pa.table({"paths": pa.array(each_task, pa.list_(pa.string()))})


def _files(
    spark: SparkSession, table: Any, start: Progress, end: Progress
) -> list[tuple[int, str]] | None:
    """Return the size and path of each file that may have records of the range.

    The result is None if Arrow cannot read one of the files.
    """
    condition = _condition(start, end)
    if condition is None:
        return []
    java = jvm(spark)
    parsed = java.org.apache.iceberg.expressions.ExpressionParser.fromJson(json.dumps(condition))
    found = []
    tasks = table.newScan().filter(parsed).planFiles()
    try:
        for task in tasks.iterator():
            file = task.file()
            if file.format().name() != "PARQUET" or len(task.deletes()):
                return None
            found.append((file.fileSizeInBytes(), str(file.location())))
    finally:
        tasks.close()
    return found


def _condition(start: Progress, end: Progress) -> Any:
    """Return the condition of ``progress.between`` as JSON of Iceberg; None if the range is empty."""
    both, either = (partial(_combined, name) for name in ("and", "or"))
    each = [
        progress.balanced(both, [
            _is("eq", "topic", topic), _is("eq", "broker", broker), _is("eq", "partition", number),
            _is("gt-eq", "offset", first), _is("lt", "offset", last),
        ])
        for broker, topic, number, last in progress.places(end)
        if (first := progress.offset_at(start, broker, topic, number)) < last
    ]  # fmt: skip
    return progress.balanced(either, each) if each else None


def _is(operator: str, column: str, value: str | int) -> Any:
    return {"type": operator, "term": column, "value": value}


def _combined(operator: str, left: Any, right: Any) -> Any:
    return {"type": operator, "left": left, "right": right}


def shares(found: list[tuple[int, str]], most: int) -> list[list[str]]:
    """Distribute the paths over at most ``most`` lists. The largest files are distributed first, so that the lists
    have similar sizes."""
    paths = [path for _, path in sorted(found, reverse=True)]
    count = min(most, len(paths))
    return [paths[n::count] for n in range(count)]


def read_files(told: Batches, wanted: ReadTask) -> Iterator[pa.RecordBatch]:
    """Read the records of the range from the files that the rows name. This runs in a task."""
    for batch in told:
        for paths in batch.column("paths").to_pylist():
            for path in paths:
                yield from _file_batches(path, wanted)


def _file_batches(path: str, wanted: ReadTask) -> Iterator[pa.RecordBatch]:
    skip = partial(_is_outside, wanted=wanted)
    for batch in batches(path, wanted.access, wanted.schema, skip=skip):
        chosen = within(batch, wanted.start, wanted.end)
        if chosen.any():
            yield batch if chosen.all() else batch.filter(pa.array(chosen))


def _is_outside(columns: Mapping[str, Any], wanted: ReadTask) -> bool:
    """Return True if a row group has no offset of the range. In the large files of upkeep, only few row groups
    belong to a range."""
    offsets = columns["offset"].statistics
    if offsets is None or not offsets.has_min_max:
        return False
    return not any(
        first < last and offsets.min < last and offsets.max >= first
        for broker, topic, number, last in progress.places(wanted.end)
        for first in [progress.offset_at(wanted.start, broker, topic, number)]
    )


def within(batch: pa.RecordBatch, start: Progress, end: Progress) -> Numbers:
    """Return which rows are in the range. Each distinct partition of the batch is looked up once."""
    brokers, topics = (batch.column(name).dictionary_encode() for name in ("broker", "topic"))
    partition, offset = (batch.column(name).to_numpy() for name in ("partition", "offset"))
    names = brokers.indices.to_numpy().astype(np.int64) * len(topics.dictionary)
    codes = ((names + topics.indices.to_numpy()) << 32) + partition
    chosen = np.zeros(len(batch), bool)
    for row in np.unique(codes, return_index=True)[1].tolist():
        place = batch.column("broker")[row].as_py(), batch.column("topic")[row].as_py()
        first, last = (
            progress.offset_at(each, *place, int(partition[row])) for each in (start, end)
        )
        chosen |= (codes == codes[row]) & (offset >= first) & (offset < last)
    return chosen
