"""Erase all events of one subject or source from every table and every snapshot.

Rows of ``events_raw`` are found by decoding them, so the form and version of an event do not
matter. An invalid record has no subject, so it is erased if it contains the text in a header or as
a JSON string. All older snapshots are then expired, and with them the files that still hold the
bytes. The properties that the archive needs are copied into the new snapshots first. The archive
and ``maintain`` cannot run at the same time, because both locks are held.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec
from pyspark.sql import functions as f

from app.pipeline import decode, history, tables
from app.pipeline.archive.lock import holding_lock
from app.pipeline.session import cached
from app.pipeline.settings import Lake
from app.pipeline.spark_adapter import java_session, jvm
from app.pipeline.typed.schema import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Attribute = Literal["subject", "source"]


class Erased(msgspec.Struct, frozen=True):
    """The result of an erasure for one table.

    Attributes:
        table: The name of the table.
        rows: The number of rows that name the subject or source.
        snapshots: The number of expired snapshots.
        files: The number of deleted files.
    """

    table: str
    rows: int
    snapshots: int = 0
    files: int = 0


def find(spark: SparkSession, lake: Lake, attribute: Attribute, text: str) -> list[Erased]:
    """Count the rows that ``erase`` would remove, by table, without changing anything.

    Raises:
        SetupError: The lake does not exist.
    """
    tables.check(spark, lake)
    chosen = _rows_to_erase(spark, lake, attribute, text)
    return [Erased(name, rows.count()) for name, rows in chosen.items()]


def erase(
    spark: SparkSession,
    lake: Lake,
    attribute: Attribute,
    text: str,
    *,
    now: datetime,
    tell: Callable[[str, str], None] = lambda _table, _step: None,
) -> list[Erased]:
    """Erase all rows that name this subject or source. An interrupted erasure can be run again.

    Before each step, ``tell`` is called with the table and the step. Orphaned files older than
    ``now`` are deleted too.

    Raises:
        SetupError: The lake does not exist, or an archive or upkeep is running.
    """
    tables.check(spark, lake)
    with holding_lock(spark, lake), holding_lock(spark, lake, "upkeep"):
        found = []
        for name, rows in _rows_to_erase(spark, lake, attribute, text).items():
            tell(name, "deleting")
            count = _delete(spark, lake, name, rows)
            _rewrite_manifests(spark, lake, name)
            tell(name, "removing old snapshots and files")
            found.append(_expire_snapshots(spark, lake, name, count, now))
        return found


def _rows_to_erase(
    spark: SparkSession, lake: Lake, attribute: Attribute, text: str
) -> dict[str, DataFrame]:
    """Return the positions of the rows to erase, by table. The table ``events_raw`` is erased first, because some
    of its rows are found by means of ``quarantine``. A repetition of a killed run must still find these rows."""
    raw = spark.table(lake.table(tables.RAW_TABLE))
    quarantined = spark.table(lake.table(tables.QUARANTINE_TABLE))
    events = spark.table(lake.table(tables.EVENTS_TABLE))
    named = decode.decoded(raw).where(f.col(attribute) == text).select(*tables.PLACE)
    unfit = quarantined.where(f.col("verdict") == tables.UNFIT).select(*tables.names(tables.RAW))
    events_there = decode.decoded(unfit).where(f.col(attribute) == text).select(*tables.PLACE)
    suspects = quarantined.where(_mentions(text)).select(*tables.PLACE).unionByName(events_there)
    return {
        tables.RAW_TABLE: named.unionByName(suspects).distinct(),
        tables.QUARANTINE_TABLE: suspects.distinct(),
        tables.EVENTS_TABLE: events.where(f.col(attribute) == text).select(*tables.PLACE),
        **{name: _typed(spark, lake, name, attribute, text) for name in tables.typed(spark, lake)},
    }


def _typed(
    spark: SparkSession, lake: Lake, name: str, attribute: Attribute, text: str
) -> DataFrame:
    """Return the positions of the rows of a typed table that name the subject or source."""
    chosen = spark.table(lake.table(name)).where(f.col(PREFIX + attribute) == text)
    return chosen.select(*(f.col(PREFIX + each).alias(each) for each in tables.PLACE))


def _mentions(text: str) -> Column:
    """Return a condition that the text is the value of a header or a string in a JSON document."""
    found = f.exists("headers", lambda header: header["value"].eqNullSafe(f.lit(text.encode())))
    for each in {json.dumps(text), json.dumps(text, ensure_ascii=False)}:
        found |= f.coalesce(f.contains("value", f.lit(each.encode())), f.lit(False))
    return f.coalesce(found, f.lit(False))


def _delete(spark: SparkSession, lake: Lake, name: str, rows: DataFrame) -> int:
    """Delete the rows and return their number. The new snapshot carries the properties of the
    archive even if no row is deleted.
    """
    table = lake.table(name)
    with cached(rows) as doomed:
        count = doomed.count()
        if count:
            history.delete(spark, table, doomed, "" if name in tables.COLUMNS else PREFIX)
        else:
            with history.adding_properties(spark, history.archive_properties(spark, table)):
                spark.table(table).limit(0).writeTo(table).append()
    return count


def _rewrite_manifests(spark: SparkSession, lake: Lake, name: str) -> None:
    """Rewrite the manifests of a table, so that they no longer list deleted files.

    A manifest keeps the least and greatest text of each column of a deleted file, and that may be
    the erased text. Iceberg's own procedure does not rewrite a table that has a single manifest.
    """
    table = lake.table(name)
    together = jvm(spark).com.google.common.base.Functions.constant("")  # Spark ships this class
    rewriting = history.iceberg_table(spark, table).rewriteManifests().clusterBy(together)
    for each, text in history.archive_properties(spark, table).items():
        rewriting = rewriting.set(each, text)
    rewriting.commit()


def _expire_snapshots(
    spark: SparkSession, lake: Lake, name: str, count: int, now: datetime
) -> Erased:
    """Expire all snapshots but the newest, and delete their files and the files of killed writers."""
    table = lake.table(name)
    loaded = history.iceberg_table(spark, table)
    made = [each.made for each in history.snapshots(spark, table)]
    edge = max(made) + 1  # clocks of writers differ: an older snapshot may have a later time
    # Iceberg's procedure refuses to remove snapshots younger than a day, so its actions are called
    actions = jvm(spark).org.apache.iceberg.spark.actions.SparkActions.get(java_session(spark))
    expired = actions.expireSnapshots(loaded).expireOlderThan(edge).retainLast(1).execute()
    begun = round(now.timestamp() * 1000)
    orphans = actions.deleteOrphanFiles(loaded).olderThan(begun).execute()
    left = sum(1 for _ in history.snapshots(spark, table))
    files = expired.deletedDataFilesCount() + sum(1 for _ in orphans.orphanFileLocations())
    return Erased(name, count, len(made) - left, files)
