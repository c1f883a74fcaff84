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


_READERS: Final = 32
_TASKS_PER_CORE: Final = 4


def records(
    spark: SparkSession,
    place: KafkaPlace | PulsarPlace,
    topics: Sequence[str],
    start: Bound = "earliest",
    end: Bound = "latest",
    names: Mapping[str, str] = NOTHING,
) -> DataFrame:
    """Return the records between two bounds as a batch. ``latest`` is resolved when the batch is
    read. If both bounds are offsets, the partitions that they name are read.

    ``names`` has the values of the column ``topic``, if they are not the names of the topics.
    """
    bounds = {"startingOffsets": as_text(start), "endingOffsets": as_text(end)}
    if isinstance(place, PulsarPlace):
        return (
            _registered(spark)
            .read.format(PULSAR_FORMAT)
            .options(**as_spark_options(place.cluster, topics, **bounds))
            .load()
        )
    chosen = {"subscribe": ",".join(topics)}
    if not isinstance(start, str) and not isinstance(end, str):
        chosen = {"assign": msgspec.json.encode({t: [*each] for t, each in end.items()}).decode()}
    reader = spark.read.format("kafka").options(**_options(place), **chosen, **bounds)
    return _raw(reader.load(), place).withColumn("topic", _stored_name(names))


def stream(
    spark: SparkSession,
    place: KafkaPlace,
    topics: Sequence[str],
    *,
    max_offsets_per_trigger: int | None = None,
) -> DataFrame:
    """Return a stream of all records of Kafka, including those that arrive later. The checkpoint of the
    stream has its position.

    ``max_offsets_per_trigger`` is the largest number of records in a batch, over all partitions.
    """
    options = {**_options(place), "subscribe": ",".join(topics), "startingOffsets": "earliest"}
    if max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    received = spark.readStream.format("kafka").options(**options).load()
    return _raw(received.coalesce(readers(spark)), place)


def readers(spark: SparkSession) -> int:
    """Return the largest number of tasks that read a batch. A task for each partition would cost 0.2 s
    and a file, even for a hundred records.
    """
    return max(_READERS, _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)


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


def _options(place: KafkaPlace) -> dict[str, str]:
    return {**_ALWAYS, **connection(place)}


def _registered(spark: SparkSession) -> SparkSession:
    """Register the Pulsar data source with the session, unless the session has a source of its
    name. Return the session.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    from app.spark.pulsar.datasource import CloudEventsSource  # noqa: PLC0415

    try:
        spark.dataSource.register(CloudEventsSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
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
