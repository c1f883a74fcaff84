"""Lakes with given rows, outlets that keep their records, and the content of a real topic: for
replay and redrive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Producer

from app.bindings.record import Header, Record
from app.pipeline import tables
from app.pipeline.settings import Lake
from app.spark.columns import RAW as RAW_COLUMNS
from decode_records import RAW
from kafka_harness import open_calm_log
from kafka_librdkafka import PATIENCE, make_topic, messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """A record of the raw table. ``at`` is its time in seconds after BEGIN."""

    topic: str
    partition: int
    offset: int
    at: float
    record: Record

    def raw(self) -> tuple[Any, ...]:
        record = self.record
        place = ("main", self.topic, self.partition, self.offset)
        when = BEGIN + timedelta(seconds=self.at)
        return (*place, when, record.key, record.body, list(record.headers))


def binary_record(
    name: str,
    key: bytes | None = b"k",
    *more: Header,
    **attributes: str,
) -> Record:
    """Return a record of an event of version 1.0 in binary mode."""
    given = {
        "specversion": "1.0",
        "id": name,
        "source": "/s",
        "type": "com.example.a",
        **attributes,
    }
    headers = tuple((f"ce_{each}", text.encode()) for each, text in given.items())
    return Record(key, (*headers, ("content-type", b"application/json"), *more), b'{"n": 1.10}')


def record_of_0_3(name: str, key: bytes | None = b"k") -> Record:
    """Return a record of an event of version 0.3 in binary mode."""
    given = {"specversion": "0.3", "id": name, "source": "/s", "type": "com.example.old"}
    headers = tuple((f"ce_{each}", text.encode()) for each, text in given.items())
    return Record(key, (*headers, ("ce_schemaurl", b"urn:x")), b"plain")


ODD_RECORDS: Sequence[Record] = (
    Record(None, (), None),
    Record(b"", (), b""),
    Record(b"\xff\x00", (("a", None), ("a", b""), ("a", b"\xff"), ("b", b"1"), ("a", None)), b"\x00\xff"),
    Record(b"k", (("ce_specversion", b"1.0"), ("ce_id", b"broken")), b"{"),
    binary_record("odd", b"k", ("ce_id", b"again"), ("x", None)),
)  # fmt: skip
"""Odd records: nulls, empty values, repeated headers, bytes that are not text, and no valid event.
"""


def fill(spark: SparkSession, lake: Lake, rows: Iterable[Row]) -> None:
    """Append rows to the raw table as the archive does, with one data file for each call."""
    if not spark.catalog.tableExists(lake.table(tables.RAW_TABLE)):
        tables.make(spark, lake)
    columns = zip(*(row.raw() for row in rows), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW, strict=True)]
    frame = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=RAW))
    frame = frame.to(spark.createDataFrame([], RAW_COLUMNS).schema).coalesce(1)
    frame.writeTo(lake.table(tables.RAW_TABLE)).option("fanout-enabled", "true").append()


def rows_of(records: Iterable[Record], topic: str = "t") -> list[Row]:
    return [Row(topic, 0, n, n, record) for n, record in enumerate(records)]


class KeepingOutlet:
    """An outlet that keeps the records it gets."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def send(self, records: Sequence[Record]) -> Mapping[str, int]:
        await asyncio.sleep(0)
        self.records += records
        return {}


def open_topic(servers: str, topic: str, partitions: int = 3) -> Any:
    """Create a topic, and return a log that publishes to it."""
    make_topic(servers, topic, partitions)
    return open_calm_log(name="main", bootstrap_servers=servers)


def produce(servers: str, topic: str, records: Iterable[Record]) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for record in records:
        producer.produce(topic, record.body, record.key, headers=list(record.headers))
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def stored_records(servers: str, topic: str) -> list[tuple[int, Record]]:
    """Return all records of a topic by partition, each with its time in ms, read by an independent
    client."""
    return [
        (each.timestamp()[1], Record(each.key(), tuple(each.headers() or ()), each.value()))
        for each in messages(servers, topic)
    ]


def by_key(records: Iterable[Record]) -> dict[bytes | None, list[Record]]:
    """Return the records by key. Those without a key are sorted, because their order is undefined."""
    found: dict[bytes | None, list[Record]] = {}
    for record in records:
        found.setdefault(record.key, []).append(record)
    if None in found:
        found[None].sort(key=repr)
    return found
