"""The archive on a real cluster of a master and two workers, each a process: the counts are those of one machine
(issue 8 point 8).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import spark_install
from kafka_install import Missing
from lake_events import Produced, make_topic, produce
from spark_cluster import SparkCluster, running_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

COUNT = 1_000
CONFIG = """
version: 1
brokers:
  main: {{kind: kafka, bootstrap_servers: "{kafka}"}}
pipeline:
  lake: {{warehouse: "{folder}/lake", buckets: 2}}
  archive: {{topics: [{topic}]}}
  spark:
    master: "{master}"
    memory: 1g
    conf:
      spark.jars: "{jars}"
      spark.driver.host: 127.0.0.1
      spark.driver.bindAddress: 127.0.0.1
      spark.driver.extraJavaOptions: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
      spark.executor.extraJavaOptions: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
      spark.executor.memory: 512m
      spark.executor.cores: "1"
      spark.sql.shuffle.partitions: "2"
      spark.local.dir: "{folder}/scratch"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    try:
        spark_install.install()
    except Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


class House:
    """A topic of four partitions, and a configuration that archives it through a cluster."""

    def __init__(self, kafka: str, folder: Path, master: str) -> None:
        self.folder, self.topic = folder, f"c-{uuid4().hex[:8]}"
        make_topic(kafka, self.topic)
        self.sent: Produced = produce(kafka, self.topic, COUNT)
        self.jars = ",".join(map(str, spark_install.install()))
        self.file = folder / "skybridge.yaml"
        values = {"folder": folder, "kafka": kafka, "topic": self.topic, "jars": self.jars}
        self.file.write_text(CONFIG.format(**values, master=master))

    def run(self, *command: str) -> dict[str, Any]:
        done = subprocess.run(
            [*command, "pipeline", "archive", "--once", "--json", "--config", str(self.file)],
            capture_output=True, text=True, check=False, timeout=600, cwd=self.folder,
            stdin=subprocess.DEVNULL, env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told

    def check(self, told: dict[str, Any]) -> None:
        """Against whoever sent the records, by a reader that is not Spark."""
        sent, events = self.sent, len(self.sent.events)
        duplicates = sent.records - events - sent.invalid
        assert told == {
            "copied": sent.records,
            "events": events,
            "duplicates": duplicates,
            "quarantined": sent.invalid,
            "unfit": 0,
        }
        place = self.folder / "lake"
        uri = f"sqlite:///{place}/catalog.db"
        catalog = SqlCatalog("lake", uri=uri, warehouse=place.as_uri())
        rows = {
            name: catalog.load_table(f"skybridge.{name}").scan().to_arrow()
            for name in ("events_raw", "events", "quarantine")
        }
        offsets = set(
            zip(
                *(rows["events_raw"][name].to_pylist() for name in ("partition", "offset")),
                strict=True,
            )
        )
        assert len(offsets) == rows["events_raw"].num_rows == sent.records
        found = zip(
            rows["events"]["source"].to_pylist(), rows["events"]["id"].to_pylist(), strict=True
        )
        assert set(found) == sent.events
        assert (rows["events"].num_rows, rows["quarantine"].num_rows) == (events, sent.invalid)


def test_archive_through_a_cluster(cluster: SparkCluster, kafka: str, tmp_path: Path) -> None:
    """The verb is the driver; executors of both workers read Kafka, decode, and write."""
    house = House(kafka, tmp_path, cluster.url)
    before = [len(each) for each in cluster.executors()]
    skybridge = str(Path(sys.executable).with_name("skybridge"))
    house.check(house.run(skybridge))
    assert all(len(now) > then for now, then in zip(cluster.executors(), before, strict=True))
    state = cluster.state()
    assert state is not None
    assert "skybridge archive" in [each["name"] for each in state["completedapps"]]


def test_archive_by_spark_submit(cluster: SparkCluster, kafka: str, tmp_path: Path) -> None:
    """``spark.master: ""``: the program is given to spark-submit, whose options count."""
    import pyspark

    import app

    house = House(kafka, tmp_path, "")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = {
        "master": cluster.url,
        "driver-memory": "1g",
        "executor-memory": "512m",
        "jars": house.jars,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    house.check(house.run(str(submit), *words, str(Path(app.__file__).with_name("__main__.py"))))
