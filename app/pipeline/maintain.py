"""Compaction and expiry of the lake by Iceberg's own procedures. They are safe while an archive
runs.

Expiry keeps the snapshots that the archive needs. In ``events_raw`` this is the last snapshot of
the stream. In the other tables it is the last snapshot with progress. All newer snapshots stay as
well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from app.pipeline import history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.lock import holding_lock
from app.pipeline.settings import Lake

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
_OVERTAKEN: Final = ("CommitFailedException", "ValidationException")
"""The errors that Iceberg raises if the archive has rewritten the same manifests meanwhile."""

_MARGIN: Final = 10  # snapshots kept beyond those needed: the archive may add some during the run


class LakeRetention(msgspec.Struct, frozen=True, kw_only=True):
    """The retention of the lake.

    Attributes:
        snapshots: The time for which a snapshot can be read.
        orphans: The age from which a file that no snapshot names is deleted.
    """

    snapshots: timedelta = timedelta(days=5)
    orphans: timedelta = timedelta(days=3)


class UpkeepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``maintain`` for one table. With ``dry_run`` it holds what a run would do.

    Attributes:
        table: The name of the table.
        files: The number of data files after the run.
        rewritten: The number of compacted files; with ``dry_run`` the number of small files.
        made: The number of files that the compaction wrote.
        manifests: The number of rewritten manifests; not counted with ``dry_run``.
        expired: The number of expired snapshots.
        deleted: The number of data files deleted with the snapshots; not counted with ``dry_run``.
        orphans: The number of files that no snapshot names.
    """

    table: str
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
    tell: Callable[[str, str], None] = lambda _table, _step: None,
) -> Iterator[UpkeepResult]:
    """Compact and expire one table after another, and yield the result of each.

    Ages are computed from ``now``. Before each step, ``tell`` is called with the table and the
    step. With ``dry_run`` nothing is changed.

    Raises:
        SetupError: The lake does not exist, or another upkeep or an erasure is running.
    """
    tables.check(spark, lake)
    if dry_run:
        yield from (_preview(spark, lake, name, kept, now) for name in _names(spark, lake))
        return
    with holding_lock(spark, lake, "upkeep", lambda text: tell("the lake", text)):
        for name in _names(spark, lake):
            yield _maintain_table(spark, lake, name, kept, now, tell)


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
    tell(name, "compacting")
    [compacted] = _call(
        spark, lake, name, "rewrite_data_files", "strategy => 'sort'",
        f"sort_order => '{SORTED_BY.get(name, TYPED_SORTED_BY)}'", "options => map('partial-progress.enabled', 'true')",
    )  # fmt: skip
    manifests = rewrite_manifests(spark, lake, name)
    tell(name, "expiring snapshots")
    expired = expire(spark, lake, name, now - kept.snapshots)
    tell(name, "removing files that no snapshot names")
    orphans = _orphans(spark, lake, name, now - max(kept.orphans, YOUNGEST_ORPHAN))
    return UpkeepResult(
        table=name,
        files=spark.table(f"{table}.files").count(),
        rewritten=compacted["rewritten_data_files_count"],
        made=compacted["added_data_files_count"],
        manifests=manifests,
        expired=expired[0],
        deleted=expired[1],
        orphans=orphans,
    )


def rewrite_manifests(spark: SparkSession, lake: Lake, name: str) -> int:
    """Rewrite the manifests of a table and return their number.

    If a commit of the archive comes between, the rewrite is tried again on the newest snapshot,
    five times at most. A table with constant commits keeps its manifests until the next upkeep.
    """
    for _ in range(_TRIES):
        try:
            [found] = _call(spark, lake, name, "rewrite_manifests")
        except Exception as error:
            if not any(words in str(error) for words in _OVERTAKEN):
                raise
        else:
            return int(found["rewritten_manifests_count"])
    return 0


def needed(snapshots: list[history.Snapshot]) -> int:
    """Return how many of the newest snapshots an archive needs to find its position; 0 if no
    snapshot has one.
    """
    for n, each in enumerate(snapshots):
        if history.QUERY in each.summary or progress.PROPERTY in each.summary:
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
    arguments = ", ".join((f"table => '{lake.namespace}.{name}'", *more))
    return spark.sql(f"CALL lake.system.{procedure}({arguments})").collect()


def _older_than(moment: datetime) -> str:
    return f"older_than => TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
