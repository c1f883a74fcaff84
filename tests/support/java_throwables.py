"""Throwables of Java made by hand, with the classes and states by which their errors are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class JavaError(Exception):
    """An error as Py4J raises it."""

    def __init__(self, java_exception: Any) -> None:
        super().__init__()
        self.java_exception = java_exception


def class_of(names: tuple[str, ...]) -> Any:
    rest = names[1:]
    return SimpleNamespace(
        getName=lambda: names[0], getSuperclass=lambda: class_of(rest) if rest else None
    )


def throwable(*names: str, cause: Any = None, status: int = 0, code: str | None = None) -> Any:
    """Return a throwable of a class. ``names`` has its name, and those of the classes it extends."""
    details = None if code is None else SimpleNamespace(errorCode=lambda: code)
    return SimpleNamespace(
        getClass=lambda: class_of(names), getMessage=lambda: "why\nat length", getCause=lambda: cause,
        statusCode=lambda: status, awsErrorDetails=lambda: details,
    )  # fmt: skip


def wrapped(java: Any) -> JavaError:
    """Return the error that Py4J raises for a throwable that a job of Spark failed with."""
    return JavaError(throwable("org.apache.spark.SparkException", cause=java))
