"""The native way: which route, and its records. No Python runs here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from app.model.route import Route, Target
from app.pipeline import tables
from app.pipeline.decode import fenced, native
from app.pipeline.predicate import DECODED, condition
from app.pipeline.reroute import texts
from app.pipeline.reroute.plan import Plan, Step
from app.pipeline.reroute.writing import KEPT, as_columns
from app.routing.plan import writing_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLACE: Final = "origin STRING, source_partition INT, source_offset BIGINT, nth INT"
"""Topic, partition and offset of the record that a record is made of, and which of its records it is."""

MADE: Final = (
    f"{PLACE}, route STRING, broker STRING, topic STRING, key BINARY, value BINARY, "
    f"headers {tables.HEADERS}, reason STRING"
)
"""A record to write. ``reason``: the code of why it was rejected, null for what was not: then it is as it
came, and ``route`` and ``broker`` are null.
"""
_RECORDS: Final = (
    "ARRAY<STRUCT<route: STRING, broker: STRING, topic: STRING, key: BINARY, value: BINARY, "
    f"headers: {tables.HEADERS}, reason: STRING>>"
)

NO_ROUTE: Final = "no-route"
_RAW: Final = tables.names(tables.RAW)
_PLACED: Final = (
    "topic AS origin",
    "partition AS source_partition",
    "offset AS source_offset",
)


def judged(plan: Plan, raw: DataFrame) -> DataFrame:
    """RAW, with ``doubt``: it has to go the exact way; ``step``: the number of the route that takes a record, null
    for none; ``made``: its records, null where there is doubt.

    Its plan is the large one, with the decoder and every route in it: keep the rows, and ask them.
    """
    records = F.when(~F.col("doubt"), _by_step(_natively(plan))).cast(_RECORDS)
    found = routed(plan, raw).select(*_RAW, "doubt", "step", records.alias("made"))
    return fenced(found)


def routed(plan: Plan, raw: DataFrame) -> DataFrame:
    """RAW decoded, with ``step`` and ``doubt``: there ``step`` means nothing."""
    decoded = native.decoded(raw, kept=KEPT)
    conditions = [condition(each.route.filters, DECODED).required() for each in plan.steps]
    chosen = decoded.withColumn("step", _first(conditions))
    certain = _by_step((n, _certain(each)) for n, each in enumerate(plan.steps))
    unsure = F.col("step").isNotNull() & ~F.coalesce(certain, F.lit(False))
    return chosen.withColumn("doubt", F.col("doubt") | unsure)


def doubtful(judged: DataFrame) -> DataFrame:
    """RAW of the records that go the exact way."""
    return judged.where("doubt").select(*_RAW)


def made(judged: DataFrame) -> DataFrame:
    """MADE of the records that are clear and have a route."""
    each = judged.select(*map(F.expr, _PLACED), F.posexplode("made").alias("nth", "made"))
    return each.select("origin", "source_partition", "source_offset", "nth", "made.*")


def left(judged: DataFrame) -> DataFrame:
    """MADE of the clear records that no route takes."""
    return judged.where("NOT doubt AND step IS NULL").selectExpr(
        *_PLACED,
        "0 AS nth",
        "CAST(NULL AS STRING) AS route",
        "CAST(NULL AS STRING) AS broker",
        "topic",
        "key",
        "value",
        "headers",
        f"'{NO_ROUTE}' AS reason",
    )


def _natively(plan: Plan) -> Iterator[tuple[int, Column]]:
    for n, each in enumerate(plan.steps):
        yield n, F.lit(None) if each.exactly else _records(each.route)


def _first(conditions: Iterable[Column]) -> Column:
    """The number of the first that holds. An error in a filter is no (``predicate``)."""
    chain: Any = F
    for number, holds in enumerate(conditions):
        chain = chain.when(holds, F.lit(number))
    first: Column = chain.otherwise(F.lit(None))
    return first


def _by_step(values: Iterable[tuple[int, Column]]) -> Column:
    chain: Any = F
    for number, value in values:
        chain = chain.when(F.col("step") == number, value)
    found: Column = chain
    return found


def _certain(step: Step) -> Column:
    """What has no topic, or lacks a key that it must have, is refused by the exact way, in its words."""
    if step.exactly:
        return F.lit(False)
    route = step.route
    needed = [as_columns(writing_of(route)).certain]
    needed += [topic.isNotNull() for topic in _topics(route)]
    if route.key.missing == "reject":
        needed.append(_key(route).isNotNull())
    return reduce(Column.__and__, needed)


def _records(route: Route) -> Column:
    """One a target, alike but for where they go."""
    written, key = as_columns(writing_of(route)), _key(route)
    return F.array(
        *(
            F.struct(
                F.lit(route.name).alias("route"),
                F.lit(target.broker).alias("broker"),
                topic.alias("topic"),
                key.alias("key"),
                written.value.alias("value"),
                written.headers.alias("headers"),
                F.lit(None).cast("string").alias("reason"),
            )
            for target, topic in zip(route.to, _topics(route), strict=True)
        )
    )


def _topics(route: Route) -> list[Column]:
    return [texts.topic(each.topic, DECODED) for each in route.to if isinstance(each, Target)]


def _key(route: Route) -> Column:
    key = texts.key(route.key, DECODED)
    return F.lit(None).cast("binary") if key is None else key
