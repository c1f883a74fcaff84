"""Commit the data files that tasks wrote, with Iceberg's Java classes, as Spark commits its own
writes.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.files import DataFile, TableLayout
from app.pipeline.archive.iceberg_adapter import (
    access,
    credentials,
    data_files,
    demand_known,
    partitioning,
    schema,
)
from app.pipeline.archive.partitions import Part
from app.pipeline.archive.progress import Progress
from app.pipeline.archive.storage import create_file, delete_file
from app.pipeline.history import Snapshot
from app.pipeline.kinds import TypedTable
from app.pipeline.settings import Lake
from app.pipeline.typed.evolve import changes
from app.pipeline.typed.rows import COLUMNS as EVENT_COLUMNS
from app.spark.columns import column_names
from app.spark.faults import REFUSALS, UNKNOWN, is_any
from app.spark.pyspark_adapter import jvm
from app.spark.session import first_line
from app.spark.settings import NOTHING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

conflicts: Final[Counter[str]] = Counter()
"""The commits of this process that were repeated or refused, because another program had committed
to the table, by table.
"""

_LEVELS: Final = {"zstd", "gzip", "brotli"}


def layout(
    spark: SparkSession, lake: Lake, name: str, typed: TypedTable | None = None
) -> TableLayout:
    """Return how tasks write data files of a table. Columns that were added to the table are null
    in new rows.

    Raises:
        SetupError: The partitioning of the table was changed, or a column was dropped.
    """
    table = history.iceberg_table(spark, lake.table(name))
    shown, made_of = lake.table(name), (_as_text(table), typed)
    kept = _LAYOUTS.get(shown)
    if kept is None or kept[0] != made_of:
        demand_known(spark)
        kept = _LAYOUTS[shown] = made_of, _layout(table, shown, name, typed)
    return kept[1]


_LAYOUTS: Final[dict[str, tuple[object, TableLayout]]] = {}
"""The last layout of each table, with everything that it was built from.

A table seldom changes, and reading it through Py4J takes a fifth of a second. Only the last layout
is kept, because some catalogs return new credentials each time.
"""


def _as_text(table: Any) -> tuple[str, ...]:
    files = table.io()
    issued = (each.config() for each in credentials(files))
    parts = (table.schema(), table.spec(), table.properties(), files.properties(), *issued)
    return (table.location(), str(table.spec().specId()), *(each.toString() for each in parts))


def _layout(table: Any, shown: str, name: str, typed: TypedTable | None) -> TableLayout:
    properties = dict(table.properties())
    codec = properties.get("write.parquet.compression-codec", "zstd")
    if typed is None:
        columns = column_names(tables.COLUMNS[name])
    else:
        columns = [*EVENT_COLUMNS, *(each.name for each in typed.data.fields)]
    found = schema(table, shown, columns)
    if typed is not None:
        demand_inner(found, shown, typed)
    return TableLayout(
        name=name,
        folder=properties.get("write.data.path") or f"{table.location()}/data",
        schema=found,
        spec=table.spec().specId(),
        parts=_parts(table, shown, _PARTITIONS.get(name, _TYPED_PARTITIONS)),
        codec="none" if codec == "uncompressed" else codec,
        level=_level(codec, properties.get("write.parquet.compression-level")),
        access=access(table),
    )


def demand_inner(found: pa.Schema, shown: str, typed: TypedTable) -> None:
    """Raise SetupError if a typed table has lost a column inside another one. Rows would silently lack
    its values."""
    missing = changes(typed.data, pa.struct(list(found)), frozenset())
    if gone := [".".join(each.path) for each in missing if not each.refused]:
        raise SetupError(
            f"{shown} has lost columns: {', '.join(gone)}",
            setting="pipeline.tables",
            cure="start the archive again, which adds them; a column that was renamed keeps its old rows",
        )


_PARTITIONS: Final = {
    # The first one is that of lakes which an earlier version created
    tables.EVENTS_TABLE: (("identity bucket",), ("time day",), ("time day", "identity bucket")),
    tables.QUARANTINE_TABLE: (("record_time day",),),
    tables.RAW_TABLE: (("record_time day",),),
}
"""The partitionings that tasks can write, by table."""
_TYPED_PARTITIONS: Final = (("ce_time day",),)


def _parts(table: Any, shown: str, permitted: Collection[tuple[str, ...]]) -> tuple[Part, ...]:
    """Return the partitioning of a table, if it is one of the permitted ones."""
    found = partitioning(table)
    if tuple(found) in permitted:
        return tuple(found.values())
    raise SetupError(
        f"{shown} has other partitions than it was created with: {table.spec().toString()}",
        setting="pipeline.lake",
        cure="ALTER TABLE ... REPLACE PARTITION FIELD, or take another pipeline.lake.namespace",
    )


def demand_storage(layout: TableLayout) -> None:
    """Raise SetupError if Python, which writes the data files, cannot write to the storage of the
    table.
    """
    path = f"{layout.folder}/{uuid4().hex}.probe"
    try:
        create_file(path, layout.access).close()
        delete_file(path, layout.access)
    except Exception as why:  # each storage has its own errors
        raise SetupError(
            f"{layout.folder} cannot be written from Python: {first_line(why)}",
            setting="pipeline.lake.catalog.properties",
            cure="add the properties that PyIceberg needs, such as s3.endpoint and s3.access-key-id; hdfs:// needs HADOOP_HOME",
        ) from why


def _level(codec: str, given: str | None) -> int | None:
    """Return the compression level; None if the codec has no levels or no level is set."""
    return int(given) if given is not None and codec in _LEVELS else None


def one_task_each(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows as a frame that Spark works on with a task for each row. They go to Java by Arrow: a
    list of Python's objects would need further processes of Python.
    """
    none = pa.RecordBatch.from_pylist([], rows.schema)  # PySpark refuses columns without a chunk
    return spark.createDataFrame(
        pa.Table.from_batches(rows.to_batches(max_chunksize=1) or [none], rows.schema)
    )


def run_tasks(told: DataFrame) -> list[DataFile]:
    """Run the tasks of ``told``, which write files, and return these files. Each row of ``told``
    describes one file in the columns ``FILES``."""
    return [DataFile(**row) for row in told.toArrow().to_pylist()]


def row_count(found: Iterable[DataFile]) -> int:
    """Return the number of rows in these files."""
    return sum(each.rows for each in found)


def append(
    spark: SparkSession,
    table: str,
    added: Sequence[DataFile],
    ends: Progress,
    more: Mapping[str, str] = NOTHING,
) -> Snapshot:
    """Commit one snapshot that names the files and carries the progress, and return it.

    Without files the snapshot carries only the progress. If the commit was certainly not made, the
    files are removed. ``more`` has further properties of the snapshot.
    """
    loaded = history.iceberg_table(spark, table)
    reports = _reporting(spark, loaded)
    commit = loaded.newAppend() if added else loaded.newFastAppend()
    with removing_on_error(spark, table, added):
        for each in data_files(spark, loaded, added):
            commit.appendFile(each)
        for name, text in {progress.PROPERTY: progress.as_text(ends), **more}.items():
            commit.set(name, text)
    with _removing_if_refused(spark, table, added):
        _commit(table, commit, reports)
    return next(history.changes_of(loaded))


def replace(
    spark: SparkSession,
    table: str,
    gone: Sequence[Any],
    added: Sequence[DataFile],
    since: int | None,
) -> list[Any]:
    """Commit one snapshot that names the files ``added`` instead of the files ``gone``, and return
    Iceberg's objects of the new files. If the commit was certainly not made, the files are removed.

    Args:
        spark: The session.
        table: The name of the table.
        gone: Iceberg's objects of the old files.
        added: The new files. They must have the same rows.
        since: A snapshot that has all old files; None if the first snapshot has. The commit is
            refused if rows of them were deleted afterwards.
    """
    loaded = history.iceberg_table(spark, table)
    reports = _reporting(spark, loaded)
    change = loaded.newRewrite()
    if since is not None:
        change = change.validateFromSnapshot(since)
    with removing_on_error(spark, table, added):
        if sum(each.recordCount() for each in gone) != row_count(added):
            raise RuntimeError(f"{table}: the files written again have another number of rows")
        made = list(data_files(spark, loaded, added))
        for each in gone:
            change.deleteFile(each)
        for each in made:
            change.addFile(each)
    with _removing_if_refused(spark, table, added):
        _commit(table, change, reports)
    return made


@contextlib.contextmanager
def _removing_if_refused(
    spark: SparkSession, table: str, added: Iterable[DataFile]
) -> Iterator[None]:
    """Remove these files if Iceberg refuses the commit inside the context.

    After any other error a snapshot may name the files. For example, a database may have stored the
    commit before its connection ended.
    """
    try:
        yield
    except Exception as why:
        if is_any(why, REFUSALS) and not is_any(why, UNKNOWN):
            remove_files(spark, table, added)
        raise


def _reporting(spark: SparkSession, loaded: Any) -> Any:
    """Return an object of Iceberg that keeps the report of the next commit to a loaded table."""
    reports = jvm(spark).org.apache.iceberg.metrics.InMemoryMetricsReporter()
    loaded.combineMetricsReporter(reports)
    return reports


def _commit(table: str, change: Any, reports: Any) -> None:
    """Commit a change, and count the tries that commits of other programs refused."""
    try:
        change.commit()
    except Exception as why:
        conflicts[table] += is_any(why, REFUSALS)
        raise
    conflicts[table] += reports.commitReport().commitMetrics().attempts().value() - 1


@contextlib.contextmanager
def removing_on_error(spark: SparkSession, table: str, told: Iterable[DataFile]) -> Iterator[None]:
    """Remove these files if the code inside the context fails, because no snapshot names them yet."""
    try:
        yield
    except Exception:
        with contextlib.suppress(Exception):  # maintain deletes the files; the first error matters
            remove_files(spark, table, told)
        raise


def remove_files(spark: SparkSession, table: str, gone: Iterable[DataFile]) -> None:
    """Delete files that no snapshot has named. If a deletion fails, ``maintain`` deletes the file
    later.
    """
    storage = history.iceberg_table(spark, table).io()
    for each in gone:
        try:
            storage.deleteFile(each.path)
        except Exception as why:  # noqa: BLE001 - each storage has its own errors
            _log.warning("%s could not be deleted: %s", each.path, first_line(why))
