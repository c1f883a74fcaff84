"""Recognize errors of Java by their classes and SQL states, never by the words of their messages.

An error of Spark, Iceberg or a driver is a chain of causes. ``lake_fault`` finds the cause that the
operator can mend, and words it in one line.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.errors import LakeUnavailable
from app.spark.pyspark_adapter import java_error, java_has_ended, missing_class

_ICEBERG: Final = "org.apache.iceberg.exceptions."
REFUSALS: Final = frozenset({f"{_ICEBERG}CommitFailedException", f"{_ICEBERG}ValidationException"})
"""The errors of Iceberg that prove that a commit was not made."""

UNKNOWN: Final = frozenset({f"{_ICEBERG}CommitStateUnknownException"})
"""The error of a commit that may have been made."""

LOST: Final = frozenset({"org.apache.spark.sql.kafka010.KafkaIllegalStateException"})
"""The error of Spark for records of Kafka that are gone."""

_SQL: Final = "java.sql.SQLException"
_NO_DRIVER: Final = "08001"
"""The SQL state of JDBC if there is no driver for an address."""

_AWAY_STATES: Final = ("08", "57P")  # connection errors; a PostgreSQL that starts or stops
_REFUSED_STATES: Final = ("28", "3D", "53")  # the login, the database, too many connections
_AWAY: Final = frozenset(
    {
        "java.net.SocketException",  # ConnectException and NoRouteToHostException are of this class
        "java.net.UnknownHostException",
        "java.net.SocketTimeoutException",
        "java.net.http.HttpTimeoutException",
        f"{_ICEBERG}ServiceFailureException",
        f"{_ICEBERG}ServiceUnavailableException",
        "software.amazon.awssdk.core.exception.ApiCallTimeoutException",
        "org.apache.thrift.transport.TTransportException",
    }
)
_MISSING: Final = frozenset(
    {
        "java.lang.ClassNotFoundException",
        "java.lang.NoClassDefFoundError",
        "org.apache.hadoop.fs.UnsupportedFileSystemException",
    }
)
_OF_PYTHON: Final = "org.apache.spark.api.python.PythonException"
"""The error of a task in Python. Its message is the traceback."""
_FORBIDDEN: Final = frozenset(
    {f"{_ICEBERG}NotAuthorizedException", f"{_ICEBERG}ForbiddenException"}
)
_OF_S3: Final = "software.amazon.awssdk.awscore.exception.AwsServiceException"
_OF_S3_CLIENT: Final = "software.amazon.awssdk.core.exception.SdkClientException"
_S3_REFUSES: Final = frozenset({301, 401, 403})  # another region, no key, not this key
_S3_CODES: Final = frozenset({"NoSuchBucket", "ExpiredToken", "InvalidToken"})
_S3_AWAY: Final = 500
_OF_STORAGE: Final = ("software.amazon.awssdk.", "org.apache.hadoop.fs.", "com.google.cloud.")

_CURE_ENDED: Final = "Give the machine more memory than pipeline.spark.memory needs. The same command then continues."


def lake_fault(error: BaseException) -> LakeUnavailable | None:
    """Return the error for the operator, or None if no cause is one of those that this module
    knows.
    """
    return ended_fault(error) or _of_causes(list(_causes(java_error(error))))


def ended_fault(error: BaseException) -> LakeUnavailable | None:
    """Return the error for the operator if Java has ended; None if it runs."""
    if not java_has_ended(error):
        return None
    return LakeUnavailable(
        "Java, which runs Spark, has ended.", setting="pipeline.spark.memory", cure=_CURE_ENDED
    )


def _of_causes(chain: Sequence[Any]) -> LakeUnavailable | None:
    of_storage = any(_class(each).startswith(_OF_STORAGE) for each in chain)
    for each in chain:
        lineage = _lineage(each)
        special = next((of for name, of in _SPECIAL.items() if name in lineage), None)
        if special is not None:
            if (found := special(each)) is not None:
                return found
        elif lineage & _MISSING:
            return missing_class(_message(each))
        elif lineage & _AWAY:
            return _storage_away(each) if of_storage else _catalog_away(each)
        elif lineage & _FORBIDDEN:
            return _storage_refuses(each) if of_storage else _catalog_refuses(each)
    # The client fails by itself without keys, and with a cause if the store does not answer
    client = (each for each in chain if _OF_S3_CLIENT in _lineage(each))
    return next(map(_storage_refuses, client), None)


def is_any(error: BaseException, classes: frozenset[str]) -> bool:
    """Return True if an error of Java, or one of its causes, is of one of these classes."""
    return any(_lineage(each) & classes for each in _causes(java_error(error)))


def _of_sql(cause: Any) -> LakeUnavailable | None:
    state = cause.getSQLState() or ""
    if _class(cause) == _SQL and state == _NO_DRIVER:  # drivers raise classes of their own
        return missing_class(_message(cause).partition("?")[0])  # parameters may have a password
    if state.startswith(_REFUSED_STATES):
        return _catalog_refuses(cause)
    return _catalog_away(cause) if state.startswith(_AWAY_STATES) else None


def _of_s3(cause: Any) -> LakeUnavailable | None:
    """Return the error for an answer of S3; None for answers that are no matter of the operator."""
    details = cause.awsErrorDetails()
    code = str(details.errorCode()) if details is not None else ""
    if cause.statusCode() in _S3_REFUSES or code in _S3_CODES:
        return _storage_refuses(cause)
    return _storage_away(cause) if cause.statusCode() >= _S3_AWAY else None


def _of_task(cause: Any) -> LakeUnavailable | None:
    """Return the error for a task in Python that could not read or write a file. The tasks open no other
    files than those of the lake."""
    name, _, text = str(cause.getMessage()).rstrip().rpartition("\n")[2].partition(": ")
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, OSError)):
        return None
    return LakeUnavailable(
        f"the storage of the lake cannot be read or written: {text.rstrip('.')}.",
        setting="pipeline.lake.warehouse",
        cure="Start the object store, correct s3.endpoint and the keys in pipeline.lake.catalog.properties, or"
        " make room. The same command then continues.",
    )


_SPECIAL: Final = {_SQL: _of_sql, _OF_S3: _of_s3, _OF_PYTHON: _of_task}
"""The classes whose errors are known by more than the class."""


def _catalog_refuses(cause: Any) -> LakeUnavailable:
    return LakeUnavailable(
        f"the catalog refuses the connection: {_message(cause)}.",
        setting="pipeline.lake.catalog",
        cure="Correct uri, the login (jdbc.user and jdbc.password, credential or token) and its rights,"
        " or allow more connections.",
    )


def _storage_refuses(cause: Any) -> LakeUnavailable:
    return LakeUnavailable(
        f"the storage of the lake refuses the request: {_message(cause)}.",
        setting="pipeline.lake.warehouse",
        cure="Create the bucket, or correct its name, s3.region, s3.access-key-id and s3.secret-access-key"
        " in pipeline.lake.catalog.properties.",
    )


def _catalog_away(cause: Any) -> LakeUnavailable:
    return LakeUnavailable(
        f"the catalog does not answer: {_message(cause)}.",
        setting="pipeline.lake.catalog",
        cure="Start the catalog, or correct uri. The same command then continues.",
    )


def _storage_away(cause: Any) -> LakeUnavailable:
    return LakeUnavailable(
        f"the storage of the lake does not answer: {_message(cause)}.",
        setting="pipeline.lake.warehouse",
        cure="Start the object store, or correct s3.endpoint in pipeline.lake.catalog.properties.",
    )


def _causes(throwable: Any) -> Iterator[Any]:
    """Yield a throwable of Java and the causes of it."""
    each = throwable
    while each is not None:
        yield each
        each = each.getCause()


def _lineage(throwable: Any) -> set[str]:
    """Return the names of the class of a throwable and of the classes that it extends."""
    found, each = set(), throwable.getClass()
    while each is not None:
        found.add(each.getName())
        each = each.getSuperclass()
    return found


def _class(throwable: Any) -> str:
    return str(throwable.getClass().getName())


def _message(throwable: Any) -> str:
    """Return the first line of the message of a throwable, or its class if it has no message."""
    text = str(throwable.getMessage() or "").strip()
    return text.splitlines()[0].rstrip(".") if text else _class(throwable)
