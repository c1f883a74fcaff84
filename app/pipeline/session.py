"""The one Spark session, with every setting that the lake's rows depend on.

What a JVM must know at its start stands on its command line, which others can read; everything else, the
secrets of a catalog among it, is told over the gateway afterwards.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from app.errors import SetupError
from app.pipeline.settings import Catalog, Engine, Lake
from app.pipeline.spark_adapter import java_session, jvm, launch

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414 - the command line names it

CATALOG: Final = "lake"
"""The catalog's name: part of every table's name, and of the rows of a JDBC catalog."""

CODE: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",  # schemaurl is not schemaURL
    "spark.sql.codegen.hugeMethodLimit": "8000",  # what HotSpot compiles: beyond, plain evaluation
    "spark.sql.inMemoryColumnarStorage.compressed": "false",  # of kept rows: a quarter of what keeping costs
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # not INT96, which few can read
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What the meaning and the speed of every query depend on."""

ICEBERG: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_JDBC: Final = {"jdbc.schema-version": "V1"}
_SQLITE: Final = {"jdbc.busy_timeout": "60000"}  # ms that one writer waits for another
LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",  # with the next: one alone advertises another address
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "app.pipeline.workers",
    "spark.sql.shuffle.partitions": "8",
}
"""Where all of Spark is on this machine."""

_CLASS_PATH: Final = "spark.driver.extraClassPath"
_JVM: Final = "spark.driver.extraJavaOptions"
_BRIEF: Final = "-XX:TieredStopAtLevel=1"
"""Without the second compiler, which pays for itself after about a million records: it took two fifths of the
CPU of an archive of 2,000, and a third of the copy of 150,000.
"""
_AT_LAUNCH: Final = ("spark.driver.", "spark.jars", "spark.submit.", "spark.master")


def open_session(
    engine: Engine, lake: Lake | None, *, app_name: str, brief: bool = False
) -> SparkSession:
    """A session of this process's Spark, which is started where there is none.

    ``brief``: it is for one piece of work, and then ends.

    Catalogs belong to a session: two lakes in one process do not meet. The first one ends Spark with
    ``session.stop()``. Raises SetupError without the extra, without Java, without the jars.
    """
    requirements()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - heavy, and an extra

    session = SparkSession(_context(engine, app_name, brief=brief)).newSession()
    ours = {**CODE, **(catalog_settings(lake.catalog) if lake else {})}
    for name, value in ours.items():
        session.conf.set(name, value)
    _override(session, engine.conf)
    return session


@contextlib.contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Its rows are worked out once: in memory, or on disk where they do not fit."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def first_line(error: BaseException) -> str:
    """Of what an error says: Java's go on with its stack, and one of a task begins with Python's."""
    text = str(getattr(error, "java_exception", None) or error)
    lines = [line.strip() for line in text.partition("JVM stacktrace:")[0].splitlines()]
    said = [line for line in lines if line]
    of_task = any(line.startswith("Traceback (most recent call last)") for line in said)
    return (said[-1] if of_task else said[0]) if said else repr(error)


def file_of(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """One of Hadoop's file systems, and the path in it."""
    path = jvm(spark).org.apache.hadoop.fs.Path(uri)
    settings = java_session(spark).sparkContext().hadoopConfiguration()
    return path.getFileSystem(settings), path


def catalog_settings(catalog: Catalog) -> dict[str, str]:
    """As Spark names them. Iceberg's own cache is off: two sessions of one process see one table."""
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
    """Raises SetupError without the extra or without Java: said before Python or Spark fail in their words."""
    if find_spec("pyspark") is None:
        raise SetupError(
            "the pipeline runs on Spark, which is not installed",
            cure="install the extra pipeline (make install does), or use the image pipeline",
        )
    from app.pipeline import java  # noqa: PLC0415

    java.find(os.environ)


def _context(engine: Engine, app_name: str, *, brief: bool) -> SparkContext:
    """The process's, whatever asks: Spark has one."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if engine.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers run what PATH has
    settings = _settings(engine, app_name, brief=brief)
    launch({k: v for k, v in settings.items() if k.startswith(_AT_LAUNCH)})
    return SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))


def _settings(engine: Engine, app_name: str, *, brief: bool) -> dict[str, str]:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit: its JVM runs already
    local = engine.master.startswith("local")
    return {
        "spark.app.name": app_name,
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": ICEBERG,
        **({"spark.master": engine.master} if engine.master else {}),
        **(LOCAL if local else {}),
        **({} if submitted else {"spark.driver.memory": engine.memory}),
        **engine.conf,
        **({} if submitted else _jars(engine, local=local)),
        **(_brief(engine) if brief and local and not submitted else {}),
    }


def _brief(engine: Engine) -> dict[str, str]:
    """Those of the operator come last: of two that contradict each other the last one counts."""
    from app.pipeline import class_data, jars  # noqa: PLC0415 - as below

    own = engine.conf.get(_JVM, "")
    terminal = sys.stdout.isatty() and sys.stderr.isatty()
    ours = not engine.has_jars and _CLASS_PATH not in engine.conf
    kept = class_data.options(jars.paths(), own, leave=terminal) if ours else ""
    return {_JVM: " ".join(filter(None, (_BRIEF, kept, own)))}


def _jars(engine: Engine, *, local: bool) -> dict[str, str]:
    """In this process's JVM they stand on its class path: Spark copies nothing. The machines of a cluster are sent
    them.
    """
    if engine.has_jars:
        return {}
    from app.pipeline import jars  # noqa: PLC0415 - brings what fetches them

    found = list(map(str, jars.paths()))
    if not local:
        return {"spark.jars": ",".join(found)}
    return {_CLASS_PATH: os.pathsep.join(filter(None, [*found, engine.conf.get(_CLASS_PATH)]))}


def _override(session: SparkSession, conf: Mapping[str, str]) -> None:
    """What the operator set wins over ours. What only a start can set was set there."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    for name, value in conf.items():
        if name.startswith("spark.sql."):
            with contextlib.suppress(AnalysisException):
                session.conf.set(name, value)
