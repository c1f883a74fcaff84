"""What an answer of the client library or of the administration means, for a caller and for us."""

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
    """The client library answered something else than Ok."""

    def __init__(self, result: Result, what: str = "") -> None:
        super().__init__(f"{result.name}{f': {what}' if what else ''}")
        self.result = result


def client_error(error: pulsar.PulsarException) -> ClientError:
    """Return what the library raises as the result that it stands for: its errors are named as its results are."""
    result = getattr(Result, type(error).__name__, Result.UnknownError)
    return ClientError(result)


class AdminError(Exception):
    """The administration answered with a status that is no success, and its words.

    ``passing``  the broker lacks something that it may have in a moment: a bookie, or who serves the topic.
    """

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"status {status}: {words}")
        self.status = status
        lacking = status == httpx.codes.PRECONDITION_FAILED and words.startswith(_LACKING)
        self.passing = lacking or status >= _SERVER_ERRORS


class Next(enum.Enum):
    """What to do with a record that the client did not publish."""

    AGAIN = "send what is still unanswered again, by a new client"
    ANSWER = "tell the waiting callers"


_AGAIN = {
    Result.Timeout,  # the client forgets all that it holds at once, also what is still young
    Result.AlreadyClosed,  # we gave the client up
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
_FOR_GOOD = {  # with their cures
    Result.InvalidConfiguration: "correct the settings of the broker",
    Result.IncompatibleSchema: "publish to a topic without a schema, or set schemaValidationEnforced to false",
    Result.NotAllowedError: "look into the policies of the topic and its namespace",
    Result.OperationNotSupported: "look into the log of the broker",
    Result.TopicTerminated: "delete the topic and make it again, or publish to another",
    Result.UnsupportedVersionError: "use a version of Pulsar that the guide names",
}
_SERVER_ERRORS = 500
# What else is 412 is a mistake in the question. The first one is a cursor that no bookie took (Pulsar 4.0).
_LACKING = (
    "Unable to find position for position specified: unable to persist",
    "Failed for Subscription Busy",
    "Failed to find ownership for",
)
_KINDS = {401: "not-authorised", 403: "not-authorised", 404: "unknown-topic"}


def judge(result: Result) -> Next:
    """What becomes of a record whose sending ended in ``result``."""
    return Next.AGAIN if result in _AGAIN else Next.ANSWER


def translate(error: BaseException, broker: str) -> BrokerError | None:
    """What the caller is told; None: it is a bug of ours."""
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
    if error.passing or error.status in {408, 409, 429}:
        return BrokerUnavailable(message, broker=broker)
    return BrokerRefused(message, broker=broker)
