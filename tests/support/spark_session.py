"""The Spark session of a whole test run: one small JVM on loopback, which ends with the run."""

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
from app.spark.session import ICEBERG, LOCAL_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BRIEF = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JVM = " ".join((*_BRIEF, *class_data.shared(class_data.SPARK)))
"""The JVM options. They turn the second compiler off: tests end before it saves time, and need two fifths less CPU
without it."""

_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for few rows, for which compiling code and planning again cost more than they save.

Tests that run a command as a process do not use these settings, so that Spark works as for an operator.
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
"""The end of a configuration file, below ``pipeline``. ``jvm`` is JVM."""

_LONGEST_END = 600
"""Seconds until the JVM has ended. The first JVM of a checkout writes its class data then, for
minutes."""

LEFT_OPEN = "ignore:unclosed <socket:ResourceWarning"
"""A warning filter for sockets that pyspark leaves to the garbage collector."""


def spark_settings(folder: Path) -> Mapping[str, str]:
    """Return the settings of Spark for tests.

    Args:
        folder: The folder for all files that Spark writes.

    Raises:
        Missing: Java or the jars are not available.
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
    """Run a Spark session until the block ends. The first session of a checkout leaves its class
    data."""
    with class_data.recorded(class_data.SPARK) as options:
        jvm = {"spark.driver.extraJavaOptions": " ".join((*_BRIEF, *options))} if options else {}
        with _session({**settings, **_FEW_ROWS, **jvm}) as session:
            yield session


@contextmanager
def _session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run the Python of PATH
    from pyspark import SparkConf
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    # pytest listens to loggers with one handler; pyspark would write the entries of all others
    PySparkLogger.addHandler = logging.Logger.addHandler
    conf = SparkConf().setAll(list(settings.items()))
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        yield session
    finally:
        _end(session)


def _end(session: SparkSession) -> None:
    """Stop the session and its JVM, which would otherwise live as long as this process."""
    from pyspark import SparkContext

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        session.stop()
        gateway = SparkContext._gateway
        SparkContext._gateway = SparkContext._jvm = None
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # the JVM ends when its standard input closes
            gateway.proc.wait(_LONGEST_END)
        gc.collect()
