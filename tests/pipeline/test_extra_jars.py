"""The jars that a configuration needs are added to those of Skybridge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from typer.testing import CliRunner

import spark_install
from app.cli.commands import app as cli
from app.errors import SetupError
from kafka_install import Missing
from lake_events import make_topic, produce
from postgres_server import fresh_database
from spark_session import JVM

CONFIG = """
version: 1
brokers: {{main: {{kind: kafka, bootstrap_servers: "{kafka}"}}}}
pipeline:
  lake: {{warehouse: "{folder}/lake", buckets: 2, catalog: {catalog}}}
  archive: {{topics: [{topic}]}}
  spark:
    master: "local[2]"
    memory: 1g
    extra_jars: ["{folder}/own.jar"]
    conf: {{spark.driver.extraJavaOptions: "{jvm}"}}
"""

pytestmark = [pytest.mark.kafka]


def test_a_missing_jar_is_named_before_spark_starts(tmp_path: Path) -> None:
    values = {"kafka": "127.0.0.1:1", "topic": "t", "catalog": "{}", "jvm": "", "folder": tmp_path}
    file = tmp_path / "skybridge.yaml"
    file.write_text(CONFIG.format(**values))
    done = CliRunner().invoke(cli, ["pipeline", "archive", "--once", "--config", str(file)])
    assert isinstance(done.exception, SetupError)
    assert done.exception.setting == "pipeline.spark.extra_jars"
    assert "own.jar" in str(done.exception)


@pytest.mark.nightly  # a JVM of its own
def test_a_catalog_in_postgresql_needs_no_jar_of_the_operator(
    kafka: str, postgres: str, tmp_path: Path
) -> None:
    """Skybridge brings the driver; a jar of the operator does not take the place of the others."""
    try:
        spark_install.install()
    except Missing as missing:
        pytest.skip(str(missing))
    with zipfile.ZipFile(tmp_path / "own.jar", "w") as own:
        own.writestr("own.txt", "")
    dsn, _, schema = fresh_database(postgres).partition("?options=-csearch_path%3D")
    place = urlsplit(dsn)
    uri = f"jdbc:postgresql://{place.hostname}:{place.port}{place.path}?currentSchema={schema}"
    properties = {"jdbc.user": place.username, "jdbc.password": place.password or "unused"}
    topic = f"x-{uuid4().hex[:8]}"
    make_topic(kafka, topic, 2)
    sent = produce(kafka, topic, 200)
    file = tmp_path / "skybridge.yaml"
    catalog = json.dumps({"uri": uri, "properties": properties})
    values = {"kafka": kafka, "topic": topic, "catalog": catalog, "jvm": JVM, "folder": tmp_path}
    file.write_text(CONFIG.format(**values))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("skybridge")), "pipeline", "archive", "--once", "--json",
         "--config", str(file)],
        capture_output=True, text=True, check=False, timeout=500, cwd=tmp_path, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["events"] == len(sent.events)
