"""A lake in an S3 server, filled and emptied by the commands as an operator runs them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from pyiceberg.catalog import Catalog

from lake_events import Produced, make_topic, produce
from pages import CHECKOUT, section
from s3_server import S3Server
from spark_session import JVM

PAGE = CHECKOUT / "docs" / "guides" / "pipeline-storage.md"
TYPE, TABLE = "com.example.shop", "shop"
SCHEMA = {
    "properties": {
        "n": {"type": "number", "multipleOf": 1, "minimum": 0, "maximum": 99},
        "pad": {"type": "string"},
    }
}
"""The schema of the typed table: numbers of three digits do not fit."""

UNREACHABLE = 3
"""The exit code of a command whose catalog or storage does not answer."""


class ObjectStoreLake:
    """A topic, and a configuration of the page that archives it into S3, with a typed table.

    Attributes:
        s3: The store.
        topic: The topic.
        sent: The produced records.
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
        self.s3, self.folder, self.kafka, self._client = s3, folder, kafka, client
        self.topic, self.sent, self._seed = f"s-{uuid4().hex[:8]}", Produced(), 0
        make_topic(kafka, self.topic)
        (block,) = section(PAGE, heading)
        settings = yaml.safe_load(block.text)
        settings["brokers"]["main"]["bootstrap_servers"] = kafka
        pipeline = settings["pipeline"]
        pipeline["lake"]["buckets"] = 2
        pipeline["lake"]["catalog"].update(catalog)
        pipeline["lake"]["catalog"]["properties"].update(properties)
        pipeline["archive"] = {"topics": [self.topic], "trigger": "2s"}
        schema = folder / "shop.json"
        schema.write_text(json.dumps(SCHEMA))
        pipeline["tables"] = [{"type": TYPE, "schema": str(schema), "table": TABLE}]
        conf = {"spark.driver.extraJavaOptions": JVM, "spark.sql.shuffle.partitions": "2"}
        pipeline["spark"] = {"master": "local[2]", "memory": "1g", "conf": conf}
        self.settings = settings
        self.file = folder / "skybridge.yaml"
        self.write()

    def write(self) -> None:
        """Write the configuration file."""
        self.file.write_text(json.dumps(self.settings))

    def fill(self, count: int) -> None:
        """Produce records, each time others."""
        self._seed += 1
        more = produce(self.kafka, self.topic, count, seed=self._seed)
        self.sent.records += more.records
        self.sent.invalid += more.invalid
        self.sent.events |= more.events

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
        self.write()

    def command(self, *words: str) -> list[str]:
        skybridge = str(Path(sys.executable).with_name("skybridge"))
        return [skybridge, "pipeline", *words, "--config", str(self.file)]

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, timeout=900,
            cwd=self.folder, env=_environment(),
        )  # fmt: skip
        assert done.returncode == code, f"{done.stdout}{done.stderr}"
        return done

    @property
    def log(self) -> Path:
        """Return the file with the output of the commands that ``running`` started."""
        return self.folder / "commands.log"

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command in a process group of its own, and kill what is left of it."""
        with self.log.open("ab") as out:
            process = subprocess.Popen(
                self.command(*words), stdout=out, stderr=out, cwd=self.folder,
                start_new_session=True, env=_environment(),
            )  # fmt: skip
        try:
            yield process
        except BaseException:
            print(self.log.read_text()[-4000:])
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

    def has(self, table: str, count: int) -> bool:
        """Return True if the table exists and has so many rows."""
        try:
            return self.count(table) >= count
        except Exception:  # noqa: BLE001 - the table does not exist, or the store is away
            return False

    def snapshot(self, table: str) -> int | None:
        """Return the current snapshot of a table; None without one."""
        try:
            return self._client.load_table(f"skybridge.{table}").metadata.current_snapshot_id
        except Exception:  # noqa: BLE001 - the table does not exist, or the store is away
            return None

    def history(self, table: str) -> int:
        """Return the number of snapshots of a table."""
        return len(self._client.load_table(f"skybridge.{table}").metadata.snapshots)

    def lease(self) -> int:
        """Return the number of the archive's lease: each holder has the next one."""
        try:
            found = self._client.load_table("skybridge.leases").properties
        except Exception:  # noqa: BLE001 - the table does not exist yet
            return 0
        return int(json.loads(found.get("skybridge.lease.archive", '{"number": 0}'))["number"])

    def check(self) -> None:
        """Demand each record once, each event once, and each typed row once. PyIceberg reads them."""
        sent = self.sent
        raw = self.rows("events_raw", ("partition", "offset"))
        assert raw.num_rows == sent.records
        assert raw.group_by(["partition", "offset"]).aggregate([]).num_rows == sent.records
        events = self.rows("events", ("source", "id"))
        names = zip(events["source"].to_pylist(), events["id"].to_pylist(), strict=True)
        assert events.num_rows == len(sent.events)
        assert set(names) == sent.events
        verdicts = Counter(self.rows("quarantine", ("verdict",))["verdict"].to_pylist())
        assert sum(n for verdict, n in verdicts.items() if verdict != "unfit") == sent.invalid
        self._check_typed()

    def _check_typed(self) -> None:
        """Demand for each event of the type one typed row, or one row of ``quarantine``."""
        place = ("partition", "offset")
        wanted = {
            (row["partition"], row["offset"]): (row["source"], row["id"], json.loads(row["data"])["n"])
            for row in self.rows("events", (*place, "type", "source", "id", "data")).to_pylist()
            if row["type"] == TYPE
        }  # fmt: skip
        names = ("ce_partition", "ce_offset", "ce_source", "ce_id", "n")
        rows = [tuple(row[name] for name in names) for row in self.rows(TABLE, names).to_pylist()]
        fitting = {at: event for at, event in wanted.items() if event[2] < 100}
        assert len(rows) == len(fitting) > 0
        assert {row[:2]: row[2:] for row in rows} == fitting
        refused = self.rows("quarantine", (*place, "verdict")).to_pylist()
        unfit = [(row["partition"], row["offset"]) for row in refused if row["verdict"] == "unfit"]
        assert sorted(unfit) == sorted(wanted.keys() - fitting.keys())


def _environment() -> dict[str, str]:
    return {**os.environ, "TERM": "dumb", "COLUMNS": "300", "PYSPARK_PYTHON": sys.executable}


def walls(log: str) -> list[str]:
    """Return the lines of an output that belong to a stack of Java or a traceback of Python."""
    marks = ("\tat ", "Traceback (most recent call last)", "JVM stacktrace", 'File "/')
    return [line for line in log.splitlines() if any(each in line for each in marks)]
