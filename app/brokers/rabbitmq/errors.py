"""The meaning of errors of aiormq, for the caller and for the channel on which they occur."""

from __future__ import annotations

import re

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.errors import BrokerError, BrokerRefused, BrokerUnavailable

_NO_EXCHANGE = re.compile(r"no exchange '(.*?)' in vhost")
_REFUSED_EXCHANGE = re.compile(r"exchange '(.*?)' in vhost '.*?' refused")
_LARGER_THAN = re.compile(r"larger than configured max size (\d+)")
_OUT_OF_REACH = "is down or inaccessible"
_UNEQUAL = re.compile(r"inequivalent arg '(.*?)'")

EXPECTED = (
    amqp.AMQPError,
    amqp.ChannelInvalidStateError,
    OSError,
    TimeoutError,
    EOFError,
)
"""The errors that requests to a broker may raise. Any other error is a bug."""

_LOGIN = (amqp.AuthenticationError, amqp.ProbableAuthenticationError)
_CHANNEL_KINDS = (
    (amqp.ChannelNotFoundEntity, "unknown-topic"),
    (amqp.ChannelAccessRefused, "not-authorised"),
    (amqp.ConnectionNotAllowed, "not-authorised"),
    (_LOGIN, "not-authorised"),
)


def error_text(error: BaseException) -> str:
    """Return the broker's message, or the text of the error if there is none."""
    if isinstance(error, amqp.ConnectionClosed | amqp.ChannelClosed) and len(error.args) == 2:  # noqa: PLR2004 - code and text
        return str(error.args[1])
    return str(error) or type(error).__name__


def missing_exchange(error: BaseException) -> str | None:
    """Return the name of an exchange that does not exist, so that a publish to it closed the channel. Return
    None for any other error."""
    return _first(_NO_EXCHANGE, error) if isinstance(error, amqp.ChannelNotFoundEntity) else None


def refused_exchange(error: BaseException) -> str | None:
    """Return the name of an exchange for which Skybridge has no write permission, so that a publish to it
    closed the channel. Return None for any other error."""
    return (
        _first(_REFUSED_EXCHANGE, error) if isinstance(error, amqp.ChannelAccessRefused) else None
    )


def largest_body(error: BaseException) -> int | None:
    """Return the broker's size limit in bytes if a larger body closed the channel, or None."""
    if not isinstance(error, amqp.ChannelPreconditionFailed):
        return None
    found = _first(_LARGER_THAN, error)
    return None if found is None else int(found)


def is_out_of_reach(error: BaseException) -> bool:
    """Return True if an entity that was "not found" exists on a node that is down or starting, so that it
    will be available again."""
    return isinstance(error, amqp.ChannelNotFoundEntity) and _OUT_OF_REACH in error_text(error)


def unequal_argument(error: BaseException) -> str | None:
    """Return the argument in which an existing queue differs from its declaration here, or None."""
    return _first(_UNEQUAL, error) if isinstance(error, amqp.ChannelPreconditionFailed) else None


def _first(pattern: re.Pattern[str], error: BaseException) -> str | None:
    found = pattern.search(error_text(error))
    return found[1] if found else None


def translate(error: BaseException, broker: str) -> BrokerError | None:
    """Return the error for the caller, or None if ``error`` is a bug of Skybridge."""
    if isinstance(error, BrokerError):
        return error
    message = f"RabbitMQ {broker} answered: {error_text(error)}"
    if is_out_of_reach(error):
        return BrokerUnavailable(message, broker=broker)
    for classes, kind in _CHANNEL_KINDS:
        if isinstance(error, classes):
            return BrokerRefused(message, kind=kind, broker=broker)
    if largest_body(error) is not None:
        return BrokerRefused(message, kind="record-too-large", broker=broker)
    if isinstance(error, amqp.ChannelPreconditionFailed):
        return BrokerRefused(message, broker=broker)
    if isinstance(error, EXPECTED):
        return BrokerUnavailable(message, broker=broker)
    return None
