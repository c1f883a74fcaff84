"""The archive beside a bare copy: the same records of a real Kafka into Iceberg, three ways in one run.

    python tests/bench/pipeline_archive.py [--short] [--events N] [--rounds N]

``copy`` appends what is on the wire to one table; ``decode`` appends the decoded events to one table; ``archive``
is all of it: raw, events by MERGE, quarantine. Each has a round that warms up, on a tenth of the records; of the rounds that count, in turn, the best.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pipeline_events
import pyarrow.parquet as pq
from confluent_kafka import Producer
from pipeline_events import BASE
from pipeline_figures import Figure, sized, told

from app.pipeline import source, tables
from app.pipeline.archive import run
from app.pipeline.archive.stream import Plan
from app.pipeline.decode import natively
from app.pipeline.session import open_session
from app.pipeline.settings import Engine, KafkaPlace, Lake
from kafka_server import KafkaServer
from lake_events import make_topic
from lake_house import lake_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGETS = {"decode": 0.75, "archive": 0.4}
"""Of the copy's speed (issue 8)."""
NAMES = {
    "copy": "a bare copy, Kafka to one table",
    "decode": "decode and append to one table",
    "archive": "the whole archive: raw, MERGE, quarantine",
}
_PARTITIONS = 8
_ID = re.compile(rb'("(?:id|eventID)": ?")')  # of a document; no data of these events has one


def _another(row: dict[str, Any], number: bytes) -> tuple[list[tuple[str, bytes]], bytes]:
    """Headers and body of the same event under an id of its own: no two that are sent are one event."""
    named = [(each["key"], each["value"]) for each in row["headers"] or []]
    headers = [
        (name, _renamed(value, number) if name == "ce_id" else value) for name, value in named
    ]
    return headers, _ID.sub(rb"\g<1>" + number + b"-", row["value"], count=1)


def _renamed(value: bytes, number: bytes) -> bytes:
    return b'"' + number + b"-" + value[1:] if value[:1] == b'"' else number + b"-" + value


def fill(servers: str, topic: str, folder: Path) -> int:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "compression.type": "lz4"})
    sent = 0
    for file in sorted(folder.glob("*.parquet")):  # one after the other: all at once are gigabytes
        for row in pq.read_table(file, columns=["key", "value", "headers"]).to_pylist():
            headers, body = _another(row, b"%d" % sent)
            while True:
                try:
                    producer.produce(topic, key=row["key"], value=body, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.05)
            sent += 1
        producer.poll(0)
    assert producer.flush(600) == 0
    return sent


def _append(frame: DataFrame, table: str, columns: str) -> None:
    spark = frame.sparkSession
    spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")
    spark.sql(
        f"CREATE TABLE {table} ({columns}) USING iceberg TBLPROPERTIES ("
        "'write.distribution-mode'='none', 'write.parquet.compression-level'='1')"
    )
    frame.writeTo(table).append()


def ways(
    spark: SparkSession, lake: Lake, place: KafkaPlace, topic: str
) -> dict[str, Callable[[], object]]:
    def copy() -> None:
        _append(source.records(spark, place, [topic]), lake.table("copied"), tables.RAW)

    def decode() -> None:
        events = natively(source.records(spark, place, [topic])).where("NOT doubt").drop("doubt")
        _append(events, lake.table("decoded"), tables.DECODED)

    def archive() -> None:
        checkpoints = f"{lake.catalog.warehouse}/_checkpoints"
        plan = Plan(place=place, topics=(topic,), checkpoints=checkpoints, most=250_000)
        print(run.once(spark, lake, plan))

    return {"copy": copy, "decode": decode, "archive": archive}


def measure(spark: SparkSession, folder: Path, place: KafkaPlace, topic: str) -> dict[str, float]:
    """Seconds by way. Each round has a lake of its own."""
    lake = lake_in(folder)
    session = open_session(Engine(), lake, app_name="bench")
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lake.namespace}")
    found = {}
    for name, way in ways(session, lake, place, topic).items():
        started = perf_counter()
        way()
        found[name] = perf_counter() - started
    return found


def figures(seconds: dict[str, float], events: int) -> list[Figure]:
    return [
        Figure(
            f"archive: {NAMES[name]}",
            f"{events / took:,.0f} events/s",
            seconds["copy"] / took if name in TARGETS else None,
            TARGETS.get(name),
            "the copy" if name in TARGETS else "",
        )
        for name, took in seconds.items()
    ]


def main() -> int:
    parser = sized(__doc__, short=20_000, usual=200_000, rounds=2)
    asked = parser.parse_args()
    events, rounds = (20_000, 1) if asked.short else (asked.events, asked.rounds)
    kafka = KafkaServer(brief=False)
    kafka.start()
    spark = open_session(Engine(master="local[2]", memory="3g"), None, app_name="bench")
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = KafkaPlace("main", kafka.bootstrap_servers)
            sent = {"warm": max(BASE, events // 10), "measured": events}
            for name, count in sent.items():
                make_topic(kafka.bootstrap_servers, name, _PARTITIONS)
                pipeline_events.write(Path(folder, name), count)
                sent[name] = fill(kafka.bootstrap_servers, name, Path(folder, name))
            measure(spark, Path(folder, "lake-warm"), place, "warm")
            turns = [
                measure(spark, Path(folder, f"lake-{turn}"), place, "measured")
                for turn in range(rounds)
            ]
    finally:
        spark.stop()
        kafka.stop()
    best = {name: min(turn[name] for turn in turns) for name in turns[0]}
    return told(figures(best, sent["measured"]), asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
