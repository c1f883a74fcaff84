"""The newest event of each source and subject, as a view of ``events`` or of a typed table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from app.errors import SetupError
from app.pipeline import tables
from app.pipeline.settings import Lake
from app.pipeline.typed.schema import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUFFIX: Final = "_latest"
"""The end of a view's name: ``events_latest`` is the view of ``events``."""


_ROW: Final = f"{PREFIX}row"
_RANK: Final = f"{PREFIX}rank"
"""Names that differ from those of all columns: no property of a typed table has the prefix."""


def latest_rows(
    table: str, *, prefix: str = "", without: Literal["EXCEPT", "EXCLUDE"] = "EXCEPT"
) -> str:
    """Return SQL for the newest row of each source and subject. An event without a time has that of
    its record.

    Args:
        table: The name of the table as the engine knows it.
        prefix: The prefix of the columns that the table has from the event.
        without: The word with which the engine leaves a column out of ``*``.
    """
    of = f"{_ROW}.{prefix}"
    order = (
        f"coalesce({of}time, {of}record_time)",
        *(f"{of}{name}" for name in ("record_time", "broker", "topic", "partition", "offset")),
    )
    newest = ", ".join(f"{each} DESC" for each in order)
    rank = f"row_number() OVER (PARTITION BY {of}source, {of}subject ORDER BY {newest})"
    ranked = f"SELECT {_ROW}.*, {rank} AS {_RANK} FROM {table} {_ROW}"  # noqa: S608 - only names of tables
    return f"SELECT * {without} ({_RANK}) FROM ({ranked}) WHERE {_RANK} = 1"  # noqa: S608


def create_views(spark: SparkSession, lake: Lake) -> list[str]:
    """Create the view of ``events`` and of each typed table in the catalog, and return their names.

    Raises:
        SetupError: The lake does not exist, or its catalog has no views.
    """
    tables.check(spark, lake)
    there = [each for each in lake.tables if spark.catalog.tableExists(lake.table(each.table))]
    prefixes = {tables.EVENTS_TABLE: "", **{each.table: PREFIX for each in there}}
    for name, prefix in prefixes.items():
        _create(spark, lake.table(name), prefix)
    return [lake.table(name) + SUFFIX for name in prefixes]


def _create(spark: SparkSession, table: str, prefix: str) -> None:
    from pyspark.errors import UnsupportedOperationException  # noqa: PLC0415 - heavy

    try:
        spark.sql(f"CREATE OR REPLACE VIEW {table}{SUFFIX} AS {latest_rows(table, prefix=prefix)}")
    except UnsupportedOperationException as error:
        raise SetupError(
            "the catalog of the lake has no views",
            setting="pipeline.lake.catalog.kind",
            cure="skybridge pipeline query knows events_latest in every catalog",
        ) from error
