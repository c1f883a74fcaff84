"""Commit the data files that tasks wrote, with Iceberg's Java classes, as Spark commits its own
writes.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa

from app.pipeline import history
from app.pipeline.archive import progress
from app.pipeline.archive.files import DataFile
from app.pipeline.archive.iceberg_adapter import StoredFile, data_files
from app.pipeline.archive.progress import NO_PROGRESS, Progress
from app.pipeline.history import Snapshot
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


_ID: Final = "skybridge.commit"
"""The summary property with the id of a commit. The progress does not identify a commit: that of a
redrive is the same as the one before."""

_TRIES: Final = 30
_MAIN: Final = "main"
"""The branch that each table of Iceberg has."""


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
    added: Sequence[DataFile | StoredFile],
    ends: Progress,
    more: Mapping[str, str] = NOTHING,
    start: Progress = NO_PROGRESS,
) -> Snapshot:
    """Commit one snapshot that names the files and carries the progress, and return it.

    Without files the snapshot carries only the progress. The commit is refused if another process adds
    rows meanwhile. If it was certainly not made, the files are removed. If its state is unknown, its id
    is looked up in the snapshots.

    Args:
        spark: The session.
        table: The name of the table.
        added: The files.
        ends: The progress of the table with these files.
        more: Further properties of the snapshot.
        start: Where the records of the files begin. Empty for records that the progress does not count.

    Raises:
        Overtaken: The table has records after ``start`` or ``ends`` already.
    """
    loaded = history.iceberg_table(spark, table)
    statement = _Statement(table, ends, start, {**more, _ID: uuid4().hex})
    try:
        if added:
            _append_files(spark, loaded, added, statement)
        else:
            _append_progress(spark, loaded, statement)
    except Exception as why:
        if not is_any(why, UNKNOWN) or not _is_made(loaded, statement.more[_ID]):
            raise
    return next(history.changes_of(loaded))


class _Statement(NamedTuple):
    """The progress of a table that a snapshot states, with the parameters of ``append``."""

    table: str
    ends: Progress
    start: Progress
    more: Mapping[str, str]

    def set(self, change: Any, loaded: Any) -> None:
        """Set the properties of a snapshot.

        Raises:
            Overtaken: The table has records after ``start`` or ``ends`` already.
        """
        stated, begun = progress.stated(loaded) or NO_PROGRESS, progress.places(self.start)
        is_later = any(progress.offset_at(stated, b, t, n) > at for b, t, n, at in begun)
        if is_later or not progress.covers(self.ends, stated):
            raise Overtaken(f"another process has written to {self.table}")
        for name, text in {**self.more, progress.PROPERTY: progress.as_text(self.ends)}.items():
            change.set(name, text)


def _append_files(
    spark: SparkSession, loaded: Any, added: Sequence[DataFile | StoredFile], statement: _Statement
) -> None:
    reports = _reporting(spark, loaded)
    with removing_on_error(spark, statement.table, added):
        change = _fenced(spark, loaded)
        statement.set(change, loaded)
        written = [each for each in added if isinstance(each, DataFile)]
        made = [each.java for each in added if isinstance(each, StoredFile)]
        for java in (*made, *data_files(spark, loaded, written)):
            change.addRows(java)
    with _removing_if_refused(spark, statement.table, added):
        _commit(statement.table, change, reports)


def _append_progress(spark: SparkSession, loaded: Any, statement: _Statement) -> None:
    """Commit a snapshot without files. Iceberg itself would repeat the commit on top of any other one,
    also of one that has gone further. So each try is refused if the table has changed since its
    progress was read."""
    change, operations = loaded.newFastAppend(), loaded.operations()
    for left in reversed(range(_TRIES)):
        base = operations.current()
        statement.set(change, loaded)
        built = jvm(spark).org.apache.iceberg.TableMetadata.buildFrom(base)
        try:
            operations.commit(base, built.setBranchSnapshot(change.apply(), _MAIN).build())
        except Exception as why:
            if not left or is_any(why, UNKNOWN) or not is_any(why, REFUSALS):
                raise
            conflicts[statement.table] += 1
            loaded.refresh()
        else:
            return


def _is_made(loaded: Any, commit: str) -> bool:
    """Return True if a snapshot of a table has the id of a commit. The table is loaded again."""
    loaded.refresh()
    return any(each.summary.get(_ID) == commit for each in history.snapshots_of(loaded))


class Overtaken(Exception):
    """The error for records that another process has written to the table meanwhile."""


def may_be_repeated(error: BaseException) -> bool:
    """Return True if a step may be chosen again after this error of its commit.

    Another program has committed meanwhile, or the state of the commit is unknown."""
    return isinstance(error, Overtaken) or is_any(error, REFUSALS | UNKNOWN)


def _fenced(spark: SparkSession, loaded: Any) -> Any:
    """Return a change that adds files, and that Iceberg refuses if another program has added some since
    the table was loaded."""
    change, newest = loaded.newRowDelta(), loaded.currentSnapshot()
    if newest is not None:
        change = change.validateFromSnapshot(newest.snapshotId())
    any_rows = jvm(spark).org.apache.iceberg.expressions.Expressions.alwaysTrue()
    return change.conflictDetectionFilter(any_rows).validateNoConflictingDataFiles()


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
    spark: SparkSession, table: str, added: Iterable[DataFile | StoredFile]
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
def removing_on_error(
    spark: SparkSession, table: str, told: Iterable[DataFile | StoredFile]
) -> Iterator[None]:
    """Remove these files if the code inside the context fails, because no snapshot names them yet."""
    try:
        yield
    except Exception:
        with contextlib.suppress(Exception):  # maintain deletes the files; the first error matters
            remove_files(spark, table, told)
        raise


def remove_files(spark: SparkSession, table: str, gone: Iterable[DataFile | StoredFile]) -> None:
    """Delete files that no snapshot has named. If a deletion fails, ``maintain`` deletes the file
    later.
    """
    storage = history.iceberg_table(spark, table).io()
    for each in gone:
        try:
            storage.deleteFile(each.path)
        except Exception as why:  # noqa: BLE001 - each storage has its own errors
            _log.warning("%s could not be deleted: %s", each.path, first_line(why))
