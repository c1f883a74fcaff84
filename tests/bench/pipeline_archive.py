"""The archive beside a bare copy: the same records of a real Kafka into Iceberg, four ways in one run.

    python tests/bench/pipeline_archive.py [--short] [--events N] [--rounds N]

``copy`` appends what is on the wire to one table; ``decode`` appends the decoded events to one table; ``archive``
is all of it: raw, duplicates, events, quarantine, with the share of each stage; ``typed`` is the same with a typed table for
each event type, so that the data of every event becomes columns. Each has a round that warms up, on a tenth
of the records; of the rounds that count, in turn, the best. Ratios are of CPU, which a busy machine changes less than the
time.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pipeline_events
import pyarrow.parquet as pq
from confluent_kafka import Producer
from pipeline_cpu import Cost, Meter, Stages
from pipeline_events import BASE
from pipeline_figures import Figure, sized, told

from app.pipeline import tables
from app.pipeline.archive import commit, derive, raw, run
from app.pipeline.archive.job import ArchivePlan
from app.pipeline.kinds import TypedTable
from app.pipeline.settings import Lake
from app.pipeline.typed.schema import columns_of
from app.spark import source
from app.spark.columns import RAW
from app.spark.session import open_session
from app.spark.settings import KafkaPlace, SparkEngine
from kafka_server import KafkaServer
from lake_events import make_topic
from lake_folders import lake_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGETS = {"decode": 0.65, "archive": 0.35}
"""Of the copy's speed."""
NAMES = {
    "copy": "a bare copy, Kafka to one table",
    "decode": "decode and append to events",
    "typed": "the whole archive, and the data of every event in a typed table",
    "archive": "the whole archive: raw, events, quarantine",
}
TYPED = 1.3
"""The target for the CPU of the archive with typed tables, of that without."""
_TYPES = ("placed", "paid", "sent")
_LINE = {"sku": {"type": "string"}, "count": {"type": "integer"}, "gift": {"type": "boolean"},
         "price": {"type": "number", "multipleOf": 0.01}}  # fmt: skip
_DATA = {"order": {"type": "integer"}, "note": {"type": "string"},
         "customer": {"type": "object", "properties": {"name": {"type": "string"}, "mail": {"type": "string"}}},
         "lines": {"type": "array", "items": {"type": "object", "properties": _LINE}}}  # fmt: skip
STAGES = {
    "prepared": "choose the records",
    "files written": "copy to events_raw",
    "records copied": "commit events_raw",
    "range begun": "where it is",
    "range decoded": "decode and write",
    "duplicates found": "look for duplicates",
    "events committed": "commit events",
    "quarantine committed": "commit quarantine",
}
"""What each moment of the archive ends."""
_PARTITIONS = 8
_ID = re.compile(rb'("(?:id|eventID)": ?")')  # of a document; no data of these events has one


def another(row: dict[str, Any], number: bytes) -> tuple[list[tuple[str, bytes]], bytes]:
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
            headers, body = another(row, b"%d" % sent)
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
) -> dict[str, Callable[[Stages], object]]:
    def copy(_: Stages) -> None:
        _append(source.records(spark, place, [topic]), lake.table("copied"), RAW)

    def decoded(_: Stages) -> None:
        apart = Lake(lake.catalog, "apart", lake.buckets)
        tables.make(spark, apart)
        records = source.records(spark, place, [topic]).select(*raw.COLUMNS)
        found = derive.write_decoded(spark, apart, raw.RangeRecords(records))
        commit.append(spark, apart.table(tables.EVENTS_TABLE), found.events, {})

    def archive(stages: Stages, into: Lake = lake) -> None:
        plan = ArchivePlan(place=place, topics=(topic,), most=250_000)
        print(run.once(spark, into, plan, observe=stages))

    def typed(stages: Stages) -> None:
        data = columns_of(json.dumps({"properties": _DATA}).encode(), "schema")
        found = tuple(TypedTable(f"com.example.order.{each}", each, data) for each in _TYPES)
        archive(stages, Lake(lake.catalog, "typed", lake.buckets, found))

    return {"copy": copy, "decode": decoded, "typed": typed, "archive": archive}


def measure(
    spark: SparkSession, folder: Path, place: KafkaPlace, topic: str
) -> tuple[dict[str, Cost], dict[str, Cost]]:
    """By way, and by stage of the archive. Each round has a lake of its own."""
    lake = Lake(lake_in(folder).catalog)  # as many buckets as a lake has
    session = open_session(SparkEngine(), lake.catalog, app_name="bench")
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lake.namespace}")
    found, stages = {}, Stages(Meter(session))
    for name, way in ways(session, lake, place, topic).items():
        meter, stages = Meter(session), Stages(Meter(session))
        way(stages)
        found[name] = meter.lap()
    return found, stages.found


def figures(best: dict[str, Cost], stages: dict[str, Cost], events: int) -> list[Figure]:
    found = [
        Figure(
            f"archive: {NAMES[name]}",
            f"{events / cost.seconds:,.0f} events/s, {cost.cpu / events * 1e6:.1f} µs of CPU",
            best["copy"].cpu / cost.cpu if name in TARGETS else None,
            TARGETS.get(name),
            "the copy by CPU" if name in TARGETS else "",
        )
        for name, cost in best.items()
    ]
    ratio = best["typed"].cpu / best["archive"].cpu
    found.append(
        Figure(
            "archive: with typed tables for all events",
            f"{ratio:.2f} of the CPU without",
            ratio,
            TYPED,
            "the archive's CPU",
            most=True,
        )
    )
    return [*found, *_shares(best["archive"], stages, events)]


def _shares(whole: Cost, stages: dict[str, Cost], events: int) -> Iterator[Figure]:
    for moment, name in STAGES.items():
        cpu = stages.get(moment, Cost()).cpu
        shown = f"{cpu / events * 1e6:.1f} µs of CPU, {cpu / whole.cpu:.0%}"
        yield Figure(f"archive, of it: {name}", shown)


def main() -> int:
    parser = sized(__doc__, short=20_000, usual=200_000, rounds=2)
    asked = parser.parse_args()
    events, rounds = (20_000, 1) if asked.short else (asked.events, asked.rounds)
    kafka = KafkaServer(brief=False)
    kafka.start()
    spark = open_session(SparkEngine(master="local[2]", memory="3g"), None, app_name="bench")
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
    best = {
        name: min((turn[name] for turn, _ in turns), key=lambda cost: cost.cpu) for name in NAMES
    }
    _, stages = min(turns, key=lambda turn: turn[0]["archive"].cpu)
    return told(figures(best, stages, sent["measured"]), asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
