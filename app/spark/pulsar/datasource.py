"""The Spark format ``cloudevents``: records of Pulsar with the columns RAW, in a batch or a stream.

::

    spark.dataSource.register(CloudEventsSource)
    spark.read.format("cloudevents").option("broker", "pulsar").option("service_url", ...)

An offset is a message id as a number. The messages between two offsets never change, so a repeated
batch reads the same messages. ``read`` runs in Spark's workers; all other methods run at the
driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from app.spark.columns import RAW
from app.spark.pulsar.options import Offsets, Options, as_json, parse_offsets, parse_options
from app.spark.pulsar.reading import MessageRange, batches

if TYPE_CHECKING:
    import pyarrow as pa

Json = dict[str, dict[str, int]]


class CloudEventsSource(DataSource):
    """The data source of Pulsar, which ``spark.dataSource.register`` registers."""

    @classmethod
    def name(cls) -> str:
        return "cloudevents"

    def schema(self) -> str:
        return RAW

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - there is one schema
        return _Reader(parse_options(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's name
        return _StreamReader(parse_options(self.options))


class _Reader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        return pieces(
            options, bound(options, options.startingoffsets), bound(options, options.endingoffsets)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(self._options, partition.value)


class _StreamReader(DataSourceStreamReader):
    """The stream reader. An offset in Spark's checkpoint is the first unread message id of each
    partition.
    """

    def __init__(self, options: Options) -> None:
        self._options = options

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's names
        return as_json(bound(self._options, self._options.startingoffsets))

    def latestOffset(self) -> Json:  # noqa: N802
        return as_json(bound(self._options, "latest"))

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        return pieces(self._options, _numbered(start), _numbered(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return batches(self._options, partition.value)

    def commit(self, end: Json) -> None:
        """Do nothing: Pulsar readers have no cursor that could be acknowledged."""


def bound(options: Options, text: str) -> Offsets:
    """Return the offset of every partition at a bound. Partitions that the text does not name are
    read from their start.
    """
    from app.spark.pulsar.positions import PulsarPositions  # noqa: PLC0415 - imported on the driver only

    topics = options.full_topics()
    positions = PulsarPositions(options)
    match text.strip():
        case "earliest":
            return positions.at(topics, "earliest")
        case "latest":
            return positions.at(topics, "latest")
        case other:
            return parse_offsets(other, topics, options.namespace)


def pieces(options: Options, start: Offsets, end: Offsets) -> list[InputPartition]:
    """Return one piece for each partition that has messages between the bounds.

    Raises:
        ValueError: Retention has deleted messages after the start.
    """
    from app.spark.pulsar.positions import PulsarPositions  # noqa: PLC0415

    positions = PulsarPositions(options)
    wires = positions.wires(list(end))
    held = positions.at(list(end), "earliest")
    _check(start, held)
    return [
        InputPartition(MessageRange(topic, number, wires[topic][number], at, until))
        for topic, each in end.items()
        for number, until in each.items()
        if (at := start.get(topic, {}).get(number, 0)) < until
    ]


def _check(start: Offsets, held: Offsets) -> None:
    gone = [
        f"{topic}/{number}: {at} to {held[topic][number] - 1}"
        for topic, each in start.items()
        for number, at in each.items()
        if 0 < at < held.get(topic, {}).get(number, 0)
    ]
    if gone:
        raise ValueError(
            f"OFFSET_OUT_OF_RANGE: retention deleted messages before they were read: {'; '.join(gone)}"
        )


def _numbered(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    return msgspec.convert(offsets, dict[str, dict[int, int]], strict=False)
