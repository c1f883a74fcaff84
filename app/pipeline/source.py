"""Records of a Kafka, or of an embedded log through its Kafka listener, as a frame: the columns RAW. Those of
a Pulsar come by a source of ours (``pipeline.pulsar``).

Kafka's source is Spark's own. It reads committed records only, and an offset that is gone is an error: what
retention took before it was read is never passed over in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from pyspark.sql import functions as f

from app.pipeline.pulsar_options import given
from app.pipeline.settings import KafkaPlace, PulsarPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Offsets = Mapping[str, Mapping[int, int]]
"""By topic and partition. At the start the first offset that is read, at the end the first that is not."""

OURS: Final = "cloudevents"
"""What Spark knows our own source by."""

Bound = Offsets | Literal["earliest", "latest"]

_ALWAYS: Final[Mapping[str, str]] = {
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "kafka.isolation.level": "read_committed",
}


def records(
    spark: SparkSession,
    place: KafkaPlace | PulsarPlace,
    topics: Sequence[str],
    start: Bound = "earliest",
    end: Bound = "latest",
) -> DataFrame:
    """What lies between two bounds now, as a batch."""
    bounds = {"startingOffsets": as_text(start), "endingOffsets": as_text(end)}
    if isinstance(place, PulsarPlace):
        return (
            _registered(spark)
            .read.format(OURS)
            .options(**given(place.cluster, topics, **bounds))
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
) -> DataFrame:
    """What lies beyond a bound, and what comes. A checkpoint that has a position wins over ``start``;
    ``max_offsets_per_trigger``: most records of one batch, over all partitions. A batch from Pulsar has all that
    is there when it begins: Spark 4.0 tells a source in Python no bound.
    """
    if isinstance(place, PulsarPlace):
        told = given(place.cluster, topics, startingOffsets=as_text(start))
        return _registered(spark).readStream.format(OURS).options(**told).load()
    options = {**_options(place, topics), "startingOffsets": as_text(start)}
    if max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets_per_trigger)
    return _raw(spark.readStream.format("kafka").options(**options).load(), place)


def as_text(bound: Bound) -> str:
    """As Spark's source takes and gives it."""
    if isinstance(bound, str):
        return bound
    numbered = {topic: {str(n): at for n, at in each.items()} for topic, each in bound.items()}
    return msgspec.json.encode(numbered, order="deterministic").decode()


def connection(place: KafkaPlace) -> dict[str, str]:
    """Where it is and how to log in, as Spark's source and sink take it."""
    security = {f"kafka.{name}": value for name, value in place.options.items()}
    return {**security, "kafka.bootstrap.servers": place.bootstrap_servers}


def _options(place: KafkaPlace, topics: Sequence[str]) -> dict[str, str]:
    return {**_ALWAYS, **connection(place), "subscribe": ",".join(topics)}


def _registered(spark: SparkSession) -> SparkSession:
    """What is registered already, in this session or for all, stays. Without the wrapper ``availableNow`` would
    be one batch: after a kill the one that was begun, and nothing that came since.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    from app.pipeline.pulsar.datasource import CloudEventsSource  # noqa: PLC0415

    try:
        spark.dataSource.register(CloudEventsSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
    spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
    return spark


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
