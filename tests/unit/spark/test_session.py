"""What Spark is told at its start. It is not started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.spark import jars
from app.spark.session import _settings
from app.spark.settings import SparkEngine

CLASS_PATH, JVM = "spark.driver.extraClassPath", "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def _jars_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "paths", lambda _engine: [Path("/jars/a.jar"), Path("/jars/b.jar")])
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


def told(master: str = "local[*]", *, brief: bool = False, **conf: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in conf.items()}
    return _settings(SparkEngine(master=master, conf=named), "test", brief=brief)


def test_jars_stand_on_the_class_path_of_this_machine_and_are_sent_to_another() -> None:
    assert told()[CLASS_PATH] == "/jars/a.jar:/jars/b.jar"
    assert "spark.jars" not in told()
    assert told("spark://h:7077")["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert CLASS_PATH not in told("spark://h:7077")


def test_jars_of_the_operator_stay_beside_ours_or_take_their_place() -> None:
    beside = told(spark_driver_extraClassPath="/own.jar")
    assert beside[CLASS_PATH] == "/jars/a.jar:/jars/b.jar:/own.jar"
    instead = told(spark_jars="/own.jar")
    assert (instead["spark.jars"], CLASS_PATH in instead) == ("/own.jar", False)


def test_extra_jars_are_added_wherever_the_others_come_from() -> None:
    extra = {"extra_jars": ("/x.jar",)}
    here = _settings(SparkEngine(**extra), "test", brief=False)
    assert here[CLASS_PATH] == "/jars/a.jar:/jars/b.jar:/x.jar"
    sent = _settings(SparkEngine("spark://h:7077", **extra), "test", brief=False)
    assert sent["spark.jars"] == "/jars/a.jar,/jars/b.jar,/x.jar"
    own = SparkEngine(conf={"spark.jars": "/own.jar"}, **extra)
    assert _settings(own, "test", brief=False)["spark.jars"] == "/own.jar,/x.jar"


def test_one_piece_of_work_does_without_the_second_compiler() -> None:
    """Unless the operator says otherwise: Java obeys the last word."""
    assert told(brief=True)[JVM] == "-XX:TieredStopAtLevel=1"
    assert JVM not in told()
    assert JVM not in told("spark://h:7077", brief=True)
    own = told(brief=True, spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=4 -Dx=y")
    assert own[JVM] == "-XX:TieredStopAtLevel=1 -XX:TieredStopAtLevel=4 -Dx=y"


def test_a_long_job_keeps_the_heap_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the operator has chosen a garbage collector: Java refuses two."""
    default = "spark.driver.defaultJavaOptions"
    assert told()[default].startswith("-XX:+UseSerialGC ")
    assert default not in told(brief=True)
    assert default not in told("spark://h:7077")
    assert told(spark_driver_defaultJavaOptions="-Dx=y")[default].endswith(
        "MaxHeapFreeRatio=30 -Dx=y"
    )
    assert told(spark_driver_extraJavaOptions="-XX:+UseG1GC")[default] == ""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseZGC")
    assert told(spark_driver_defaultJavaOptions="-Dx=y")[default] == "-Dx=y"


def test_a_jvm_that_runs_already_is_told_nothing_of_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    settings = told(brief=True)
    assert not {CLASS_PATH, JVM, "spark.jars", "spark.driver.memory"} & settings.keys()
