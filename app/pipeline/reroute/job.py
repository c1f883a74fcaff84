"""A batch or a stream of records, from Kafka to Kafka.

Spark's Kafka sink writes at least once: a batch that is broken off is written again from its begin. The order
of a key holds within what one partition of the source has: one task reads, routes and writes it, and nothing is
shuffled between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as F  # noqa: N812

from app.pipeline import source
from app.pipeline.reroute import making
from app.pipeline.reroute.plan import Plan, brokers_of
from app.pipeline.session import kept
from app.pipeline.settings import KafkaPlace, Reroute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

REJECTED: Final = "skybridge-rejected"
"""Header behind those of a rejected record: the code of why."""

Observe = Callable[[str], None]
"""Told of named moments: ``counted``, ``written``, ``rejected``, of each batch."""


class Tally(msgspec.Struct, frozen=True):
    """``read``      records.
    ``written``   records, of which a route with several targets has several.
    ``routes``    events by the route that took them; ``rejected`` records by the code of why.
    """

    read: int = 0
    written: int = 0
    routes: Mapping[str, int] = {}
    rejected: Mapping[str, int] = {}

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.read + other.read,
            self.written + other.written,
            _sum(self.routes, other.routes),
            _sum(self.rejected, other.rejected),
        )


def counted(plan: Plan, raw: DataFrame) -> Tally:
    """What a job would do with these records: nothing is written."""
    return _tally(making.made(plan.job.routes, raw))


def rerouted(plan: Plan, raw: DataFrame, observe: Observe = lambda _moment: None) -> Tally:
    """Writes what the routes make of a batch of RAW, in order, and rejects where there is a topic for them.

    The batch is decoded and routed once, and kept: counts, brokers and rejects each ask the kept rows.
    """
    with kept(making.made(plan.job.routes, raw)) as made:
        tally = _tally(made)
        observe("counted")
        _write(plan.job, made, observe, rejected=bool(tally.rejected))
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


def _tally(made: DataFrame) -> Tally:
    each = F.count_if(F.col("nth") == 0).alias("events")
    rows = made.groupBy("route", "reason").agg(F.count("*").alias("records"), each).collect()
    taken = [row for row in rows if row["reason"] is None]
    return Tally(
        read=sum(row["events"] for row in rows),
        written=sum(row["records"] for row in taken),
        routes={row["route"]: row["events"] for row in taken},
        rejected={row["reason"]: row["events"] for row in rows if row["reason"] is not None},
    )


def _write(job: Reroute, made: DataFrame, observe: Observe, *, rejected: bool) -> None:
    for place in brokers_of(job):
        _send(made.where(F.col("broker") == place.broker), place)
    observe("written")
    if not rejected or job.rejects is None:
        return
    why = F.struct(F.lit(REJECTED).alias("key"), F.col("reason").cast("binary").alias("value"))
    headers = F.concat("headers", F.array(why))
    refused = made.where("reason IS NOT NULL")
    _send(refused.withColumns({"headers": headers, "topic": F.lit(job.rejects)}), job.source)
    observe("rejected")


def _send(made: DataFrame, place: KafkaPlace) -> None:
    options = {**source.connection(place), "includeHeaders": "true"}
    made.select("topic", "key", "value", "headers").write.format("kafka").options(**options).save()


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
