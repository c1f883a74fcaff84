"""The snapshots of an Iceberg table from the newest to the oldest, with their summaries.

They are read through Iceberg's Java classes. A query of Iceberg's metadata tables costs a Spark job
and does not return parents.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from app.errors import SetupError
from app.pipeline.tables import PLACE, PROGRESS_PROPERTY, UNFIT_PROPERTY
from app.spark.cleanup import cleaning_up
from app.spark.pyspark_adapter import java_session, jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX: Final = "spark.sql.iceberg.snapshot-property."
"""The prefix of session settings that Iceberg copies into the summary of every snapshot that the
session creates.
"""

_CARRIED: Final = (PROGRESS_PROPERTY, UNFIT_PROPERTY)
"""The properties by which an archive finds its position."""

_DOOMED: Final = "skybridge_doomed"

SKEW: Final = 60.0  # seconds by which Iceberg permits a commit to be earlier than the one before


class Snapshot(msgspec.Struct, frozen=True):
    """A snapshot of a table.

    Attributes:
        id: The id of the snapshot.
        parent: The id of the snapshot before this one.
        made: The time in ms since 1970, by the clock of the process that committed the snapshot.
        operation: The operation as Iceberg names it, such as ``append``.
        summary: The summary properties.
    """

    id: int
    parent: int | None
    made: int
    operation: str
    summary: Mapping[str, str]

    def count(self, name: str) -> int:
        """Return the number in this summary property; 0 if the property is missing."""
        return int(self.summary.get(name, "0"))


def snapshots(spark: SparkSession, table: str) -> Iterator[Snapshot]:
    """Yield the snapshots of a table from the current one to the oldest ancestor that has not
    expired.
    """
    yield from snapshots_of(iceberg_table(spark, table))


def snapshots_of(loaded: Any) -> Iterator[Snapshot]:
    """Yield the snapshots of a loaded table, as ``snapshots`` does. The table is read as it was
    when it was loaded or last committed."""
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


def changes_of(loaded: Any) -> Iterator[Snapshot]:
    """Yield the snapshots of a loaded table that changed its rows. ``parent`` is the snapshot of the
    change before: compactions between two changes are left out.
    """
    later = oldest = None
    for oldest in snapshots_of(loaded):
        if oldest.operation != "replace":
            if later is not None:
                yield msgspec.structs.replace(later, parent=oldest.id)
            later = oldest
    if (last := later or oldest) is not None:  # all changes may have expired, not the rows
        yield last


def newest_change(spark: SparkSession, table: str) -> Snapshot | None:
    """Return the newest snapshot that changed the rows of a table."""
    return next(changes_of(iceberg_table(spark, table)), None)


def demand_clock(
    spark: SparkSession,
    table: str,
    now: Callable[[], float] = time.time,  # noqa: TID251 - compared with times of other machines
) -> None:
    """Raise SetupError if the newest snapshot of a table is from the future. Iceberg makes no commit
    with a clock that shows more than a minute less than at an earlier commit."""
    newest = newest_snapshot(spark, table)
    ahead = 0.0 if newest is None else newest.made / 1000 - now()
    if ahead > SKEW:
        raise SetupError(
            f"the clock of this machine is {ahead:.0f} seconds earlier than that of the last commit to {table}",
            setting="pipeline.lake",
            cure="set the clocks of all machines that write to the lake, for example by NTP",
        )


def newest_snapshot(spark: SparkSession, table: str) -> Snapshot | None:
    return next(snapshots(spark, table), None)


def iceberg_table(spark: SparkSession, table: str) -> Any:
    """Load the current state of a table as Java's ``org.apache.iceberg.Table``."""
    java = jvm(spark)
    session = java_session(spark)
    sessions = java.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(session)  # the catalog comes from the settings of the active session
    return java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, table)


def archive_properties(spark: SparkSession, table: str) -> dict[str, str]:
    """Return the archive's properties. Each is taken from the newest snapshot that carries it."""
    found: dict[str, str] = {}
    for each in snapshots(spark, table):
        for name in _CARRIED:
            if name in each.summary:
                found.setdefault(name, each.summary[name])
    return found


def delete(spark: SparkSession, table: str, places: DataFrame, prefix: str = "") -> None:
    """Delete the rows at these positions (columns ``PLACE``), in one snapshot that carries the
    properties of the archive. ``prefix`` is that of the positions in the table.
    """
    places.createOrReplaceTempView(_DOOMED)
    same = " AND ".join(f"{table}.{prefix}{each} = d.{each}" for each in PLACE)
    with cleaning_up(lambda: spark.catalog.dropTempView(_DOOMED)), keeping_position(spark, table):
        chosen = f"EXISTS (SELECT 1 FROM {_DOOMED} d WHERE {same})"  # noqa: S608 - all names are constants
        spark.sql(f"DELETE FROM {table} WHERE {chosen}")  # noqa: S608 - all names are constants


@contextlib.contextmanager
def keeping_position(spark: SparkSession, table: str) -> Iterator[None]:
    """Add the archive's properties of a table to the summary of every snapshot that the session creates
    inside the context.

    No other thread may use the session meanwhile.
    """
    names = {PREFIX + name: value for name, value in archive_properties(spark, table).items()}
    for name, value in names.items():
        spark.conf.set(name, value)

    def unset() -> None:
        for name in names:
            spark.conf.unset(name)

    with cleaning_up(unset):
        yield
