"""The meaning of errors of Pulsar's client library and administration, for the caller and for the
publisher."""

from __future__ import annotations

import enum

import pulsar
from pulsar import Result

from app.errors import (
    BoundReached,
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    PublishUnknown,
)
from app.libraries.httpx_client import httpx


class ClientError(Exception):
    """The client library returned a result other than Ok."""

    def __init__(self, result: Result, what: str = "") -> None:
        super().__init__(f"{result.name}{f': {what}' if what else ''}")
        self.result = result


def client_error(error: pulsar.PulsarException) -> ClientError:
    """Return the error for an exception of the library. Its exceptions have the names of its results."""
    result = getattr(Result, type(error).__name__, Result.UnknownError)
    return ClientError(result)


class AdminError(Exception):
    """The administration answered with an error status and a message.

    ``is_temporary`` is True if the error may be temporary, such as a missing bookie or a topic that no broker
    serves yet.
    """

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"status {status}: {words}")
        self.status = status
        lacking = status == httpx.codes.PRECONDITION_FAILED and words.startswith(_LACKING)
        self.is_temporary = lacking or status >= _SERVER_ERRORS


class FailureAction(enum.Enum):
    """An action for a record that the client did not publish."""

    AGAIN = "send the unanswered records again with a new client"
    ANSWER = "fail the record"


_AGAIN = {
    Result.Timeout,  # the client drops all records at once, including recent ones
    Result.AlreadyClosed,  # the client was replaced
    Result.NotConnected,
    Result.ConnectError,
    Result.Interrupted,
    Result.ChecksumError,
    Result.ProducerNotInitialized,
}
_NOT_AUTHORISED = {
    Result.AuthenticationError,
    Result.AuthorizationError,
    Result.ErrorGettingAuthenticationData,
}
_UNKNOWN_TOPIC = {Result.TopicNotFound, Result.InvalidTopicName}
_FULL = {Result.ProducerQueueIsFull, Result.MemoryBufferIsFull}
_FOR_GOOD = {  # permanent errors with their cures
    Result.InvalidConfiguration: "correct the settings of the broker",
    Result.IncompatibleSchema: "publish to a topic without a schema, or set schemaValidationEnforced to false",
    Result.NotAllowedError: "look into the policies of the topic and its namespace",
    Result.OperationNotSupported: "look into the log of the broker",
    Result.TopicTerminated: "delete the topic and create it again, or publish to another",
    Result.UnsupportedVersionError: "use a version of Pulsar that the guide names",
}
_SERVER_ERRORS = 500
# Messages of temporary errors with status 412. The first one is a cursor that no bookie accepted (Pulsar 4.0).
_LACKING = (
    "Unable to find position for position specified: unable to persist",
    "Failed for Subscription Busy",
    "Failed to find ownership for",
)
_KINDS = {401: "not-authorised", 403: "not-authorised", 404: "unknown-topic"}


def judge(result: Result) -> FailureAction:
    """Return what to do with a record whose send ended with ``result``."""
    return FailureAction.AGAIN if result in _AGAIN else FailureAction.ANSWER


def translate(error: BaseException, broker: str) -> BrokerError | None:
    """Return the error for the caller, or None if ``error`` is a bug of Skybridge."""
    if isinstance(error, BrokerError):
        return error
    message = f"Pulsar {broker} answered {error or type(error).__name__}"
    if isinstance(error, ClientError):
        return _of_result(error.result, message, broker)
    if isinstance(error, AdminError):
        return _of_status(error, message, broker)
    if isinstance(error, httpx.HTTPError | httpx.InvalidURL | OSError | TimeoutError):
        what = str(error) or type(error).__name__
        return BrokerUnavailable(f"Pulsar {broker} cannot be reached: {what}", broker=broker)
    return None


def _of_result(result: Result, message: str, broker: str) -> BrokerError:
    if result == Result.MessageTooBig:
        return BrokerRefused(message, kind="record-too-large", broker=broker)
    if result in _NOT_AUTHORISED:
        return BrokerRefused(message, kind="not-authorised", broker=broker)
    if result in _UNKNOWN_TOPIC:
        return BrokerRefused(message, kind="unknown-topic", broker=broker)
    if result == Result.InvalidMessage:
        return BrokerRefused(
            f"{message}: the broker rejects the record", kind="rejected", broker=broker
        )
    if result in _FOR_GOOD:
        return BrokerRefused(f"{message}. Cure: {_FOR_GOOD[result]}", broker=broker)
    if result in _FULL:
        return BoundReached(message, broker=broker)
    if result == Result.Timeout:
        return PublishUnknown(message, broker=broker)
    return BrokerUnavailable(message, broker=broker)


def _of_status(error: AdminError, message: str, broker: str) -> BrokerError:
    kind = _KINDS.get(error.status)
    if kind is not None:
        return BrokerRefused(message, kind=kind, broker=broker)
    if error.is_temporary or error.status in {408, 409, 429}:
        return BrokerUnavailable(message, broker=broker)
    return BrokerRefused(message, broker=broker)
