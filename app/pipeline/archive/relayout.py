"""Move the rows of ``events`` to the partitioning of the configuration.

The partitioning of the table is changed first, so new files have the new one. Then the files of the
older partitionings are written again, some at a time. Each commit replaces the files that it wrote
again. If the move is killed, the next one finds the files that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive.iceberg_adapter import StoredFile
from app.pipeline.archive.raw import shares
from app.pipeline.archive.rewrite import replace_files
from app.pipeline.settings import Lake
from app.spark.faults import REFUSALS, is_any
from app.spark.pyspark_adapter import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER: Final = 1 << 30
"""The size in bytes of the files that one commit replaces."""

_TRIES: Final = 5


def waiting(spark: SparkSession, lake: Lake) -> int:
    """Return the number of files of ``events`` that ``relayout`` would write again."""
    table = history.iceberg_table(spark, lake.table(tables.EVENTS_TABLE))
    files, deleted = _old_files(table, table.spec().specId() if _has_layout(table, lake) else -1)
    return len(files) + deleted


def relayout(spark: SparkSession, lake: Lake, tell: Callable[[str], None]) -> int:
    """Move ``events`` to partitions by day, and to buckets within a day if ``lake.buckets`` is more
    than 1. Return the number of files that were written again.

    Raises:
        SetupError: A file is not Parquet, or the table has a column of an unknown type.
    """
    name = lake.table(tables.EVENTS_TABLE)
    table = history.iceberg_table(spark, name)
    if not _has_layout(table, lake):
        _change_partitioning(spark, table, lake)
    moved, refused = 0, 0
    while True:
        table = history.iceberg_table(spark, name)
        files, deleted = _old_files(table, table.spec().specId())
        if not files and not deleted:
            return moved
        try:
            done = _apply_deletes(spark, lake) if deleted else _replace(spark, lake, files, table)
        except Exception as error:
            refused += 1
            if refused == _TRIES or not is_any(error, REFUSALS):
                raise
            continue  # another program has replaced some of the files meanwhile
        moved, refused = moved + done, 0
        tell(f"moved {moved} files")


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


def _old_files(table: Any, current: int) -> tuple[list[StoredFile], int]:
    """Return the files of older partitionings, and how many more have deleted rows."""
    found, deleted = [], 0
    tasks = table.newScan().planFiles()
    try:
        for task in tasks.iterator():
            file = task.file()
            if file.specId() == current:
                continue
            if file.format().name() != "PARQUET":
                raise SetupError(
                    f"{file.location()} is not Parquet, and cannot be moved",
                    setting="pipeline.lake",
                    cure="CALL lake.system.rewrite_data_files(table => '...', options => map('rewrite-all', 'true'))",
                )
            if len(task.deletes()):
                deleted += 1
            else:
                found.append(StoredFile(file.fileSizeInBytes(), str(file.location()), file))
    finally:
        tasks.close()
    return found, deleted


def _apply_deletes(spark: SparkSession, lake: Lake) -> int:
    """Write the files with deleted rows again without these rows, in the present partitioning.
    Return the number of files that were written again.

    Only Iceberg's own procedure can do this, because Arrow does not know the deleted rows.
    """
    [found] = spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{lake.namespace}.{tables.EVENTS_TABLE}',"
        " options => map('delete-file-threshold', '1', 'min-file-size-bytes', '0'))"  # no other files
    ).collect()
    return int(found["rewritten_data_files_count"])


def _replace(spark: SparkSession, lake: Lake, files: list[StoredFile], table: Any) -> int:
    """Write the first files again, and return their number: about ``TOGETHER`` bytes at most."""
    sizes = accumulate(each.size for each in files)
    count = max(1, sum(size <= TOGETHER for size in sizes))
    by_path = {each.path: each for each in files[:count]}
    cores = spark.sparkContext.defaultParallelism
    each_core = shares([(each.size, each.path) for each in files[:count]], cores)
    groups = [[by_path[path] for path in paths] for paths in each_core]
    since = int(table.currentSnapshot().snapshotId())
    replace_files(spark, lake, tables.EVENTS_TABLE, groups, since)
    return count
