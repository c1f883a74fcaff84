"""Compaction and expiry of the lake by Iceberg's own procedures. They are safe while an archive
runs.

Expiry keeps the snapshot that the archive needs, the last one with progress, and all newer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from app.pipeline import history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.lock import holding_lock, is_held
from app.pipeline.archive.relayout import relayout as move_layout
from app.pipeline.archive.relayout import waiting
from app.pipeline.settings import Lake
from app.pipeline.typed.schema import PREFIX
from app.spark.faults import REFUSALS, is_any

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

SORTED_BY: Final = {
    tables.RAW_TABLE: "topic, partition, offset",  # the archive reads it by ranges of offsets
    tables.EVENTS_TABLE: "type, source",
    tables.QUARANTINE_TABLE: "rule, topic",
}
TYPED_SORTED_BY: Final = "ce_time, ce_source"
YOUNGEST_ORPHAN: Final = timedelta(days=1)
"""The least age of a file that counts as orphaned: a younger one may belong to a running commit.
Iceberg requires a day too.
"""

_TRIES: Final = 5
_MARGIN: Final = 10  # snapshots kept beyond those needed: the archive may add some during the run


class LakeRetention(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of the lake.

    Attributes:
        age: The age in whole days from which rows are deleted; None for never.
        snapshots: The time for which a snapshot can be read.
        orphans: The age from which a file that no snapshot names is deleted.
    """

    age: timedelta | None = None
    snapshots: timedelta = timedelta(days=5)
    orphans: timedelta = timedelta(days=3)


class UpkeepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``maintain`` for one table. With ``dry_run`` it holds what a run would do.

    Attributes:
        table: The name of the table.
        aged: The number of rows that were older than the retention.
        moved: The number of files that ``relayout`` wrote again.
        files: The number of data files after the run.
        rewritten: The number of compacted files; with ``dry_run`` the number of small files.
        made: The number of files that the compaction wrote.
        manifests: The number of rewritten manifests; not counted with ``dry_run``.
        expired: The number of expired snapshots.
        deleted: The number of data files deleted with the snapshots; not counted with ``dry_run``.
        orphans: The number of files that no snapshot names.
    """

    table: str
    aged: int = 0
    moved: int = 0
    files: int = 0
    rewritten: int = 0
    made: int = 0
    manifests: int = 0
    expired: int = 0
    deleted: int = 0
    orphans: int = 0


def maintain(
    spark: SparkSession,
    lake: Lake,
    kept: LakeRetention,
    *,
    now: datetime,
    dry_run: bool = False,
    relayout: bool = False,
    tell: Callable[[str, str], None] = lambda _table, _step: None,
) -> Iterator[UpkeepResult]:
    """Compact and expire one table after another, and yield the result of each.

    Rows older than the retention are deleted first. With ``relayout``, ``events`` is moved to the
    partitions of the configuration. Ages are computed from ``now``. Before each step, ``tell`` is
    called with the table and the step. With ``dry_run`` nothing is changed.

    Raises:
        SetupError: The lake does not exist, or another upkeep or an erasure is running.
    """
    tables.check(spark, lake)
    if dry_run:
        for name in _names(spark, lake):
            found = _preview(spark, lake, name, kept, now)
            move = relayout and name == tables.EVENTS_TABLE
            yield msgspec.structs.replace(found, moved=waiting(spark, lake) if move else 0)
        return
    with holding_lock(spark, lake, "upkeep", lambda text: tell("the lake", text)):
        history.demand_clock(spark, lake.table(tables.RAW_TABLE))
        moved = move_layout(spark, lake, partial(tell, tables.EVENTS_TABLE)) if relayout else 0
        for name in _names(spark, lake):
            found = _maintain_table(spark, lake, name, kept, now, tell)
            move = name == tables.EVENTS_TABLE
            yield msgspec.structs.replace(found, moved=moved if move else 0)


def _names(spark: SparkSession, lake: Lake) -> list[str]:
    return [*SORTED_BY, *tables.typed(spark, lake)]


def _preview(
    spark: SparkSession, lake: Lake, name: str, kept: LakeRetention, now: datetime
) -> UpkeepResult:
    table = lake.table(name)
    edge = now - kept.snapshots
    history_of = list(history.snapshots(spark, table))
    beyond = history_of[_retained(history_of) :]
    old = [each for each in beyond if each.made < edge.timestamp() * 1000]
    return UpkeepResult(
        table=name,
        aged=sum(_count(spark, table, each) for each in _aged(name, kept, now)),
        files=spark.table(f"{table}.files").count(),
        rewritten=spark.table(f"{table}.files").where("file_size_in_bytes < 402653184").count(),
        expired=len(old),
        orphans=_orphans(spark, lake, name, now - kept.orphans, dry_run=True),
    )


def _maintain_table(
    spark: SparkSession,
    lake: Lake,
    name: str,
    kept: LakeRetention,
    now: datetime,
    tell: Callable[[str, str], None],
) -> UpkeepResult:
    table = lake.table(name)
    tell(name, "deleting rows older than the retention")
    aged = sum(_drop(spark, table, each) for each in _aged(name, kept, now))
    tell(name, "compacting")
    compacted = _compact(spark, lake, name, now)
    manifests = rewrite_manifests(spark, lake, name)
    tell(name, "expiring snapshots")
    expired = expire(spark, lake, name, now - kept.snapshots)
    tell(name, "removing files that no snapshot names")
    orphans = _orphans(spark, lake, name, now - max(kept.orphans, YOUNGEST_ORPHAN))
    return UpkeepResult(
        table=name,
        aged=aged,
        files=spark.table(f"{table}.files").count(),
        rewritten=compacted["rewritten_data_files_count"],
        made=compacted["added_data_files_count"],
        manifests=manifests,
        expired=expired[0],
        deleted=expired[1],
        orphans=orphans,
    )


def _compact(spark: SparkSession, lake: Lake, name: str, now: datetime) -> Row:
    """Rewrite small files. If an archive runs, leave it the files of today, which it merges itself.
    Iceberg refuses the later of two commits that replace a file.
    """
    own = (
        "strategy => 'sort'",
        f"sort_order => '{SORTED_BY.get(name, TYPED_SORTED_BY)}'",
        "options => map('partial-progress.enabled', 'true')",
    )
    column, today = _time_column(name), _before(_midnight(now))
    closed = (f'where => "{column} IS NOT NULL AND {column} {today}"',)
    busy = is_held(spark, lake, "archive")
    [found] = _call(spark, lake, name, "rewrite_data_files", *own, *(closed if busy else ()))
    return found


def _time_column(name: str) -> str:
    """Return the column whose days are the partitions of a table."""
    if name in (tables.RAW_TABLE, tables.QUARANTINE_TABLE):
        return "record_time"
    return "time" if name == tables.EVENTS_TABLE else f"{PREFIX}time"


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _before(moment: datetime) -> str:
    return f"< TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}+00:00'"


def _aged(name: str, kept: LakeRetention, now: datetime) -> list[str]:
    """Return the conditions of the rows that are older than the retention, in whole days of UTC.

    The age of an event is that of its time, and of its record if it has no time.
    """
    if kept.age is None:
        return []
    before, column = _before(_midnight(now - kept.age)), _time_column(name)
    if column == "record_time":
        return [f"{column} {before}"]
    untimed = f"{column} IS NULL AND {column.removesuffix('time')}record_time {before}"
    # Without IS NOT NULL, Iceberg 1.11 deletes the files of the partition null as well
    return [f"{column} IS NOT NULL AND {column} {before}", untimed]


def _count(spark: SparkSession, table: str, condition: str) -> int:
    return spark.table(table).where(condition).count()


def _drop(spark: SparkSession, table: str, condition: str) -> int:
    """Delete the rows of a condition and return their number. Whole files are deleted without being
    read: their partitions are days.

    If a commit of the archive comes between, the deletion is tried again. Its snapshot does not repeat
    the progress of the archive, which may have gone on meanwhile.
    """
    count = _count(spark, table, condition)
    for left in reversed(range(_TRIES if count else 0)):
        try:
            spark.sql(f"DELETE FROM {table} WHERE {condition}")  # noqa: S608 - only constant names
            break
        except Exception as error:
            if not left or not is_any(error, REFUSALS):
                raise
    return count


def rewrite_manifests(spark: SparkSession, lake: Lake, name: str) -> int:
    """Rewrite the manifests of a table and return their number.

    If a commit of the archive comes between, the rewrite is tried again on the newest snapshot,
    five times at most. A table with constant commits keeps its manifests until the next upkeep.
    """
    for _ in range(_TRIES):
        try:
            [found] = _call(spark, lake, name, "rewrite_manifests")
        except Exception as error:
            if not is_any(error, REFUSALS):
                raise
        else:
            return int(found["rewritten_manifests_count"])
    return 0


def needed(snapshots: list[history.Snapshot]) -> int:
    """Return how many of the newest snapshots an archive needs to find its position; 0 if no
    snapshot has one.
    """
    for n, each in enumerate(snapshots):
        if progress.PROPERTY in each.summary:
            return n + 1
    return 0


def _retained(snapshots: list[history.Snapshot]) -> int:
    return max(1, needed(snapshots)) + _MARGIN


def expire(spark: SparkSession, lake: Lake, name: str, edge: datetime) -> tuple[int, int]:
    """Expire the snapshots older than ``edge``, and return the numbers of expired snapshots and
    deleted data files.
    """
    table = lake.table(name)
    there = list(history.snapshots(spark, table))
    keep = f"retain_last => {_retained(there)}"
    [found] = _call(spark, lake, name, "expire_snapshots", _older_than(edge), keep)
    after = sum(1 for _ in history.snapshots(spark, table))
    return max(0, len(there) - after), found["deleted_data_files_count"]


def _orphans(
    spark: SparkSession, lake: Lake, name: str, edge: datetime, *, dry_run: bool = False
) -> int:
    """Remove the files that no snapshot names, or only look for them (``dry_run``), and return
    their number.
    """
    only_look = f"dry_run => {str(dry_run).lower()}"
    # prefix_listing lists the files by Iceberg's FileIO; Hadoop has no file system for s3://
    more = (_older_than(edge), only_look, "prefix_listing => true")
    return len(_call(spark, lake, name, "remove_orphan_files", *more))


def _call(spark: SparkSession, lake: Lake, name: str, procedure: str, *more: str) -> list[Row]:
    table = lake.table(name).removeprefix("lake.").replace("'", "\\'")
    arguments = ", ".join((f"table => '{table}'", *more))
    return spark.sql(f"CALL lake.system.{procedure}({arguments})").collect()


def _older_than(moment: datetime) -> str:
    return f"older_than => TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
