"""Every verb of the pipeline as whoever operates it asks for it: its words, a configuration file, a real Kafka.

A process with Spark costs the start of a JVM: the verbs run here, in the Spark of the run. `test_query.py` runs `query` as a
process, `test_kills.py` the archive. All of them are processes nightly.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

import spark_install
from app.cli import exits
from app.cli.commands import app as cli
from lake_events import make_topic, produce
from replay_records import by_key, stored_records
from spark_session import JVM, SPARK_CONFIG, spark_settings
from spark_submit_jvm import submitted_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka]

SKYBRIDGE = Path(sys.executable).with_name("skybridge")
COUNT, SECRETS = 300, 10
VERBS = ("archive", "query", "report", "redrive", "replay", "reroute", "maintain", "erase")

CONFIG = (
    """
version: 1
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  main: {{kind: kafka, bootstrap_servers: "{kafka}"}}
routes:
  - {{name: all, to: {{broker: main, topic: {topic}.routed}}, content_mode: as_received}}
pipeline:
  lake: {{warehouse: "{folder}/lake", buckets: 2}}
  archive: {{topics: [{topic}]}}
"""
    + SPARK_CONFIG
)


class House:
    """A topic, a configuration that archives it, and the verbs.

    ``environ``: what these find beside it. ``apart``: verbs that are processes.
    """

    def __init__(self, kafka: str, folder: Path, apart: Collection[str]) -> None:
        self.kafka, self.folder, self.apart = kafka, folder, apart
        self.environ: Mapping[str, str] = {}
        self.topic = f"v-{uuid4().hex[:8]}"
        for name in (self.topic, f"{self.topic}.again", f"{self.topic}.routed"):
            make_topic(kafka, name, 2)
        jars = ",".join(map(str, spark_install.install()))
        self.file = folder / "skybridge.yaml"
        values = {"folder": folder, "kafka": kafka, "topic": self.topic, "jars": jars, "jvm": JVM}
        self.file.write_text(CONFIG.format(**values))

    def do(self, verb: str, *words: str) -> str:
        """What the verb printed."""
        every = ("pipeline", verb, *words, "--config", str(self.file))
        return self._process(every) if verb in self.apart else run_here(*every)

    def tell(self, *words: str) -> Any:
        """Of a verb that prints one JSON document."""
        [line] = self.do(*words).splitlines()
        return json.loads(line)

    def _process(self, words: Sequence[str]) -> str:
        done = subprocess.run(
            [str(SKYBRIDGE), *words],
            capture_output=True, text=True, check=False, timeout=600, cwd=self.folder,
            stdin=subprocess.DEVNULL, env={**os.environ, **self.environ, "TERM": "dumb", "COLUMNS": "200"},
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


def run_here(*words: str, answer: str = "", code: int = exits.OK) -> str:
    """What the verb printed, in the Spark of this process, which it does not end. ``answer``: to its question."""
    from pyspark.sql import SparkSession

    with mock.patch.object(SparkSession, "stop"):
        found = CliRunner().invoke(cli, words, input=answer, env={"TERM": "dumb", "COLUMNS": "200"})
    assert found.exit_code == code, f"{words}: {found.output}{found.exception!r}"
    return found.stdout


def test_verbs_do_their_part(kafka: str, tmp_path: Path, spark: SparkSession) -> None:
    """Issue 8: one after the other on one lake, with the counts of whoever sent the events."""
    assert spark is not None  # the verbs find it
    do_most(House(kafka, tmp_path, ()))


@pytest.mark.nightly
def test_every_verb_does_its_part_in_a_process_of_its_own(kafka: str, tmp_path: Path) -> None:
    """They are given a JVM, as by ``spark-submit``."""
    house = House(kafka, tmp_path, VERBS)
    with submitted_jvm(tmp_path, spark_settings(tmp_path)) as house.environ:
        records, invalid = do_most(house)
        redrives(house, invalid)
        reroutes(house, records, invalid)


def do_most(house: House) -> tuple[int, int]:
    """What the lake holds in the end: records, and how many of them are invalid."""
    sent = produce(house.kafka, house.topic, COUNT)
    secret = f"customer-{uuid4().hex}"
    named(house.kafka, house.topic, secret)
    records, events = sent.records + SECRETS, len(sent.events) + SECRETS
    assert house.tell("archive", "--once", "--json") == {
        "copied": records,
        "events": events,
        "duplicates": records - events - sent.invalid,
        "quarantined": sent.invalid,
        "unfit": 0,
    }
    counted(house, records, events)
    reports(house)
    replays(house, records)
    keeps(house, secret)
    counted(house, records - SECRETS, events - SECRETS)
    return records - SECRETS, sent.invalid


def counted(house: House, records: int, events: int) -> None:
    sql = "SELECT (SELECT count(*) FROM events) AS e, (SELECT count(*) FROM events_raw) AS r"
    assert house.tell("query", sql, "--format", "json") == {"e": events, "r": records}


def reports(house: House) -> None:
    page = house.folder / "page.html"
    house.do("report", "--out", str(page), "--no-deliveries")
    assert "<html" in page.read_text()


def redrives(house: House, invalid: int) -> None:
    redriven = house.tell("redrive", "--json")
    assert (sum(rule["records"] for rule in redriven["rules"]), redriven["taken"]) == (invalid, 0)


def replays(house: House, records: int) -> None:
    """As many as there are, byte for byte."""
    again = f"{house.topic}.again"
    words = ("--unmarked", "--yes", "--json")
    assert house.tell("replay", "--to", f"main/{again}", *words)["sent"] == records
    theirs = [record for _, record in stored_records(house.kafka, house.topic)]
    assert by_key(record for _, record in stored_records(house.kafka, again)) == by_key(theirs)


def reroutes(house: House, records: int, invalid: int) -> None:
    """All that came to the topic, the erased among them: Kafka has them still."""
    came, routed = records + SECRETS, f"{house.topic}.routed"
    told = house.tell("reroute", "--from", "main", "--topics", house.topic, "--once", "--json")
    assert (told["read"], told["written"]) == (came, came - invalid)
    assert len(stored_records(house.kafka, routed)) == came - invalid


def keeps(house: House, secret: str) -> None:
    kept = house.tell("maintain", "--json")
    assert [each["table"] for each in kept["tables"]] == ["events_raw", "events", "quarantine"]
    erased = house.tell("erase", "--subject", secret, "--yes", "--json")
    assert erased["subject"] == secret
    assert {each["table"]: each["rows"] for each in erased["tables"]} == {
        "events_raw": SECRETS, "quarantine": 0, "events": SECRETS,
    }  # fmt: skip


def named(kafka: str, topic: str, subject: str) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(SECRETS):
        event = {
            "specversion": "1.0",
            "id": f"s{n}",
            "source": "/s",
            "type": "t",
            "subject": subject,
        }
        headers = [(f"ce_{name}", text.encode()) for name, text in event.items()]
        producer.produce(topic, b"{}", b"s", headers=headers)
    assert producer.flush(120) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "either --subject or --source"),
        (["--subject", "a", "--source", "b"], "either --subject or --source"),
        (["--subject", "a"], "no terminal to ask for confirmation"),
    ],
)
def test_an_erasure_that_is_not_clear_is_refused_before_spark_starts(
    words: list[str], told: str
) -> None:
    found = CliRunner().invoke(cli, ["pipeline", "erase", *words])
    assert found.exit_code == exits.SETUP
    assert told in found.output
    assert "--dry-run" in found.output
