"""A lake in S3 with a catalog in PostgreSQL, by the commands as an operator runs them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
import yaml
from confluent_kafka import Producer
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog as RestClient
from pyiceberg.catalog.sql import SqlCatalog

from kafka_install import Missing
from lake_events import Produced, make_topic, produce
from lake_folders import holding
from pages import CHECKOUT, section
from rest_catalog import RestCatalog
from s3_server import S3Server
from server_process import ServerProcess
from skipping import skip_or_fail
from spark_cluster import running_cluster
from spark_session import JVM
from waiting import wait_until

PAGE = CHECKOUT / "docs" / "guides" / "pipeline-storage.md"
PERSON = "customer-4711"

Server = TypeVar("Server", bound=ServerProcess)

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.nightly,  # a JVM for each command
    pytest.mark.fault,
    pytest.mark.timeout(1800),
]


@contextlib.contextmanager
def _running(server: Server) -> Iterator[Server]:
    try:
        server.start()
    except Missing as missing:
        skip_or_fail(missing)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with _running(S3Server()) as server:
        yield server


class House:
    """A topic, and a configuration of the page that archives it into S3.

    Attributes:
        s3: The store.
        topic: The topic.
    """

    def __init__(
        self,
        kafka: str,
        s3: S3Server,
        folder: Path,
        heading: str,
        catalog: Mapping[str, str],
        properties: Mapping[str, str],
        client: Catalog,
    ) -> None:
        self.s3, self.folder, self._client = s3, folder, client
        self.topic = f"s-{uuid4().hex[:8]}"
        make_topic(kafka, self.topic)
        (block,) = section(PAGE, heading)
        settings = yaml.safe_load(block.text)
        settings["brokers"]["main"]["bootstrap_servers"] = kafka
        pipeline = settings["pipeline"]
        pipeline["lake"]["buckets"] = 2
        pipeline["lake"]["catalog"].update(catalog)
        pipeline["lake"]["catalog"]["properties"].update(properties)
        pipeline["archive"] = {"topics": [self.topic], "trigger": "2s"}
        conf = {"spark.driver.extraJavaOptions": JVM, "spark.sql.shuffle.partitions": "2"}
        pipeline["spark"] = {"master": "local[2]", "memory": "1g", "conf": conf}
        self.settings = settings
        self.file = folder / "skybridge.yaml"
        self.file.write_text(json.dumps(settings))

    def use_cluster(self, url: str) -> None:
        """Run the commands as drivers of a cluster."""
        spark = self.settings["pipeline"]["spark"]
        spark["master"] = url
        spark["conf"] |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        self.file.write_text(json.dumps(self.settings))

    def command(self, *words: str) -> list[str]:
        skybridge = str(Path(sys.executable).with_name("skybridge"))
        return [skybridge, "pipeline", *words, "--config", str(self.file)]

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, timeout=900,
            cwd=self.folder,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "300", "PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip
        assert done.returncode == code, f"{done.stdout}{done.stderr}"
        return done

    @contextlib.contextmanager
    def following(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the archive in a process group of its own, and kill what is left of it."""
        log = self.folder / "archive.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.command("archive"), stdout=out, stderr=out, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        except BaseException:
            print(log.read_text()[-4000:])
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)

    def rows(self, table: str, columns: tuple[str, ...]) -> Any:
        found = self._client.load_table(f"skybridge.{table}").scan(selected_fields=columns)
        return found.to_arrow()

    def count(self, table: str) -> int:
        return int(self.rows(table, ("offset",)).num_rows)

    def check(self, sent: Produced) -> None:
        """Each record is in the lake once, and each event once."""
        raw = self.rows("events_raw", ("partition", "offset"))
        assert raw.num_rows == sent.records
        assert raw.group_by(["partition", "offset"]).aggregate([]).num_rows == sent.records
        events = self.rows("events", ("source", "id"))
        names = zip(events["source"].to_pylist(), events["id"].to_pylist(), strict=True)
        assert events.num_rows == len(sent.events)
        assert set(names) == sent.events
        assert self.count("quarantine") == sent.invalid


@pytest.fixture
def house(kafka: str, s3: S3Server, postgres: str, tmp_path: Path) -> Iterator[House]:
    """A lake with its catalog in a database of PostgreSQL. A schema does not suffice, because Iceberg
    looks for its tables in all schemas.
    """
    name = f"lake_{uuid4().hex[:8]}"
    place = urlsplit(postgres)
    uri = f"jdbc:postgresql://{place.hostname}:{place.port}/{name}"
    login = {"jdbc.user": place.username or "", "jdbc.password": place.password or "unused"}
    of_python = place._replace(scheme="postgresql+psycopg", path=f"/{name}").geturl()
    client = SqlCatalog("lake", uri=of_python, init_catalog_tables="false", **s3.properties)
    properties = {**s3.properties, **login}
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        try:
            yield House(kafka, s3, tmp_path, "S3 with PostgreSQL", {"uri": uri}, properties, client)
        finally:
            client.engine.dispose()
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture
def rest_house(kafka: str, s3: S3Server, tmp_path: Path) -> Iterator[House]:
    """A lake with a REST catalog, which alone knows the keys of the store."""
    with _running(RestCatalog(s3)) as rest:
        place = {"s3.endpoint": s3.endpoint}
        heading = "REST, with credentials that the catalog issues"
        client = RestClient("lake", uri=rest.uri, **place)
        yield House(kafka, s3, tmp_path, heading, {"uri": rest.uri}, place, client)


def send_for(kafka: str, topic: str, subject: str, count: int) -> None:
    """Send events of one subject, and records that are none but name it."""
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(count):
        headers: list[tuple[str, str | bytes | None]] = [("ce_specversion", b"1.0"), ("ce_id", f"{subject}-{n}".encode()), ("ce_type", b"t"),
                   ("ce_subject", subject.encode())]  # fmt: skip
        if n % 10:
            headers.append(("ce_source", b"/shop"))
        producer.produce(topic, key=subject.encode(), value=b"{}", headers=headers)
    assert producer.flush(60) == 0


def test_erased_bytes_are_in_no_object(house: House, kafka: str) -> None:
    """The commands one after another: archive, erase that fails, erase, maintain."""
    sent = produce(kafka, house.topic, 300)
    send_for(kafka, house.topic, PERSON, 100)
    told = json.loads(house.run("archive", "--once", "--json").stdout)
    assert told["copied"] == sent.records + 100
    lake = house.s3.bucket / "lake"
    assert holding(lake, PERSON)
    preview = json.loads(house.run("erase", "--subject", PERSON, "--dry-run", "--json").stdout)
    assert {each["table"]: each["rows"] for each in preview["tables"]} == {
        "events_raw": 100, "quarantine": 10, "events": 90,
    }  # fmt: skip
    house.run("erase", "--subject", PERSON, "--yes", "--json")
    assert not holding(lake, PERSON)
    house.run("maintain", "--json")
    house.run("erase", "--subject", PERSON, "--yes", "--json")
    again = json.loads(house.run("archive", "--once", "--json").stdout)
    assert again["copied"] == again["events"] == 0
    house.check(sent)


def test_each_record_once_while_the_store_freezes_and_dies(house: House, kafka: str) -> None:
    """Frozen for 40 s, dead for 25 s, and the archive killed and started again."""
    sent = produce(kafka, house.topic, 2_000)

    def fill(seed: int) -> None:
        more = produce(kafka, house.topic, 2_000, seed=seed)
        sent.records += more.records
        sent.invalid += more.invalid
        sent.events |= more.events

    with house.following():
        wait_until(lambda: has(house, "events", 1), "the first events", 300)
        house.s3.pause()
        fill(2)
        time.sleep(40)  # the fault itself
        house.s3.resume()
    with house.following():
        fill(3)
        wait_until(lambda: has(house, "events_raw", 5_000), "records after the freeze", 300)
        house.s3.kill()
        fill(4)
        time.sleep(25)  # the fault itself
        house.s3.start()
    house.run("archive", "--once", "--json")
    house.check(sent)


def has(house: House, table: str, count: int) -> bool:
    try:
        return house.count(table) >= count
    except Exception:  # noqa: BLE001 - the table is not there yet
        return False


def test_two_workers_write_to_the_store(
    house: House, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The jars come to the executors, and the checkpoint stays with the driver."""
    sent = produce(kafka, house.topic, 400)
    send_for(kafka, house.topic, PERSON, 50)
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        house.use_cluster(cluster.url)
        house.run("archive", "--once", "--json")
        house.run("erase", "--subject", PERSON, "--yes", "--json")
    assert not holding(house.s3.bucket / "lake", PERSON)
    house.check(sent)


def test_a_killed_driver_is_followed_within_30_seconds(house: House, kafka: str) -> None:
    sent = produce(kafka, house.topic, 200)
    with house.following():
        wait_until(lambda: has(house, "quarantine", 1), "the first range", 300)
    done = house.run("archive", "--once", "--json")
    assert "takes over at" in done.stderr
    assert "in 25 seconds" in done.stderr
    house.check(sent)


def test_a_second_archive_ends_with_the_name_of_the_first(house: House, kafka: str) -> None:
    produce(kafka, house.topic, 200)
    with house.following() as first:
        wait_until(lambda: has(house, "quarantine", 1), "the first range", 300)
        done = house.run("archive", "--once", code=2)
        assert "is being written by" in done.stderr
        assert first.poll() is None
        first.send_signal(signal.SIGTERM)
        assert first.wait(120) == 0


def test_a_catalog_issues_the_credentials(rest_house: House, kafka: str) -> None:
    """Archive, query by DuckDB, erase, and the lease that a REST catalog guards."""
    sent = produce(kafka, rest_house.topic, 200)
    send_for(kafka, rest_house.topic, PERSON, 100)
    rest_house.run("archive", "--once", "--json")
    asked = rest_house.run("query", "SELECT count(*) AS n FROM events", "--format", "json").stdout
    assert json.loads(asked.splitlines()[0])["n"] == len(sent.events) + 90
    rest_house.run("erase", "--subject", PERSON, "--yes", "--json")
    assert not holding(rest_house.s3.bucket / "rest", PERSON)
    rest_house.run("maintain", "--json")
    rest_house.check(sent)


@pytest.mark.parametrize("kills", [int(os.environ.get("SKYBRIDGE_KILLS", "10"))])
def test_each_record_once_through_ten_kills(house: House, kafka: str, kills: int) -> None:
    """The driver dies at moments that a clock chooses; PyIceberg counts."""
    sent = Produced()
    stop = threading.Event()

    def fill() -> None:
        seed = 100
        while not stop.is_set():
            more = produce(kafka, house.topic, 500, seed=seed)
            sent.records += more.records
            sent.invalid += more.invalid
            sent.events |= more.events
            seed += 1
            stop.wait(1)

    filling = threading.Thread(target=fill)
    filling.start()
    try:
        for n in range(kills):
            before = house.count("events_raw") if n else 0
            with house.following():
                wait_until(
                    partial(has, house, "events_raw", before + 1), "records of this life", 300
                )
                time.sleep(n * 0.7)  # the moment of the kill
    finally:
        stop.set()
        filling.join(60)
    house.run("archive", "--once", "--json")
    house.check(sent)
