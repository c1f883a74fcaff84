"""The one Spark session, with every setting that the rows of the lake depend on.

Settings that a JVM needs at its start are on its command line, which other users can read. All
other settings, such as the secrets of a catalog, are sent over the gateway of Py4J afterwards.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from app.errors import SetupError
from app.spark.cleanup import cleaning_up
from app.spark.pyspark_adapter import java_session, jvm, launch
from app.spark.settings import LakeCatalog, SparkEngine

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414 - the command line names it

CATALOG: Final = "lake"
"""The name of the catalog, which is part of every table's name and of the rows of a JDBC
catalog.
"""

QUERY_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",  # schemaurl is not schemaURL
    "spark.sql.codegen.hugeMethodLimit": "8000",  # bytes that HotSpot compiles: larger methods are interpreted
    "spark.sql.inMemoryColumnarStorage.compressed": "false",  # compression is a quarter of the cost of caching
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # not INT96, which few programs can read
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""The settings that determine the results and the speed of every query."""

ICEBERG: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_JDBC: Final = {"jdbc.schema-version": "V1"}
_SQLITE: Final = {"jdbc.busy_timeout": "60000"}  # ms that a writer waits for another one
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",  # needs the next line: alone it advertises another address
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "app.pipeline.workers",
    "spark.sql.shuffle.partitions": "8",
}
"""The settings for a Spark that runs entirely on this machine."""

_CLASS_PATH: Final = "spark.driver.extraClassPath"
_JVM: Final = "spark.driver.extraJavaOptions"
_BRIEF: Final = "-XX:TieredStopAtLevel=1"
"""The JVM option that turns off the second compiler, which saves time only after about a million
records.

The second compiler took two fifths of the CPU time of an archive of 2,000 records, and a third of a
copy of 150,000.
"""
_DEFAULT_JVM: Final = "spark.driver.defaultJavaOptions"
_LONG: Final = "-XX:+UseSerialGC -XX:MinHeapFreeRatio=15 -XX:MaxHeapFreeRatio=30"
"""The JVM options of a job that goes on, such as an archive that follows. They keep the heap small: it
grows with the rows that are in use, not with those that were.
"""
_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
_OF_JAVA: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""The variables from which Java, or Spark's script, takes further JVM options."""
_ARENAS: Final = "2"
"""The pools of memory of the C library in Java and in Python's workers. By default each thread has one."""
_AT_LAUNCH: Final = ("spark.driver.", "spark.jars", "spark.submit.", "spark.master")


def open_session(
    engine: SparkEngine, catalog: LakeCatalog | None, *, app_name: str, brief: bool = False
) -> SparkSession:
    """Return a new session of this process's Spark, which is started if it is not running.

    Catalogs belong to a session, so two lakes in one process do not mix. ``session.stop()`` ends
    Spark for the whole process.

    Args:
        engine: How Spark runs.
        catalog: The catalog of Iceberg that the session has; None for none.
        app_name: The name that Spark shows.
        brief: Whether the process ends after one short job, so that the JVM is set up for a fast
            start.

    Raises:
        SetupError: The extra ``pipeline``, Java or the jars are missing.
    """
    requirements()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - heavy, and an extra

    session = SparkSession(_context(engine, app_name, brief=brief)).newSession()
    fixed = {**QUERY_SETTINGS, **(catalog_settings(catalog) if catalog else {})}
    for name, value in fixed.items():
        session.conf.set(name, value)
    _override(session, engine.conf)
    return session


@contextlib.contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache the rows of a frame inside the context, in memory or on disk, so that they are computed
    once.
    """
    frame.persist()
    with cleaning_up(frame.unpersist):
        yield frame


def first_line(error: BaseException) -> str:
    """Return the line of an error that names the cause, without Java's stack or the traceback of a
    task.
    """
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.partition("JVM stacktrace:")[0].splitlines()]
    filled = [line for line in lines if line]
    of_task = any(line.startswith("Traceback (most recent call last)") for line in filled)
    return (filled[-1] if of_task else filled[0]) if filled else repr(error)


def hadoop_file(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return the Hadoop file system of a URI, and the path in it."""
    path = jvm(spark).org.apache.hadoop.fs.Path(uri)
    settings = java_session(spark).sparkContext().hadoopConfiguration()
    return path.getFileSystem(settings), path


def read_file(spark: SparkSession, uri: str) -> bytes | None:
    """Return the content of a file that Hadoop can read; None if it does not exist."""
    system, path = hadoop_file(spark, uri)
    if not system.exists(path):
        return None
    size = int(system.getFileStatus(path).getLen())
    opened = system.open(path)
    try:
        return bytes(jvm(spark).org.apache.commons.io.IOUtils.toByteArray(opened, size))
    finally:
        opened.close()


def write_file(spark: SparkSession, uri: str, text: bytes) -> None:
    """Write a file with Hadoop, in place of an older one."""
    system, path = hadoop_file(spark, uri)
    out = system.create(path, True)
    out.write(bytearray(text))
    out.close()


def catalog_settings(catalog: LakeCatalog) -> dict[str, str]:
    """Return the settings of the catalog as Spark names them.

    Iceberg's own cache is off, so that two sessions of a process see the same state of a table.
    """
    own = {
        "type": catalog.kind,
        **(_JDBC if catalog.kind == "jdbc" else {}),
        **(_SQLITE if catalog.uri.startswith("jdbc:sqlite:") else {}),
        **({"uri": catalog.uri} if catalog.uri else {}),
        "warehouse": catalog.warehouse,
        "cache-enabled": "false",
        **catalog.properties,
    }
    prefix = f"spark.sql.catalog.{CATALOG}"
    settings = {f"{prefix}.{name}": value for name, value in own.items()}
    return {prefix: "org.apache.iceberg.spark.SparkCatalog", **settings}


def requirements() -> None:
    """Raise SetupError if the extra ``pipeline`` or Java is missing, before Python or Spark fail
    with an unclear error.
    """
    if find_spec("pyspark") is None:
        raise SetupError(
            "the pipeline runs on Spark, which is not installed",
            cure="install the extra pipeline (make install does), or use the image pipeline",
        )
    from app.spark import java  # noqa: PLC0415

    java.find(os.environ)


def _context(engine: SparkEngine, app_name: str, *, brief: bool) -> SparkContext:
    """Return the Spark context of the process, which is the same for all sessions."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if engine.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run what PATH has
        os.environ.setdefault("MALLOC_ARENA_MAX", _ARENAS)
    settings = _settings(engine, app_name, brief=brief)
    launch({k: v for k, v in settings.items() if k.startswith(_AT_LAUNCH)})
    return SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))


def _settings(engine: SparkEngine, app_name: str, *, brief: bool) -> dict[str, str]:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit: its JVM runs already
    local = engine.master.startswith("local")
    return {
        "spark.app.name": app_name,
        "spark.log.level": "FATAL",  # errors are reported by the commands, without Java's stacks
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": ICEBERG,
        **({"spark.master": engine.master} if engine.master else {}),
        **(LOCAL_SETTINGS if local else {}),
        **({} if submitted else {"spark.driver.memory": engine.memory}),
        **engine.conf,
        **({} if submitted else _jars(engine, local=local)),
        **(_jvm_options(engine, brief=brief) if local and not submitted else {}),
    }


def _jvm_options(engine: SparkEngine, *, brief: bool) -> dict[str, str]:
    """Return the JVM options for a short job, or for one that goes on. The operator's options come
    last, because the JVM uses the last of contradictory options. It refuses two garbage collectors,
    so those of the operator are used alone."""
    if brief:
        return {_JVM: f"{_BRIEF} {engine.conf.get(_JVM, '')}".rstrip()}
    given = engine.conf.get(_DEFAULT_JVM, "")
    chosen = (given, engine.conf.get(_JVM, ""), *(os.environ.get(each, "") for each in _OF_JAVA))
    own = "" if _COLLECTOR.search(" ".join(chosen)) else _LONG
    return {_DEFAULT_JVM: f"{own} {given}".strip()}


def _jars(engine: SparkEngine, *, local: bool) -> dict[str, str]:
    """Return the setting that gives Spark the jars.

    On this machine they are on the class path of the JVM, so Spark copies nothing. A cluster's
    machines are sent the files.
    """
    if engine.has_jars:
        named = [engine.conf["spark.jars"]] if "spark.jars" in engine.conf else []
        return {"spark.jars": ",".join([*named, *engine.extra_jars])} if engine.extra_jars else {}
    from app.spark import jars  # noqa: PLC0415 - imports an HTTP client

    found = [*map(str, jars.paths(engine)), *engine.extra_jars]
    if not local:
        return {"spark.jars": ",".join(found)}
    return {_CLASS_PATH: os.pathsep.join(filter(None, [*found, engine.conf.get(_CLASS_PATH)]))}


def _override(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Apply the operator's SQL settings, which take precedence over those of Skybridge. Settings
    that Spark reads only at its start were applied then."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    for name, value in conf.items():
        if name.startswith("spark.sql."):
            with contextlib.suppress(AnalysisException):
                session.conf.set(name, value)
