"""Reroute a batch or a stream of records from Kafka to Kafka.

Spark's Kafka sink writes at least once: an interrupted batch is written again from its start. The
order of a key is kept within each partition of the source: one task reads, routes and writes the
partition without a shuffle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as F  # noqa: N812

from app.errors import SetupError, SkybridgeError
from app.spark import source
from app.spark.faults import lake_fault
from app.spark.positions import topic_ids
from app.spark.reroute import making
from app.spark.reroute.plan import brokers_of
from app.spark.session import cached, first_line, read_file, write_file
from app.spark.settings import KafkaPlace, Reroute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

REJECTED: Final = "skybridge-rejected"
"""The last header of a rejected record, whose value is the code of the cause."""


class RerouteFailed(SkybridgeError):
    """The error for a batch that could not be rerouted. The same command repeats it."""


class Tally(msgspec.Struct, frozen=True):
    """The counts of a reroute.

    Attributes:
        read: The records read.
        written: The records written. A route with several targets writes several records for one event.
        routes: The events by the route that matched.
        rejected: The rejected records by the code of the cause.
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
    """Return the counts of a reroute of these records, without writing anything."""
    return _tally(making.routed(job.routes, raw))


def rerouted(job: Reroute, raw: DataFrame) -> Tally:
    """Write the publications of a batch of RAW in order, and the rejected records if there is a
    topic for them.

    The rows are decoded and routed once and cached. They are read several times: for the counts, for each
    broker and for the rejected records.
    """
    with cached(making.routed(job.routes, raw)) as made:
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
    """Start a query that reroutes the records stored now (``once``), or all records as they arrive.

    Args:
        spark: The session.
        job: The settings.
        checkpoint: The folder or URI where the query stores its position.
        once: Whether the query ends at the records stored now.
        seconds: The seconds from the start of one batch to the next.
        most: The largest number of records in a batch.
        progress: Called with the counts of each batch.

    Raises:
        SetupError: A topic was created again since the query last read it.
    """
    read = source.stream(spark, job.source, job.topics, max_offsets_per_trigger=most)

    def batch(raw: DataFrame, _number: int) -> None:
        _demand_same_topics(spark, job, checkpoint)
        progress(rerouted(job, raw))

    _demand_same_topics(spark, job, checkpoint)

    writer = read.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
    trigger = {"availableNow": True} if once else {"processingTime": f"{seconds} seconds"}
    return writer.trigger(**trigger).start()


def wait(query: StreamingQuery) -> None:
    """Wait until a query ends or the user interrupts it, which stops the query.

    Raises:
        LakeUnavailable: The storage of the checkpoint does not answer.
        RerouteFailed: Another error ended the query.
    """
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    except Exception as error:
        failed = RerouteFailed(f"the records could not be rerouted: {first_line(error)}")
        raise lake_fault(error) or failed from error


def _demand_same_topics(spark: SparkSession, job: Reroute, checkpoint: str) -> None:
    """Raise SetupError if a topic has another id than the checkpoint states. The ids of new topics
    are added to the checkpoint.
    """
    place = f"{checkpoint}/topic-ids.json"
    known = msgspec.json.decode(read_file(spark, place) or b"{}", type=dict[str, str])
    current = topic_ids(spark, job.source, job.topics)
    if again := [topic for topic, each in current.items() if known.get(topic, each) != each]:
        raise SetupError(
            f"topics were created again since they were last read: {', '.join(again)}",
            setting="--topics",
            cure=f"remove {checkpoint}, and all topics of this job are read from their start",
        )
    if new := {topic: each for topic, each in current.items() if topic not in known}:
        write_file(spark, place, msgspec.json.encode({**known, **new}))


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
