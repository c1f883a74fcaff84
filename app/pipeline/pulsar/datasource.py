"""``format("cloudevents")``: records of Pulsar as the columns RAW, in a batch or a stream.

::

    spark.dataSource.register(CloudEventsSource)
    spark.read.format("cloudevents").option("broker", "pulsar").option("service_url", ...)

An offset is a message id, as a number. What lies between two is the same for ever, so a batch that is run
again reads the same messages. ``read`` runs in Spark's workers, everything else beside the driver.
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

from app.pipeline import tables
from app.pipeline.pulsar.reading import Range, batches
from app.pipeline.pulsar_options import Offsets, Options, as_json, offsets_of, options_of

if TYPE_CHECKING:
    import pyarrow as pa

Json = dict[str, dict[str, int]]


class CloudEventsSource(DataSource):
    """Registered by ``spark.dataSource.register``."""

    @classmethod
    def name(cls) -> str:
        return "cloudevents"

    def schema(self) -> str:
        return tables.RAW

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - there is one
        return _Reader(options_of(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's name
        return _StreamReader(options_of(self.options))


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
    """Offsets as Spark keeps them in the checkpoint: of each partition the first that is not read yet."""

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
        """Nothing is acknowledged: readers hold no cursor."""


def bound(options: Options, text: str) -> Offsets:
    """Of every partition that there is. Those that a text leaves out are read from their begin."""
    from app.pipeline.pulsar.positions import Positions  # noqa: PLC0415 - on the driver alone

    topics = options.full_topics()
    positions = Positions(options)
    match text.strip():
        case "earliest":
            return positions.at(topics, "earliest")
        case "latest":
            return positions.at(topics, "latest")
        case other:
            return offsets_of(other, topics, options.namespace)


def pieces(options: Options, start: Offsets, end: Offsets) -> list[InputPartition]:
    """One a partition that has something. Raises ValueError for a start that retention has overtaken."""
    from app.pipeline.pulsar.positions import Positions  # noqa: PLC0415

    positions = Positions(options)
    wires = positions.wires(list(end))
    held = positions.at(list(end), "earliest")
    _check(start, held)
    return [
        InputPartition(Range(topic, number, wires[topic][number], at, until))
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
            f"OFFSET_OUT_OF_RANGE: retention dropped what was to be read: {'; '.join(gone)}"
        )


def _numbered(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    return msgspec.convert(offsets, dict[str, dict[int, int]], strict=False)
