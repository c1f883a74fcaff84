"""A catalog, a storage or a class that is missing ends a command with one line, its cure and code 3."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from app.cli import exits
from app.errors import LakeUnavailable
from app.pipeline import tables
from app.pipeline.archive.lock import holding_lock
from app.pipeline.query.opening import open_table
from app.pipeline.settings import Lake
from app.spark.faults import lake_fault
from app.spark.pyspark_adapter import jvm
from app.spark.settings import LakeCatalog
from free_ports import free_ports
from lake_folders import lake_in, session_of
from spark_session import JVM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
version: 1
brokers: {{main: {{kind: kafka, bootstrap_servers: "127.0.0.1:{port}"}}}}
pipeline:
  lake: {{warehouse: "{folder}/lake", catalog: {{kind: rest, uri: "http://127.0.0.1:{port}"}}}}
  archive: {{topics: [orders]}}
  spark: {{master: "local[1]", memory: 512m, conf: {{spark.driver.extraJavaOptions: "{jvm}"}}}}
"""


@pytest.fixture
def away() -> int:
    """Return a port that refuses connections."""
    return free_ports(1)[0]


def fault_of(lake: Lake) -> LakeUnavailable:
    """The error that a command reports when it creates the tables of the lake."""
    with pytest.raises(Exception) as failed:
        tables.make(session_of(lake), lake)
    fault = lake_fault(failed.value)
    assert fault is not None
    assert exits.code_of(fault) == exits.UNREACHABLE
    assert len(str(fault.args[0]).splitlines()) == 1
    assert fault.cure
    return fault


@pytest.mark.usefixtures("spark")
def test_a_catalog_that_does_not_answer(tmp_path: Path, away: int) -> None:
    lake = Lake(LakeCatalog("rest", f"http://127.0.0.1:{away}", tmp_path.as_uri()))
    fault = fault_of(lake)
    assert f"127.0.0.1:{away}" in fault.args[0]
    assert fault.setting == "pipeline.lake.catalog"


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("state", "kind"), [("28P01", "refuses"), ("53300", "refuses"), ("08006", "away")]
)
def test_a_database_that_refuses(spark: SparkSession, state: str, kind: str) -> None:
    """PostgreSQL refuses a login, and a connection beyond its number, by states of their own."""
    error = jvm(spark).java.sql.SQLException("FATAL: no", state)
    fault = lake_fault(SimpleNamespace(java_exception=error))  # type: ignore[arg-type]
    assert fault is not None
    assert ("refuses" in fault.args[0]) is (kind == "refuses")


@pytest.mark.usefixtures("spark")
def test_a_driver_that_is_missing(tmp_path: Path, away: int) -> None:
    """The parameters of the address are not shown, because they may have a password."""
    uri = f"jdbc:nosuch://127.0.0.1:{away}/lake?password=secret"
    fault = fault_of(Lake(LakeCatalog("jdbc", uri, tmp_path.as_uri())))
    assert "jdbc:nosuch" in fault.args[0]
    assert "secret" not in str(fault)


@pytest.mark.usefixtures("spark")
def test_a_storage_whose_class_is_missing(tmp_path: Path) -> None:
    lake = Lake(LakeCatalog("jdbc", f"jdbc:sqlite:{tmp_path}/catalog.db", "nosuch://bucket/lake"))
    assert "nosuch" in fault_of(lake).args[0]


@pytest.mark.usefixtures("spark")
def test_an_error_inside_a_lease_is_not_hidden_by_its_release(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The table with the lease is gone when the lease is released."""
    lake = lake_in(tmp_path)
    session = session_of(lake)
    tables.make(session, lake)
    elsewhere = Lake(LakeCatalog("jdbc", lake.catalog.uri, "s3://not/of/this/machine"))
    with pytest.raises(ValueError, match="the first"), holding_lock(session, elsewhere):
        session.sql(f"DROP TABLE {lake.table(tables.RAW_TABLE)}")
        raise ValueError("the first")


@pytest.mark.parametrize("kind", ["rest", "jdbc"])
def test_a_catalog_that_does_not_answer_without_spark(tmp_path: Path, away: int, kind: str) -> None:
    place = f"127.0.0.1:{away}"
    uri = f"http://{place}" if kind == "rest" else f"jdbc:postgresql://{place}/lake"
    with pytest.raises(LakeUnavailable) as failed:
        open_table(Lake(LakeCatalog(kind, uri, tmp_path.as_uri())), tables.RAW_TABLE)
    assert exits.code_of(failed.value) == exits.UNREACHABLE


@pytest.mark.nightly  # a JVM of its own
def test_a_command_prints_one_line_and_the_cure(tmp_path: Path, away: int) -> None:
    file = tmp_path / "skybridge.yaml"
    file.write_text(CONFIG.format(port=away, folder=tmp_path, jvm=JVM))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("skybridge")), "pipeline", "archive", "--once", "--config", str(file)],
        capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "300"},
    )  # fmt: skip
    assert done.returncode == exits.UNREACHABLE, done.stderr
    assert "\tat " not in done.stderr
    assert "Traceback" not in done.stderr
    error, cure = done.stderr.strip().splitlines()[-2:]
    assert error.startswith("error pipeline.lake.catalog: the catalog does not answer")
    assert cure.startswith("cure")
