"""All events of one subject or source, out of every table and every snapshot.

Rows of ``events_raw`` are found by decoding them, so in whatever form and version an event came. Invalid
records have no subject to go by: those that name the text, in a header or as a JSON string, go too. Then every
older snapshot is let go, and with it the files that still hold the bytes. What the archive looks back for is
written into the new snapshots before. No archive and no upkeep may run meanwhile: both locks are held.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from pyspark.sql import functions as f

from app.pipeline import decode, history, tables
from app.pipeline.archive import progress
from app.pipeline.archive.lock import alone
from app.pipeline.history import EPOCH, QUERY
from app.pipeline.session import kept
from app.pipeline.settings import Lake
from app.pipeline.spark_adapter import java_session, jvm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Attribute = Literal["subject", "source"]

_CARRIED: Final = (QUERY, EPOCH, progress.PROPERTY)


class Erased(msgspec.Struct, frozen=True):
    """``rows`` of a table that name it; ``snapshots`` and ``files`` that went with them."""

    table: str
    rows: int
    snapshots: int = 0
    files: int = 0


def find(spark: SparkSession, lake: Lake, attribute: Attribute, text: str) -> list[Erased]:
    """What would go. Nothing is changed. Raises SetupError for no lake."""
    tables.check(spark, lake)
    chosen = _chosen(spark, lake, attribute, text)
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
    """It may be run again after whatever ended it. Raises SetupError where an archive or upkeep runs."""
    tables.check(spark, lake)
    with alone(spark, lake), alone(spark, lake, "upkeep"):
        found = []
        for name, rows in _chosen(spark, lake, attribute, text).items():
            tell(name, "deleting")
            count = _delete(spark, lake, name, rows)
            _unlist(spark, lake, name)
            tell(name, "removing old snapshots and files")
            found.append(_forget(spark, lake, name, count, now))
        return found


def _chosen(
    spark: SparkSession, lake: Lake, attribute: Attribute, text: str
) -> dict[str, DataFrame]:
    """The places of rows, by table. ``events_raw`` comes first: which of its rows go is told by
    ``quarantine`` too, and must still be known when a killed run is run again.
    """
    raw = spark.table(lake.table(tables.RAW_TABLE))
    quarantined = spark.table(lake.table(tables.QUARANTINE_TABLE))
    events = spark.table(lake.table(tables.EVENTS_TABLE))
    named = decode.decoded(raw).where(f.col(attribute) == text).select(*tables.PLACE)
    suspects = quarantined.where(_mentions(text)).select(*tables.PLACE)
    return {
        tables.RAW_TABLE: named.unionByName(suspects).distinct(),
        tables.QUARANTINE_TABLE: suspects,
        tables.EVENTS_TABLE: events.where(f.col(attribute) == text).select(*tables.PLACE),
    }


def _mentions(text: str) -> Column:
    """As the value of a header, or as a string somewhere in a JSON document."""
    found = f.exists("headers", lambda header: header["value"].eqNullSafe(f.lit(text.encode())))
    for each in {json.dumps(text), json.dumps(text, ensure_ascii=False)}:
        found |= f.coalesce(f.contains("value", f.lit(each.encode())), f.lit(False))
    return f.coalesce(found, f.lit(False))


def _delete(spark: SparkSession, lake: Lake, name: str, rows: DataFrame) -> int:
    """How many rows. The new snapshot carries what the archive looks back for, also where none went."""
    table = lake.table(name)
    with kept(rows) as doomed:
        count = doomed.count()
        with history.carrying(spark, _standing(spark, table)):
            if count:
                history.delete(spark, table, doomed)
            else:
                spark.table(table).limit(0).writeTo(table).append()
    return count


def _unlist(spark: SparkSession, lake: Lake, name: str) -> None:
    """A manifest remembers the files that were taken out of it, with the least and the greatest text of each
    column: one of these may be the very text. Written again, it lists what is there. Iceberg's procedure leaves
    a table with a single manifest as it is.
    """
    table = lake.table(name)
    together = jvm(spark).com.google.common.base.Functions.constant("")  # Spark brings it
    rewriting = history.iceberg_table(spark, table).rewriteManifests().clusterBy(together)
    for each, text in _standing(spark, table).items():
        rewriting = rewriting.set(each, text)
    rewriting.commit()


def _standing(spark: SparkSession, table: str) -> dict[str, str]:
    """What stands in the newest summaries that have it."""
    found: dict[str, str] = {}
    for each in history.snapshots(spark, table):
        for name in _CARRIED:
            if name in each.summary:
                if name == EPOCH and QUERY in found and found[QUERY] != each.summary.get(QUERY):
                    continue
                found.setdefault(name, each.summary[name])
    return found


def _forget(spark: SparkSession, lake: Lake, name: str, count: int, now: datetime) -> Erased:
    """Every snapshot but the newest, the files of those, and files that a killed writer left behind."""
    table = lake.table(name)
    loaded = history.iceberg_table(spark, table)
    made = [each.made for each in history.snapshots(spark, table)]
    edge = max(made) + 1  # an older one may be the later by the clock of whoever made it
    # the procedure refuses to remove what is younger than a day
    actions = jvm(spark).org.apache.iceberg.spark.actions.SparkActions.get(java_session(spark))
    expired = actions.expireSnapshots(loaded).expireOlderThan(edge).retainLast(1).execute()
    begun = round(now.timestamp() * 1000)
    orphans = actions.deleteOrphanFiles(loaded).olderThan(begun).execute()
    left = sum(1 for _ in history.snapshots(spark, table))
    files = expired.deletedDataFilesCount() + sum(1 for _ in orphans.orphanFileLocations())
    return Erased(name, count, len(made) - left, files)
