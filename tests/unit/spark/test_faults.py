"""Errors of Java that the operator can mend, by their classes and states. The classes of S3 are not
in the Spark of the tests, so throwables are made by hand.
"""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext

from app.spark import pyspark_adapter
from app.spark.faults import ended_fault, lake_fault
from app.spark.reroute.job import RerouteFailed, wait
from java_throwables import JavaError, throwable, wrapped

S3 = ("software.amazon.awssdk.services.s3.model.S3Exception",
      "software.amazon.awssdk.awscore.exception.AwsServiceException")  # fmt: skip
CLIENT = ("software.amazon.awssdk.core.exception.SdkClientException",)
ICEBERG = "org.apache.iceberg.exceptions."


@pytest.mark.parametrize(
    ("java", "words"),
    [
        (throwable(*S3, status=403, code="AccessDenied"), "the storage of the lake refuses"),
        (throwable(*S3, status=403), "the storage of the lake refuses"),
        (throwable(*S3, status=404, code="NoSuchBucket"), "the storage of the lake refuses"),
        (throwable(*S3, status=400, code="ExpiredToken"), "the storage of the lake refuses"),
        (throwable(*S3, status=503, code="SlowDown"), "the storage of the lake does not answer"),
        (throwable(*CLIENT), "the storage of the lake refuses"),
        (
            throwable(*CLIENT, cause=throwable("java.net.ConnectException", "java.net.SocketException")),
            "the storage of the lake does not answer",
        ),
        (throwable(f"{ICEBERG}NotAuthorizedException"), "the catalog refuses"),
        (throwable(f"{ICEBERG}ForbiddenException"), "the catalog refuses"),
    ],
)  # fmt: skip
def test_a_store_or_a_catalog_that_refuses_is_one_line(java: Any, words: str) -> None:
    fault = lake_fault(wrapped(java))
    assert fault is not None
    assert str(fault.args[0]).startswith(words)
    assert str(fault.args[0]).endswith("why.")
    assert fault.cure


PYTHON = "org.apache.spark.api.python.PythonException"
TRACEBACK = "Traceback (most recent call last):\n  File 'x', line 1, in y\n{}\n"


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("OSError: When completing: AWS Error NETWORK_CONNECTION: no route", "NETWORK_CONNECTION"),
        ("OSError: [Errno 28] No space left on device", "No space left on device"),
        ("FileNotFoundError: lake/x.parquet", "lake/x.parquet"),
        ("ValueError: lake/x.parquet has no column with the id 3", None),
        ("pyarrow.lib.ArrowInvalid: not Parquet: OSError", None),
    ],
)
def test_a_task_in_python_that_has_no_storage_is_one_line(last: str, said: str | None) -> None:
    """Java does not know the error: the tasks read and write the files of the lake by PyIceberg."""
    java = throwable(PYTHON)
    java.getMessage = lambda: TRACEBACK.format(last)
    fault = lake_fault(wrapped(java))
    assert (fault is None) is (said is None)
    if fault is not None:
        assert str(said) in str(fault.args[0])
        assert len(str(fault.args[0]).splitlines()) == 1


@pytest.mark.parametrize(("program", "ended"), [("true", True), ("sleep 60", False)])
def test_a_java_that_has_ended_is_told(
    program: str, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection can also be refused while Java runs."""
    with subprocess.Popen(program.split()) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        monkeypatch.setattr(pyspark_adapter, "_ENDS_WITHIN", 30 if ended else 0.01)
        found = [ended_fault(each) for each in (Py4JNetworkError("no answer"), ConnectionError())]
        process.kill()
    assert [each is not None for each in found] == [ended, ended]
    assert ended_fault(ValueError("another error")) is None


@pytest.mark.parametrize(
    "java",
    [throwable(*S3, status=404, code="NoSuchKey"), throwable("java.lang.IllegalStateException")],
)
def test_other_errors_are_bugs(java: Any) -> None:
    assert lake_fault(wrapped(java)) is None


def test_a_reroute_that_fails_is_one_line() -> None:
    failed = JavaError(throwable("org.apache.spark.sql.streaming.StreamingQueryException"))
    query: Any = SimpleNamespace(awaitTermination=lambda: failing(failed))
    with pytest.raises(RerouteFailed, match="could not be rerouted"):
        wait(query)


def failing(error: Exception) -> None:
    raise error
