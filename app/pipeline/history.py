"""The snapshots of a table, from the newest back, and what stands in their summaries.

Asked of Iceberg's own classes: a query of its metadata tables costs a Spark job, and knows no parents.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.pipeline.spark_adapter import java_session, jvm
from app.pipeline.tables import PLACE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX: Final = "spark.sql.iceberg.snapshot-property."
"""A session's setting of this name stands in the summary of every snapshot that the session makes."""

EPOCH: Final = "spark.sql.streaming.epochId"
QUERY: Final = "spark.sql.streaming.queryId"
"""In the summary of a snapshot that Iceberg's streaming sink made: which query it was."""

_DOOMED: Final = "skybridge_doomed"


class Snapshot(msgspec.Struct, frozen=True):
    """``made``: milliseconds since 1970, by the clock of the committing process. ``parent``: what it was made of."""

    id: int
    parent: int | None
    made: int
    operation: str
    summary: Mapping[str, str]

    def count(self, name: str) -> int:
        return int(self.summary.get(name, "0"))


def snapshots(spark: SparkSession, table: str) -> Iterator[Snapshot]:
    """From the current one to its oldest ancestor that has not expired."""
    yield from of_table(iceberg_table(spark, table))


def of_table(loaded: Any) -> Iterator[Snapshot]:
    """``snapshots`` of a table as it was loaded, or as its own commit left it."""
    found = loaded.currentSnapshot()
    while found is not None:
        parent = found.parentId()
        yield Snapshot(
            id=found.snapshotId(),
            parent=parent,
            made=found.timestampMillis(),
            operation=found.operation(),
            summary=dict(found.summary()),
        )
        found = None if parent is None else loaded.snapshot(parent)


def newest(spark: SparkSession, table: str) -> Snapshot | None:
    return next(snapshots(spark, table), None)


def iceberg_table(spark: SparkSession, table: str) -> Any:
    """``org.apache.iceberg.Table`` as it is now."""
    java = jvm(spark)
    session = java_session(spark)
    sessions = java.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(session)  # a catalog is read from the settings of the active one
    return java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, table)


def delete(spark: SparkSession, table: str, places: DataFrame) -> None:
    """The rows at these places (``PLACE``), in one snapshot."""
    places.createOrReplaceTempView(_DOOMED)
    same = " AND ".join(f"{table}.{each} = d.{each}" for each in PLACE)
    try:
        chosen = f"EXISTS (SELECT 1 FROM {_DOOMED} d WHERE {same})"  # noqa: S608 - names of ours
        spark.sql(f"DELETE FROM {table} WHERE {chosen}")  # noqa: S608 - likewise
    finally:
        spark.catalog.dropTempView(_DOOMED)


@contextlib.contextmanager
def carrying(spark: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    """Within it, every snapshot that this session makes carries these. No other thread may use it."""
    names = {PREFIX + name: value for name, value in properties.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)
