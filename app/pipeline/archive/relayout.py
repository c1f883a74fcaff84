"""Move the rows of ``events`` to the partitioning of the configuration.

The partitioning of the table is changed first, so new files have the new one. Then the files of the
older partitionings are written again, some at a time. Each commit replaces the files that it wrote
again. If the move is killed, the next one finds the files that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive.raw import shares
from app.pipeline.archive.rewrite import StoredFile, replace_files
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
    moved, refused = 0, 0
    while group := _next_group(table := history.iceberg_table(spark, name)):
        try:
            _replace(spark, lake, group, table)
        except Exception as error:
            refused += 1
            if refused == _TRIES or not is_any(error, REFUSALS):
                raise
            continue  # another program has replaced some of the files meanwhile
        moved, refused = moved + len(group), 0
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


def _next_group(table: Any) -> list[StoredFile]:
    group: list[StoredFile] = []
    size = 0
    for each in _old_files(table, table.spec().specId()):
        if group and size + each.size > TOGETHER:
            break
        group.append(each)
        size += each.size
    return group


def _old_files(table: Any, current: int) -> list[StoredFile]:
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
            found.append(StoredFile(file.fileSizeInBytes(), str(file.location()), file))
    finally:
        tasks.close()
    return found


def _replace(spark: SparkSession, lake: Lake, group: list[StoredFile], table: Any) -> None:
    by_path = {each.path: each for each in group}
    cores = spark.sparkContext.defaultParallelism
    each_core = shares([(each.size, each.path) for each in group], cores)
    groups = [[by_path[path] for path in paths] for paths in each_core]
    since = int(table.currentSnapshot().snapshotId())
    replace_files(spark, lake, tables.EVENTS_TABLE, groups, since)
