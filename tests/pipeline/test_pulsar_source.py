"""Records of a real Pulsar as Spark's rows: every message once and as it was, also after a stop."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest

from app.brokers.pulsar.positions import Position
from app.config.model.config import Config
from app.errors import SetupError
from app.features.lake.settings import archived_place, archived_topics
from app.pipeline import tables
from app.pipeline.archive import run
from app.pipeline.archive.job import ArchivePlan
from app.spark import source
from app.spark.columns import RAW, column_names
from app.spark.pulsar.datasource import CloudEventsSource
from app.spark.pulsar.options import Options, as_spark_options
from app.spark.pulsar.reading import MessageIdParts, message_id, offset_of
from app.spark.settings import PulsarPlace
from lake_folders import lake_in, session_of
from pulsar_readback import plain_client, send_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.pulsar]

PARTITIONS = 2
Sent = tuple[str | None, bytes | None, tuple[tuple[str, bytes], ...]]


@dataclass
class Topic:
    """Of two partitions, and what was published there by the library's own blocking producer."""

    service_url: str
    admin_url: str
    name: str

    @property
    def place(self) -> PulsarPlace:
        return PulsarPlace(Options(self.service_url, self.admin_url, "", name="main"))

    @property
    def full(self) -> str:
        return f"persistent://public/default/{self.name}"

    def send(self, first: int, count: int) -> list[list[Sent]]:
        """What each partition has, in order: binary events in Pulsar's names, with a key, without one, and
        with a null value.
        """
        client = plain_client(self.service_url)
        sent: list[list[Sent]] = []
        for number in range(PARTITIONS):
            producer = client.create_producer(
                f"{self.full}-partition-{number}", batching_enabled=False
            )
            sent.append([])
            for n in range(first, first + count):
                key = None if n % 5 == 0 else f"k\u00e9{n}"
                properties = {
                    "CE-SpecVersion": "1.0", "CE-Id": f"{number}-{n}", "CE-Source": "/shop", "CE-Type": "t",
                    "CE-ContentType": "application/json", "x": "f\u00f6reign",
                }  # fmt: skip
                body = None if n % 7 == 0 else b'{"n":%d}' % n
                producer.send(body, properties=properties, partition_key=key)
                headers = tuple((k, v.encode()) for k, v in sorted(properties.items()))
                sent[number].append((key, body, headers))
            producer.close()
        client.close()
        return sent


@pytest.fixture
def topic(pulsar: tuple[str, str]) -> Topic:
    service_url, admin_url = pulsar
    made = Topic(service_url, admin_url, f"s-{uuid4().hex[:8]}")
    path = f"{admin_url}/admin/v2/persistent/public/default/{made.name}/partitions"
    with httpx.Client(trust_env=False, timeout=60) as http:
        http.put(path, json=PARTITIONS).raise_for_status()
    return made


def contents(frame: DataFrame) -> list[list[Sent]]:
    """Of each partition, in the order of their offsets, which no two share."""
    rows = [
        row.asDict(recursive=True)
        for row in frame.select("partition", "offset", "key", "value", "headers").collect()
    ]
    found: list[list[Sent]] = []
    for number in range(PARTITIONS):
        mine = sorted((row for row in rows if row["partition"] == number), key=_offset)
        assert len({row["offset"] for row in mine}) == len(mine)
        found.append([_sent(row) for row in mine])
    return found


def _offset(row: dict[str, Any]) -> int:
    return int(row["offset"])


def _sent(row: dict[str, Any]) -> Sent:
    key, value = row["key"], row["value"]
    headers = tuple(sorted((each["key"], bytes(each["value"])) for each in row["headers"]))
    return (
        None if key is None else bytes(key).decode(),
        None if value is None else bytes(value),
        headers,
    )


def test_an_offset_is_a_message_id() -> None:
    """The number that the bridge gives a position, and back; ids in order are numbers in order."""
    ids = [
        (0, 0, -1),
        (0, 0, 0),
        (0, 1, -1),
        (7, 49_999, 4_000),
        (7, 50_000, -1),
        (2**31 - 1, 3, 2),
    ]
    numbers = [offset_of(*each) for each in ids]
    assert numbers == sorted(set(numbers)) == [Position(*each).offset for each in ids]
    assert [message_id(number) for number in numbers] == [MessageIdParts(*each) for each in ids]
    for too_far in ((0, 2**20, -1), (0, 0, 4095), (2**31, 0, -1)):
        with pytest.raises(OverflowError, match="has no number"):
            offset_of(*too_far)


def test_workers_import_little() -> None:
    """Each Python worker of Spark imports what reads: no configuration, web client or driver of ours."""
    program = (
        "import sys, app.spark.pulsar.datasource; import app.bindings.pulsar_properties;"
        "print(*(n for n, there in sys.modules.items() if there and n.startswith(('app.config', 'app.brokers', 'app.runtime',"
        " 'httpx', 'pydantic', 'sqlalchemy', 'fastapi', 'pulsar.', 'pyarrow'))))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert told.stdout.split() == []


def test_options_that_are_wrong_are_told() -> None:
    from app.spark.pulsar.options import parse_offsets, parse_options

    with pytest.raises(ValueError, match=r"option broker is .rabbitmq.*mirrored"):
        parse_options({"broker": "rabbitmq"})
    with pytest.raises(
        ValueError, match="the options of this source: service_url, admin_url, topics"
    ):
        parse_options({"broker": "pulsar", "service_url": "pulsar://x"})
    with pytest.raises(ValueError, match="topics that are not read: persistent://public/default/b"):
        parse_offsets('{"b": {"0": 1}}', ["persistent://public/default/a"], "public/default")


def test_security_of_the_configuration_reaches_the_source(tmp_path: Path) -> None:
    """Through Spark's options, which are texts, and back."""
    from app.spark.pulsar.options import as_spark_options, parse_options

    files = {name: str(tmp_path / name) for name in ("ca", "cert", "key")}
    secure = {
        "kind": "pulsar", "service_url": "pulsar+ssl://a:6651,b:6651", "admin_url": "https://a:8443",
        "namespace": "shop/eu", "security": {"tls": {**files, "verify_host": False}, "token": "t0ken"},
    }  # fmt: skip
    routes = [{"name": "all", "to": {"broker": "main", "topic": "orders"}}]
    config = Config.model_validate({"version": 1, "brokers": {"main": secure}, "routes": routes})
    place = archived_place(config)
    assert isinstance(place, PulsarPlace)
    topics = archived_topics(config, "main")
    assert topics == ("persistent://shop/eu/orders",)
    found = parse_options(as_spark_options(place.cluster, topics, startingOffsets="latest"))
    assert found.full_topics() == list(topics)
    assert (found.name, found.token, found.tls_verify_host) == ("main", "t0ken", False)
    assert (found.tls_ca, found.tls_certificate, found.tls_key) == tuple(files.values())
    assert "t0ken" not in repr(place)
    assert (found.startingoffsets, found.endingoffsets) == ("latest", "latest")


def test_a_batch_has_what_was_published(spark: SparkSession, topic: Topic) -> None:
    """Keys, values, null ones too, and properties; messages of a batch of the client, each for itself."""
    sent = topic.send(0, 20)
    frame = source.records(spark, topic.place, [topic.full]).cache()
    assert frame.columns == column_names(RAW)
    assert contents(frame) == sent
    assert {(row[0], row[1]) for row in frame.select("broker", "topic").distinct().collect()} == {
        ("main", topic.full)
    }
    age = "max(abs(unix_seconds(current_timestamp()) - unix_seconds(record_time))) AS age"
    assert frame.selectExpr(age).first()["age"] < 3600
    ends = dict(frame.groupBy("partition").agg({"offset": "max"}).collect())
    frame.unpersist()

    send_batch(topic.service_url, f"{topic.full}-partition-0", 50)
    start = {topic.full: {n: last + 1 for n, last in ends.items()}}
    more = source.records(spark, topic.place, [topic.full], start).sort("offset").collect()
    assert [bytes(row["value"]) for row in more] == [b"%d" % n for n in range(50)]
    middle = {topic.full: {0: more[10]["offset"], 1: start[topic.full][1]}}
    end = {topic.full: {0: more[30]["offset"]}}
    part = source.records(spark, topic.place, [topic.full], middle, end).sort("offset").collect()
    assert [row["offset"] for row in part] == [row["offset"] for row in more[10:30]]


def test_a_stream_goes_on_where_it_was(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """From a checkpoint nothing is read twice and nothing is lost: what was there, what came while it was
    down, and a batch that was begun and not finished, which has the same messages again.
    """
    first = topic.send(0, 15)
    spark.dataSource.register(CloudEventsSource)
    spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
    options = as_spark_options(topic.place.cluster, [topic.full])

    def once() -> None:
        frame = spark.readStream.format(source.PULSAR_FORMAT).options(**options).load()
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        query.awaitTermination()

    once()
    assert contents(_read(spark, tmp_path)) == first
    second = topic.send(100, 15)
    once()
    both = [one + other for one, other in zip(first, second, strict=True)]
    assert contents(_read(spark, tmp_path)) == both

    (
        tmp_path / "checkpoint" / "commits" / "1"
    ).unlink()  # as a kill before the end of the batch leaves it
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    (tmp_path / "rows" / "_spark_metadata" / "1").unlink()
    (tmp_path / "rows" / "_spark_metadata" / ".1.crc").unlink(missing_ok=True)
    third = topic.send(200, 5)
    once()
    every = [one + other for one, other in zip(both, third, strict=True)]
    assert contents(_read(spark, tmp_path)) == every


def _read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.read.parquet(str(folder / "rows"))


@pytest.fixture
def config(topic: Topic) -> Config:
    text = {
        "version": 1,
        "brokers": {
            "main": {
                "kind": "pulsar", "service_url": topic.service_url, "admin_url": topic.admin_url,
            },
        },
        "routes": [{"name": "all", "to": {"broker": "main", "topic": topic.name}}],
    }  # fmt: skip
    return Config.model_validate(text)


@pytest.mark.nightly
def test_archive_from_pulsar(
    spark: SparkSession, topic: Topic, config: Config, tmp_path: Path
) -> None:
    """Every message is in ``events_raw`` as it was, every event once in ``events``, by the names of Pulsar's
    binding; a second run brings what came since, and nothing twice.
    """
    lake = lake_in(tmp_path / "lake")
    session = session_of(lake)
    place = archived_place(config)
    plan = ArchivePlan(
        place=place,
        topics=archived_topics(config, place.broker),
        at_once=40,  # two ranges
    )
    sent = topic.send(0, 20)
    again = topic.send(10, 10)  # ids that are there already
    whole = [one + other for one, other in zip(sent, again, strict=True)]
    found = run.once(session, lake, plan)
    assert (found.copied, found.events, found.duplicates, found.quarantined) == (60, 40, 20, 0)
    raw = session.table(lake.table(tables.RAW_TABLE))
    assert contents(raw) == whole

    late = topic.send(100, 3)
    found = run.once(session, lake, plan)
    assert (found.copied, found.events, found.duplicates, found.quarantined) == (6, 6, 0, 0)
    whole = [one + other for one, other in zip(whole, late, strict=True)]
    assert contents(session.table(lake.table(tables.RAW_TABLE))) == whole
    events = session.table(lake.table(tables.EVENTS_TABLE))
    ids = {(row["id"], row["source"], row["data"]) for row in events.collect()}
    numbers = [*range(20), *range(100, 103)]
    assert ids == {
        (
            f"{part}-{n}",
            "/shop",
            None if n % 7 == 0 else json.dumps({"n": n}, separators=(",", ":")),
        )
        for part in range(PARTITIONS)
        for n in numbers
    }
    assert {row["content_mode"] for row in events.collect()} == {"binary"}


def test_a_topic_that_is_not_there_is_told(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    lake = lake_in(tmp_path / "lake")
    plan = ArchivePlan(
        place=topic.place,
        topics=("persistent://public/default/nowhere",),
    )
    with pytest.raises(SetupError, match="main has no topic persistent://public/default/nowhere"):
        run.once(session_of(lake), lake, plan)
