"""Records of a Kafka or of an embedded log's Kafka listener as a Spark frame with the columns RAW.

Records of a Pulsar come by a data source of Skybridge (``app.spark.pulsar``). For Kafka the source
is Spark's own. It reads committed records only and fails on a missing offset, so records that
retention deleted unread are never skipped silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from pyspark.sql import functions as f

from app.spark.pulsar.options import as_spark_options
from app.spark.settings import NOTHING, KafkaPlace, PulsarPlace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Offsets = Mapping[str, Mapping[int, int]]
"""Offsets by topic and partition. A start is the first offset that is read; an end is the first
that is not.
"""

PULSAR_FORMAT: Final = "cloudevents"
"""The name under which the Pulsar data source is registered with Spark."""

Bound = Offsets | Literal["earliest", "latest"]

_ALWAYS: Final[Mapping[str, str]] = {
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
    # A task reads only stored records, so a request never needs to wait for one: a closing client waits for its last
    # request, and a batch has a client for each partition. The three settings halve the time to read 300 partitions.
    "kafka.fetch.max.wait.ms": "0",
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
}

READERS: Final = 32
"""The tasks that read a batch of a stream; more if the cluster has more than eight cores.

A task for each partition cost 0.2 s and a file, even for a hundred records.
"""

_TASKS_PER_CORE: Final = 4


def records(
    spark: SparkSession,
    place: KafkaPlace | PulsarPlace,
    topics: Sequence[str],
    start: Bound = "earliest",
    end: Bound = "latest",
) -> DataFrame:
    """Return the records between two bounds as a batch. ``latest`` is resolved when the batch is
    read.
    """
    bounds = {"startingOffsets": as_text(start), "endingOffsets": as_text(end)}
    if isinstance(place, PulsarPlace):
        return (
            _registered(spark)
            .read.format(PULSAR_FORMAT)
            .options(**as_spark_options(place.cluster, topics, **bounds))
            .load()
        )
    reader = spark.read.format("kafka").options(**_options(place, topics), **bounds)
    return _raw(reader.load(), place)


def stream(
    spark: SparkSession,
    place: KafkaPlace | PulsarPlace,
    topics: Sequence[str],
    start: Bound = "earliest",
    *,
    max_offsets_per_trigger: int | None = None,
    names: Mapping[str, str] = NOTHING,
    tasks: int | None = None,
) -> DataFrame:
    """Return a stream of the records from a bound on, including those that arrive later.

    A batch of Pulsar has all records that exist when it begins, because Spark 4.0 passes no limit
    to a Python source.

    Args:
        spark: The session.
        place: The cluster.
        topics: The topics that are read.
        start: Where reading starts, unless the checkpoint of the stream has a position.
        max_offsets_per_trigger: The largest number of records in a batch, over all partitions.
        names: The values of the column ``topic``, if they are not the names of the topics.
        tasks: The largest number of tasks that read a batch; by default some for each core.
    """
    most = tasks or max(READERS, _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    if isinstance(place, PulsarPlace):
        pulsar_options = as_spark_options(place.cluster, topics, startingOffsets=as_text(start))
        reader = _registered(spark).readStream.format(PULSAR_FORMAT).options(**pulsar_options)
        return reader.load().coalesce(most)
    options = {**_options(place, topics), "startingOffsets": as_text(start)}
    if max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    received = spark.readStream.format("kafka").options(**options).load()
    return _raw(received.coalesce(most), place).withColumn("topic", _stored_name(names))


def as_text(bound: Bound) -> str:
    """Return a bound in the text form that Spark's source takes and returns."""
    if isinstance(bound, str):
        return bound
    numbered = {topic: {str(n): at for n, at in each.items()} for topic, each in bound.items()}
    return msgspec.json.encode(numbered, order="deterministic").decode()


def connection(place: KafkaPlace) -> dict[str, str]:
    """Return the address and the login of a cluster, as options of Spark's source and sink."""
    security = {f"kafka.{name}": value for name, value in place.options.items()}
    return {**security, "kafka.bootstrap.servers": place.bootstrap_servers}


def _options(place: KafkaPlace, topics: Sequence[str]) -> dict[str, str]:
    return {**_ALWAYS, **connection(place), "subscribe": ",".join(topics)}


def _registered(spark: SparkSession) -> SparkSession:
    """Register the Pulsar data source with the session, unless the session has a source of its
    name. Return the session.

    The wrapper setting lets ``availableNow`` run several batches. Without it, a run after a kill
    would only repeat the interrupted batch.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    from app.spark.pulsar.datasource import CloudEventsSource  # noqa: PLC0415

    try:
        spark.dataSource.register(CloudEventsSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
    return spark


def _stored_name(names: Mapping[str, str]) -> Column:
    found = f.col("topic")
    for topic, stored in names.items():
        if topic != stored:
            found = f.when(f.col("topic") == topic, f.lit(stored)).otherwise(found)
    return found


def _raw(received: DataFrame, place: KafkaPlace) -> DataFrame:
    return received.select(
        f.lit(place.broker).alias("broker"),
        "topic",
        "partition",
        "offset",
        f.col("timestamp").alias("record_time"),
        "key",
        "value",
        "headers",
    )
