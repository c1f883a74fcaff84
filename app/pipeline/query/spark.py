"""Answer a question with Spark: with its own SQL, Iceberg's metadata tables, and every kind of
catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from app.pipeline import tables
from app.pipeline.query.answer import QueryAnswer, changing_sql, refused_sql
from app.pipeline.settings import Lake
from app.pipeline.to_python import python_values
from app.spark.adapter import java_session, jvm
from app.spark.faults import lake_fault

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical."
_CHANGING: Final = tuple(_PLANS + name for name in ("Command", "ParsedStatement", "Call"))
_LOOKING: Final = ("Show", "Describe", "Explain")  # commands that only return information


def views(spark: SparkSession, lake: Lake) -> None:
    """Create views of the lake's tables under their short names.

    Raises:
        SetupError: A table is missing.
    """
    tables.check(spark, lake)
    typed = (each.table for each in lake.tables)
    there = (name for name in typed if spark.catalog.tableExists(lake.table(name)))
    for name in (*tables.COLUMNS, *there):
        spark.table(lake.table(name)).createOrReplaceTempView(name)


def ask(spark: SparkSession, lake: Lake, sql: str, *, limit: int) -> QueryAnswer:
    """Return the first ``limit`` rows of a SELECT, SHOW, DESCRIBE or EXPLAIN; all rows if ``limit``
    is 0.

    Raises:
        SetupError: Spark refuses the SQL, or the statement would change something. Nothing has run
            then.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - heavy

    views(spark, lake)
    try:
        _demand_harmless(spark, sql)
        return _answer(spark.sql(sql), limit)
    except PySparkException as refusal:
        raise lake_fault(refusal) or refused_sql("Spark", _first_lines(refusal)) from None


def _answer(found: DataFrame, limit: int) -> QueryAnswer:
    """Read the rows by Arrow: rows of pyspark would have times in the zone of this machine."""
    table = (found.limit(limit + 1) if limit else found).toArrow()
    more = bool(limit) and table.num_rows > limit
    kept = table.slice(0, limit) if more else table
    values = map(python_values, kept.columns)
    return QueryAnswer(found.columns, list(zip(*values, strict=True)), more)


def _demand_harmless(spark: SparkSession, sql: str) -> None:
    """Raise SetupError if Spark's parser finds a statement that changes something. Spark runs
    commands before rows are read.
    """
    plan = java_session(spark).sessionState().sqlParser().parsePlan(sql)
    if plan.getClass().getSimpleName().startswith(_LOOKING):
        return
    classes = [jvm(spark).java.lang.Class.forName(name) for name in _CHANGING]
    for node in _nodes(plan):
        if any(each.isInstance(node) for each in classes):
            raise changing_sql("SELECT, WITH, SHOW, DESCRIBE")


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for at in range(children.size()):
        yield from _nodes(children.apply(at))


def _first_lines(refusal: Exception) -> str:
    """Return the message of an error without the plan that Spark appends."""
    return " ".join(str(refusal).split("\n\n")[0].split("\n;")[0].split())
