"""Access to the Java objects of a Spark session, through undocumented attributes of pyspark (ADR 0046).

=====================  ==========================================================================================
undocumented           gain, and the public alternative
=====================  ==========================================================================================
``_jvm``               the classes of Iceberg, Hadoop and Kafka's client have no name in Python. None.
``_jsparkSession``     snapshots of a table without a Spark job (0.1 s each), and Spark's own parser. For the first,
                       queries of Iceberg's metadata tables, which return no parents; for the second none.
``_origin``            the class and the causes of an error of Java. The words of its message, which change.
``_gateway``           whether the JVM has ended. None.
``AccumulatorServer``  no traceback of its thread when the JVM has ended. None.
=====================  ==========================================================================================

pyspark is pinned, with the jars that ``app/spark/jars.py`` names. For another version: run ``tests/pipeline`` with
it, then name it in ``KNOWN``.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Mapping
from socketserver import BaseServer
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, Final

from app.errors import LakeUnavailable
from app.libraries.versions import demand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KNOWN: Final = ("4.0",)

_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_SHELL: Final = "pyspark-shell"
_ENDS_WITHIN: Final = 5.0  # seconds from a closed connection to the end of the process


def missing_class(text: str) -> LakeUnavailable:
    """Return the error for a class of Java that no jar has."""
    return LakeUnavailable(
        f"Java has no class for this lake: {text}.",
        setting="pipeline.lake",
        cure="Download the jar that has the class, and name its file in pipeline.spark.extra_jars.",
    )


class JavaNames:
    """Packages and classes of Java by their names, each looked up once. Java searches all jars for each
    part of a name, which took a third of the CPU time of a small archive.
    """

    def __init__(self, package: Any, name: str = "") -> None:
        self._package, self._name = package, name

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]  # noqa: PLC0415

        found = getattr(self._package, name)
        if isinstance(found, JavaPackage):
            found = JavaNames(found, f"{self._name}{name}.")
        self.__dict__[name] = found
        return found

    def __call__(self, *_: Any) -> Any:
        """Raise LakeUnavailable: Py4J takes the name of a class that no jar has for a package."""
        raise missing_class(self._name.rstrip("."))


_names: dict[int, tuple[Any, JavaNames]] = {}
"""The names of the last JVM, by the identity of its view."""


def jvm(spark: SparkSession) -> Any:
    """Return the root of the JVM's packages, through which Java classes are reached by name."""
    view = spark._jvm  # noqa: SLF001
    if id(view) not in _names:
        _names.clear()
        _names[id(view)] = view, JavaNames(view)
    return _names[id(view)][1]


def java_session(spark: SparkSession) -> Any:
    """Return the Java object of a Spark session."""
    return spark._jsparkSession  # noqa: SLF001


def java_error(error: BaseException) -> Any:
    """Return the throwable of Java that an error of pyspark or Py4J carries; None if it has none."""
    for name in ("java_exception", "_origin"):
        if (found := getattr(error, name, None)) is not None:
            return found
    return None


def java_has_ended(error: BaseException) -> bool:
    """Return True if an error of Py4J means that the JVM has ended, for example because the kernel
    had no memory for it."""
    # heavy, and an extra
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyspark import SparkContext  # noqa: PLC0415

    if not isinstance(error, Py4JNetworkError | ConnectionError):
        return False
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    if process is None:  # spark-submit has started the JVM
        return isinstance(error, Py4JNetworkError)
    try:
        process.wait(_ENDS_WITHIN)
    except TimeoutExpired:
        return False
    return True


def launch(settings: Mapping[str, str]) -> None:
    """Start the JVM of this process with these settings on its command line, unless it is running.

    Later settings are sent over the gateway of Py4J, where no other user of the machine can read
    them.

    Raises:
        SetupError: The version of pyspark is not a known one.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - heavy, and an extra

    demand("pyspark", KNOWN, "app/spark/pyspark_adapter.py")
    _end_quietly()
    before = os.environ.get(_ARGUMENTS)
    arguments = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    os.environ[_ARGUMENTS] = f"{shlex.join(arguments)} {before or _SHELL}"
    try:
        SparkContext.getSystemProperty("java.version")  # this call starts the JVM
    finally:
        if before is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = before


def _end_quietly() -> None:
    """Let PySpark and Py4J print no traceback when the JVM has ended.

    The call that needs the JVM raises an error, which is reported in one line."""
    from pyspark.accumulators import AccumulatorServer  # noqa: PLC0415 - heavy, and an extra

    AccumulatorServer.handle_error = _print_unless_ended  # type: ignore[method-assign]
    logging.getLogger().addFilter(_is_of_others)


def _print_unless_ended(self: BaseServer, request: Any, client_address: Any) -> None:
    if not isinstance(sys.exception(), EOFError | ConnectionError):
        BaseServer.handle_error(self, request, client_address)


def _is_of_others(record: logging.LogRecord) -> bool:
    """Return False for what Py4J logs about each broken connection before it raises the error."""
    return record.module not in ("java_gateway", "clientserver")
