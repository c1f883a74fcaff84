"""Spark for a whole test run: one small JVM, on loopback, gone in the end."""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import class_data
import spark_install
from app.pipeline.session import ICEBERG, LOCAL_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BRIEF = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JVM = " ".join((*_BRIEF, *class_data.shared(class_data.SPARK)))
"""Tests end before the second compiler has paid for itself: it took two fifths of their CPU."""

_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Each class that Spark writes and compiles, and each plan that it makes again after a stage, costs more than it saves.
Verbs that are processes compile and plan as an operator's do.
"""

SPARK_CONFIG = """  spark:
    master: "local[2]"
    memory: 1g
    conf:
      spark.jars: "{jars}"
      spark.driver.extraJavaOptions: "{jvm}"
      spark.local.dir: "{folder}/scratch"
      spark.sql.shuffle.partitions: "2"
"""
"""The end of a configuration file, below ``pipeline``; ``jvm`` is JVM."""

_LONGEST_END = 600
"""Seconds: the first JVM of a checkout writes the data of its classes when it ends, minutes on a busy machine."""

LEFT_OPEN = "ignore:unclosed <socket:ResourceWarning"
"""pyspark leaves it to the garbage collector to close the sockets over which rows come."""


def spark_settings(folder: Path) -> Mapping[str, str]:
    """``folder``: for what Spark puts on disk, which would else lie about where the test runs. Raises
    Missing where Java or the jars cannot be had.
    """
    return {
        "spark.master": "local[2]",
        "spark.app.name": "tests",
        "spark.jars": ",".join(map(str, spark_install.install())),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JVM,
        "spark.local.dir": str(folder / "scratch"),
        "spark.log.level": "ERROR",
        **LOCAL_SETTINGS,
        "spark.sql.extensions": ICEBERG,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def running_spark(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Gone at the end. The first one of a checkout leaves the data of its classes."""
    with class_data.recorded(class_data.SPARK) as options:
        jvm = {"spark.driver.extraJavaOptions": " ".join((*_BRIEF, *options))} if options else {}
        with _session({**settings, **_FEW_ROWS, **jvm}) as session:
            yield session


@contextmanager
def _session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run what PATH has
    from pyspark import SparkConf
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # pytest listens at its loggers with one handler for all: it would write everybody's entries as pyspark's
    PySparkLogger.addHandler = logging.Logger.addHandler
    conf = SparkConf().setAll(list(settings.items()))
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        yield session
    finally:
        _end(session)


def _end(session: SparkSession) -> None:
    """The JVM too, which would else live as long as this process."""
    from pyspark import SparkContext

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        session.stop()
        gateway = SparkContext._gateway
        SparkContext._gateway = SparkContext._jvm = None
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # it ends when nobody holds the other end
            gateway.proc.wait(_LONGEST_END)
        gc.collect()
