"""A batch or a stream of records, from Kafka to Kafka.

Spark's Kafka sink writes at least once: a batch that is broken off is written again from its begin. The order
of a key holds within what one partition of the source has: what is clear stays in the partition's order, and where
records go the exact way, all of the batch are brought into order again before they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as F  # noqa: N812

from app.pipeline import source
from app.pipeline.reroute import exact, native
from app.pipeline.reroute.plan import Plan, brokers_of
from app.pipeline.session import kept
from app.pipeline.settings import KafkaPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

REJECTED: Final = "skybridge-rejected"
"""Header behind those of a rejected record: the code of why."""

_ORDER: Final = ("origin", "source_partition", "source_offset", "nth")

Observe = Callable[[str], None]
"""Told of named moments: ``counted``, ``written``, ``rejected``, of each batch."""


class Tally(msgspec.Struct, frozen=True):
    """``read``      records; ``exact`` those of them that went the exact way.
    ``written``   records, of which a route with several targets has several.
    ``routes``    events by the route that took them; ``rejected`` records by the code of why.
    """

    read: int = 0
    exact: int = 0
    written: int = 0
    routes: Mapping[str, int] = {}
    rejected: Mapping[str, int] = {}

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.read + other.read,
            self.exact + other.exact,
            self.written + other.written,
            _sum(self.routes, other.routes),
            _sum(self.rejected, other.rejected),
        )


def counted(plan: Plan, raw: DataFrame) -> Tally:
    """What a job would do with these records: nothing is written."""
    judged = native.judged(plan, raw)
    clear = _clear(plan, judged)
    if not clear.exact:
        return clear
    return clear + _exactly(exact.made(plan.job.routes, native.doubtful(judged)))


def rerouted(plan: Plan, raw: DataFrame, observe: Observe = lambda _moment: None) -> Tally:
    """Writes what the routes make of a batch of RAW, in order, and rejects where there is a topic for them.

    The batch is decoded and routed once, and kept: counts, brokers and rejects each ask the kept rows.
    """
    with kept(native.judged(plan, raw)) as judged:
        tally = _clear(plan, judged)
        records, rest = native.made(judged), native.left(judged)
        if not tally.exact:
            observe("counted")
            _write(plan, records, rest if tally.rejected else None, observe)
            return tally
        with kept(exact.made(plan.job.routes, native.doubtful(judged))) as doubtful:
            tally += _exactly(doubtful)
            observe("counted")
            whole = _in_order(records.unionByName(doubtful.where("reason IS NULL")))
            rejected = _in_order(rest.unionByName(doubtful.where("reason IS NOT NULL")))
            _write(plan, whole, rejected if tally.rejected else None, observe)
        return tally


def started(
    spark: SparkSession,
    plan: Plan,
    *,
    checkpoint: str,
    once: bool = False,
    seconds: int = 10,
    most: int | None = None,
    observe: Observe = lambda _moment: None,
    progress: Callable[[Tally], None] = lambda _tally: None,
) -> StreamingQuery:
    """A query that runs: over what is there now (``once``), or on and on, a batch every so many ``seconds``.

    ``checkpoint``  a folder or URI, where it goes on after a stop.
    ``most``        records of one batch.
    ``progress``    is told the tally of each batch.
    """
    job = plan.job
    read = source.stream(spark, job.source, job.topics, max_offsets_per_trigger=most)

    def batch(raw: DataFrame, _number: int) -> None:
        progress(rerouted(plan, raw, observe))

    writer = read.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
    trigger = {"availableNow": True} if once else {"processingTime": f"{seconds} seconds"}
    return writer.trigger(**trigger).start()


def _clear(plan: Plan, judged: DataFrame) -> Tally:
    """Of the native way; ``exact`` says how many are left to the other."""
    rows = judged.groupBy("doubt", "step").count().collect()
    doubt = sum(row["count"] for row in rows if row["doubt"])
    steps = {row["step"]: row["count"] for row in rows if not row["doubt"]}
    rejected = steps.pop(None, 0)
    routes = [(plan.steps[n].route, count) for n, count in sorted(steps.items())]
    return Tally(
        read=sum(row["count"] for row in rows),
        exact=doubt,
        written=sum(len(route.to) * count for route, count in routes),
        routes={route.name: count for route, count in routes},
        rejected={native.NO_ROUTE: rejected} if rejected else {},
    )


def _exactly(made: DataFrame) -> Tally:
    each = F.count_if(F.col("nth") == 0).alias("events")
    rows = made.groupBy("route", "reason").agg(F.count("*").alias("records"), each).collect()
    return Tally(
        written=sum(row["records"] for row in rows if row["reason"] is None),
        routes={row["route"]: row["events"] for row in rows if row["reason"] is None},
        rejected={row["reason"]: row["events"] for row in rows if row["reason"] is not None},
    )


def _in_order(made: DataFrame) -> DataFrame:
    """Records of a key together, as they stood in the source; those without a key anywhere."""
    keyed = F.xxhash64(
        "topic", F.coalesce("key", F.col("source_offset").cast("string").cast("binary"))
    )
    return made.repartition(keyed).sortWithinPartitions(*_ORDER)


def _write(plan: Plan, made: DataFrame, rejected: DataFrame | None, observe: Observe) -> None:
    job = plan.job
    for place in brokers_of(plan.steps, job.places):
        _send(made.where(F.col("broker") == place.broker), place)
    observe("written")
    if rejected is None or job.rejects is None:
        return
    why = F.struct(F.lit(REJECTED).alias("key"), F.col("reason").cast("binary").alias("value"))
    headers = F.concat(F.coalesce("headers", F.array()), F.array(why))
    _send(rejected.withColumns({"headers": headers, "topic": F.lit(job.rejects)}), job.source)
    observe("rejected")


def _send(made: DataFrame, place: KafkaPlace) -> None:
    options = {**source.connection(place), "includeHeaders": "true"}
    made.select("topic", "key", "value", "headers").write.format("kafka").options(**options).save()


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
