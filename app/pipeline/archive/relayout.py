"""Move the rows of ``events`` to the partitioning of the configuration.

The partitioning of the table is changed first, so new files have the new one. Then the files of the
older partitionings are written again, some at a time. Each commit replaces the files that it wrote
again. If the move is killed, the next one finds the files that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive import commit
from app.pipeline.archive.files import FILES, Files, TableLayout, as_batch
from app.pipeline.archive.raw import shares
from app.pipeline.archive.storage import open_file
from app.pipeline.settings import Lake
from app.spark.pyspark_adapter import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER: Final = 1 << 30
"""The size in bytes of the files that one commit replaces."""

_ID: Final = b"PARQUET:field_id"
_ROWS: Final = 10_000


class OldFile(NamedTuple):
    """A file of an older partitioning. ``java`` is Iceberg's object."""

    size: int
    path: str
    java: Any


def waiting(spark: SparkSession, lake: Lake) -> int:
    """Return the number of files of ``events`` that ``relayout`` would write again."""
    table = history.iceberg_table(spark, lake.table(tables.EVENTS_TABLE))
    current = table.spec().specId() if _has_layout(table, lake) else -1
    return len(_old_files(table, current))


def relayout(spark: SparkSession, lake: Lake, tell: Callable[[str], None]) -> int:
    """Move ``events`` to partitions by day, and to buckets within a day if ``lake.buckets`` is more
    than 1. Return the number of files that were written again.

    Raises:
        SetupError: A file has deleted rows, or the table has a column of an unknown type.
    """
    name = lake.table(tables.EVENTS_TABLE)
    table = history.iceberg_table(spark, name)
    if not _has_layout(table, lake):
        _change_partitioning(spark, table, lake)
    moved = 0
    while group := _next_group(history.iceberg_table(spark, name)):
        _write_again(spark, lake, group)
        moved += len(group)
        tell(f"moved {moved} files")
    return moved


def _has_layout(table: Any, lake: Lake) -> bool:
    found = [(table.schema().findColumnName(each.sourceId()), each.transform().toString())
             for each in table.spec().fields()]  # fmt: skip
    wanted = [("time", "day")]
    return found == [
        *wanted,
        *([("identity", f"bucket[{lake.buckets}]")] if lake.buckets > 1 else []),
    ]


def _change_partitioning(spark: SparkSession, table: Any, lake: Lake) -> None:
    expressions = jvm(spark).org.apache.iceberg.expressions.Expressions
    change = table.updateSpec()
    for each in table.spec().fields():
        change = change.removeField(each.name())
    change = change.addField(expressions.day("time"))
    if lake.buckets > 1:
        change = change.addField(expressions.bucket("identity", lake.buckets))
    change.commit()


def _next_group(table: Any) -> list[OldFile]:
    group: list[OldFile] = []
    size = 0
    for each in _old_files(table, table.spec().specId()):
        if group and size + each.size > TOGETHER:
            break
        group.append(each)
        size += each.size
    return group


def _old_files(table: Any, current: int) -> list[OldFile]:
    found = []
    tasks = table.newScan().planFiles()
    try:
        for task in tasks.iterator():
            file = task.file()
            if file.specId() == current:
                continue
            if file.format().name() != "PARQUET" or len(task.deletes()):
                raise SetupError(
                    f"{file.location()} has deleted rows, or is not Parquet, and cannot be moved",
                    setting="pipeline.lake",
                    cure="CALL lake.system.rewrite_data_files(table => '...', options => map('delete-file-threshold', '1'))",
                )
            found.append(OldFile(file.fileSizeInBytes(), str(file.location()), file))
    finally:
        tasks.close()
    return found


def _write_again(spark: SparkSession, lake: Lake, group: list[OldFile]) -> None:
    name = lake.table(tables.EVENTS_TABLE)
    table = history.iceberg_table(spark, name)
    columns = [str(each.name()) for each in table.schema().columns()]
    layout = commit.layout(spark, lake, tables.EVENTS_TABLE)
    whole = msgspec.structs.replace(layout, schema=commit.schema(table, name, columns))
    paths = shares(
        [(each.size, each.path) for each in group], spark.sparkContext.defaultParallelism
    )
    frame = spark.createDataFrame([(each,) for each in paths], "paths ARRAY<STRING>")
    added = commit.run_tasks(frame.mapInArrow(partial(move_rows, layout=whole), FILES))
    commit.replace(spark, name, [each.java for each in group], added)


def move_rows(told: Iterable[pa.RecordBatch], layout: TableLayout) -> Iterator[pa.RecordBatch]:
    """Write the rows of the files that the rows name to files of ``layout``, and yield a batch of
    ``FILES``. This runs in a task."""
    files = Files(layout)
    try:
        for batch in told:
            for path in (path for paths in batch.column("paths").to_pylist() for path in paths):
                with open_file(path, layout.access) as source:
                    for rows in _groups(pq.ParquetFile(source), layout.schema):
                        files.add(rows, rows.column("identity").to_numpy())
        found = as_batch(files.closed())
    except BaseException:
        files.discard()
        raise
    yield found


def _groups(file: pq.ParquetFile, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the row groups of a file with the columns of the table. Columns are found by Iceberg's
    ids; those that were added later are null."""
    there: Mapping[bytes, str] = {
        field.metadata[_ID]: field.name
        for field in file.schema_arrow
        if _ID in (field.metadata or {})
    }
    names = [there.get(field.metadata[_ID]) for field in wanted]
    known = [name for name in names if name is not None]
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(_ROWS, row_groups=[group], columns=known):
            columns = [
                pa.nulls(len(batch), field.type) if name is None else batch.column(name)
                for name, field in zip(names, wanted, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, wanted.names)
