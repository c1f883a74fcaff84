"""Compaction and expiry, by Iceberg's own procedures. Safe beside a running archive.

Expiry keeps what the archive looks back for: the last snapshot of the stream in ``events_raw``, and in the
other tables the last one that carries progress, with every one since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from app.pipeline import history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.lock import alone
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

SORTED_BY: Final = {
    tables.RAW_TABLE: "topic, partition, offset",  # ranges of offsets are what is read of it
    tables.EVENTS_TABLE: "type, source",
    tables.QUARANTINE_TABLE: "rule, topic",
}
YOUNGEST_ORPHAN: Final = timedelta(days=1)
"""A file that no snapshot names may be of a commit under way; Iceberg asks for a day too."""

_TRIES: Final = 5
_OVERTAKEN: Final = ("CommitFailedException", "ValidationException")
"""What Iceberg says where the archive has put the same manifests together meanwhile."""

_MARGIN: Final = 10  # snapshots kept beyond those needed: others may be made while it runs


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """``snapshots``: how long one can be read. ``orphans``: age of files that nobody names."""

    snapshots: timedelta = timedelta(days=5)
    orphans: timedelta = timedelta(days=3)


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for one table, or with ``dry_run`` what there is to do: then the files that are small,
    and no count of what would be deleted of manifests."""

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
    kept: Kept,
    *,
    now: datetime,
    dry_run: bool = False,
    tell: Callable[[str, str], None] = lambda _table, _step: None,
) -> Iterator[Upkeep]:
    """One table after another. ``tell``: of each step before it begins. Raises SetupError for no lake, and
    where another upkeep or an erasure runs.
    """
    tables.check(spark, lake)
    if dry_run:
        yield from (_look(spark, lake, name, kept, now) for name in SORTED_BY)
        return
    with alone(spark, lake, "upkeep"):
        for name in SORTED_BY:
            yield _keep(spark, lake, name, kept, now, tell)


def _look(spark: SparkSession, lake: Lake, name: str, kept: Kept, now: datetime) -> Upkeep:
    table = lake.table(name)
    edge = now - kept.snapshots
    history_of = list(history.snapshots(spark, table))
    beyond = history_of[_retained(history_of) :]
    old = [each for each in beyond if each.made < edge.timestamp() * 1000]
    return Upkeep(
        table=name,
        files=spark.table(f"{table}.files").count(),
        rewritten=spark.table(f"{table}.files").where("file_size_in_bytes < 402653184").count(),
        expired=len(old),
        orphans=_orphans(spark, lake, name, now - kept.orphans, dry_run=True),
    )


def _keep(
    spark: SparkSession,
    lake: Lake,
    name: str,
    kept: Kept,
    now: datetime,
    tell: Callable[[str, str], None],
) -> Upkeep:
    table = lake.table(name)
    tell(name, "compacting")
    [compacted] = _call(
        spark, lake, name, "rewrite_data_files", "strategy => 'sort'",
        f"sort_order => '{SORTED_BY[name]}'", "options => map('partial-progress.enabled', 'true')",
    )  # fmt: skip
    manifests = rewrite_manifests(spark, lake, name)
    tell(name, "expiring snapshots")
    expired = expire(spark, lake, name, now - kept.snapshots)
    tell(name, "removing files that no snapshot names")
    orphans = _orphans(spark, lake, name, now - max(kept.orphans, YOUNGEST_ORPHAN))
    return Upkeep(
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
    """How many. Again, on the newest snapshot, where a commit of the archive came between; a table that commits
    come to without a pause keeps its own until the next upkeep."""
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
    """How many of the newest must stay, so that an archive finds where it was: none of a table that
    never had any of it."""
    for n, each in enumerate(snapshots):
        if history.QUERY in each.summary or progress.PROPERTY in each.summary:
            return n + 1
    return 0


def _retained(snapshots: list[history.Snapshot]) -> int:
    return max(1, needed(snapshots)) + _MARGIN


def expire(spark: SparkSession, lake: Lake, name: str, edge: datetime) -> tuple[int, int]:
    """How many snapshots and how many data files went."""
    table = lake.table(name)
    there = list(history.snapshots(spark, table))
    keep = f"retain_last => {_retained(there)}"
    [found] = _call(spark, lake, name, "expire_snapshots", _older_than(edge), keep)
    after = sum(1 for _ in history.snapshots(spark, table))
    return max(0, len(there) - after), found["deleted_data_files_count"]


def _orphans(
    spark: SparkSession, lake: Lake, name: str, edge: datetime, *, dry_run: bool = False
) -> int:
    """How many were removed, or are there to remove."""
    only_look = f"dry_run => {str(dry_run).lower()}"
    return len(_call(spark, lake, name, "remove_orphan_files", _older_than(edge), only_look))


def _call(spark: SparkSession, lake: Lake, name: str, procedure: str, *more: str) -> list[Row]:
    arguments = ", ".join((f"table => '{lake.namespace}.{name}'", *more))
    return spark.sql(f"CALL lake.system.{procedure}({arguments})").collect()


def _older_than(moment: datetime) -> str:
    return f"older_than => TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}'"
