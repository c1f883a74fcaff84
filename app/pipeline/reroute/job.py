"""A batch or a stream of records, from Kafka to Kafka.

Spark's Kafka sink writes at least once: a batch that is broken off is written again from its begin. The order
of a key holds within what one partition of the source has: one task reads, routes and writes it, and nothing is
shuffled between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as F  # noqa: N812

from app.pipeline import source
from app.pipeline.reroute import making
from app.pipeline.reroute.plan import brokers_of
from app.pipeline.session import kept
from app.pipeline.settings import KafkaPlace, Reroute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

REJECTED: Final = "skybridge-rejected"
"""Header behind those of a rejected record: the code of why."""


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
            Counter(self.routes) + Counter(other.routes),
            Counter(self.rejected) + Counter(other.rejected),
        )


def counted(job: Reroute, raw: DataFrame) -> Tally:
    """What a job would do with these records: nothing is written."""
    return _tally(making.made(job.routes, raw))


def rerouted(job: Reroute, raw: DataFrame) -> Tally:
    """Writes what the routes make of a batch of RAW, in order, and rejects where there is a topic for them.

    The batch is decoded and routed once, and kept: counts, brokers and rejects each ask the kept rows.
    """
    with kept(making.made(job.routes, raw)) as made:
        tally = _tally(made)
        _write(job, made, rejected=bool(tally.rejected))
        return tally


def started(
    spark: SparkSession,
    job: Reroute,
    *,
    checkpoint: str,
    once: bool = False,
    seconds: int = 10,
    most: int | None = None,
    progress: Callable[[Tally], None] = lambda _tally: None,
) -> StreamingQuery:
    """A query that runs: over what is there now (``once``), or on and on, a batch every so many ``seconds``.

    ``checkpoint``  a folder or URI, where it goes on after a stop.
    ``most``        records of one batch.
    ``progress``    is told the tally of each batch.
    """
    read = source.stream(spark, job.source, job.topics, max_offsets_per_trigger=most)

    def batch(raw: DataFrame, _number: int) -> None:
        progress(rerouted(job, raw))

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


def _write(job: Reroute, made: DataFrame, *, rejected: bool) -> None:
    for place in brokers_of(job):
        _send(made.where(F.col("broker") == place.broker), place)
    if not rejected or job.rejects is None:
        return
    why = F.struct(F.lit(REJECTED).alias("key"), F.col("reason").cast("binary").alias("value"))
    headers = F.concat("headers", F.array(why))
    refused = made.where("reason IS NOT NULL")
    _send(refused.withColumns({"headers": headers, "topic": F.lit(job.rejects)}), job.source)


def _send(made: DataFrame, place: KafkaPlace) -> None:
    options = {**source.connection(place), "includeHeaders": "true"}
    made.select("topic", "key", "value", "headers").write.format("kafka").options(**options).save()
