"""The commands of Pulsar's binary protocol that a producer sends and receives.

A command is an envelope with its type (field 1) and its content, whose field number is the type. A simple frame is
``total size | command size | command``, with sizes of four bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any, NamedTuple

from pulsar import Result

from app.brokers.pulsar.errors import ClientError
from app.brokers.pulsar.wire.protobuf import MalformedMessage, fields, integer, text

CONNECT, CONNECTED, PRODUCER, SEND, SEND_RECEIPT, SEND_ERROR = 2, 3, 5, 6, 7, 8
ERROR, CLOSE_PRODUCER, PRODUCER_SUCCESS, PING, PONG = 14, 15, 17, 18, 19
LOOKUP, LOOKUP_ANSWER, AUTH_CHALLENGE, AUTH_RESPONSE = 23, 24, 36, 37
SUCCESS = 13
REQUEST_ID: Mapping[int, int] = MappingProxyType(
    {SUCCESS: 1, ERROR: 1, PRODUCER_SUCCESS: 1, LOOKUP_ANSWER: 4}
)
"""The field of the request id, for each command that answers a request."""

PROTOCOL = 19  # the version of the protocol that this client announces
CONNECT_TO, _FAILED = 1, 2  # answers to a look-up; 0 names the broker to ask next
SIZES = Struct(">II")
REFRESHES_LOGIN = integer(1, 1)  # feature flags: the broker may ask for new credentials

_RESULTS: Mapping[int, Result] = MappingProxyType(
    {
        1: Result.BrokerMetadataError,
        2: Result.BrokerPersistenceError,
        3: Result.AuthenticationError,
        4: Result.AuthorizationError,
        6: Result.ServiceUnitNotReady,
        7: Result.ProducerBlockedQuotaExceededError,
        8: Result.ProducerBlockedQuotaExceededException,
        9: Result.ChecksumError,
        10: Result.UnsupportedVersionError,
        11: Result.TopicNotFound,
        14: Result.TooManyLookupRequestException,
        15: Result.TopicTerminated,
        16: Result.ProducerBusy,
        17: Result.InvalidTopicName,
        18: Result.IncompatibleSchema,
        22: Result.NotAllowedError,
        25: Result.ProducerFenced,
    }
)
"""The results of the client library for the protocol's error codes. Errors of consumers and transactions are left out."""


class BrokerLogin(NamedTuple):
    """The credentials of a connection. ``method`` is the protocol's name of the kind; "" for none."""

    method: str = ""
    data: bytes = b""


class Answer(NamedTuple):
    """A command of a broker: its type, and its content by field number."""

    kind: int
    content: Mapping[int, Any]


def read(command: bytes) -> Answer:
    """Return a command. Raise MalformedMessage."""
    envelope = fields(command)
    kind = envelope.get(1)
    if not isinstance(kind, int):
        raise MalformedMessage("a command has no type")
    content = envelope.get(kind, b"")
    if not isinstance(content, bytes):
        raise MalformedMessage("a command has no content")
    return Answer(kind, fields(content))


class SendReceipt(NamedTuple):
    """The receipt of a frame: its producer and sequence id, and the ledger and entry that have its records."""

    producer: int
    sequence: int
    ledger: int
    entry: int


def read_receipt(command: bytes) -> SendReceipt | None:
    """Return a receipt if the command is one whose fields are in the order of their numbers, as brokers write them.
    Return None for every other command. Receipts are most of what a producer receives."""
    if not command.startswith(_RECEIPT) or len(command) > _LONGEST_RECEIPT:
        return None
    found = []
    at = len(_RECEIPT)
    try:
        at = _after_length(command, at)
        for tag in _RECEIPT_TAGS:
            if command[at] != tag:
                return None
            at += 1
            if tag == _POSITION_TAG:
                at = _after_length(command, at)
                continue
            byte = command[at]
            number, shift = byte & 127, 7
            while byte > 127:  # noqa: PLR2004 - the highest bit marks a number that continues
                at += 1
                byte = command[at]
                number |= (byte & 127) << shift
                shift += 7
            at += 1
            found.append(number)
    except IndexError:
        return None
    return SendReceipt._make(found)


_RECEIPT = b"\x08\x07\x3a"  # the type, and the tag of the content
_LONGEST_RECEIPT = 256  # bytes; of real receipts the longest has about 70
_POSITION_TAG = 0x1A
_RECEIPT_TAGS = (
    0x08,
    0x10,
    _POSITION_TAG,
    0x08,
    0x10,
)  # producer, sequence, position: ledger, entry


def _after_length(command: bytes, at: int) -> int:
    """Return the place after a length."""
    while command[at] > 127:  # noqa: PLR2004 - as above
        at += 1
    return at + 1


def number_at(content: Mapping[int, Any], field: int, default: int = 0) -> int:
    """Return an integer of a command. Raise ClientError for a field of another type."""
    value = content.get(field, default)
    if not isinstance(value, int):
        raise ClientError(Result.UnknownError, f"field {field} of a command is no integer")
    return value


def bytes_at(content: Mapping[int, Any], field: int) -> bytes:
    """Return the bytes of a command's field. Raise ClientError for a field of another type."""
    value = content.get(field, b"")
    if not isinstance(value, bytes):
        raise ClientError(Result.UnknownError, f"field {field} of a command is no text")
    return value


def error_at(content: Mapping[int, Any], field: int) -> ClientError:
    """Return the error of a command: its code is in this field, and its text in the next one. Both may be missing."""
    result = _RESULTS.get(content.get(field, 0), Result.UnknownError)
    words = content.get(field + 1)
    message = words.decode("utf-8", "replace") if isinstance(words, bytes) else ""
    return ClientError(result, " ".join(message.split())[:500])


class LookupAnswer(NamedTuple):
    """The answer to a look-up.

    Attributes:
        url: The broker that serves the topic, or that is to be asked next.
        is_final: Whether the broker serves the topic.
        by_proxy: Whether that broker is reached only through the address that was asked.
        authoritative: Whether the next broker must answer for itself.
    """

    url: str
    is_final: bool
    by_proxy: bool
    authoritative: bool


def read_lookup(content: Mapping[int, Any], *, tls: bool) -> LookupAnswer:
    """Return the answer to a look-up. Raise ClientError if the look-up failed. ``tls`` chooses the address."""
    kind = content.get(3, _FAILED)
    if kind == _FAILED:
        raise error_at(content, 6)
    url = bytes_at(content, 2 if tls else 1).decode("utf-8", "replace")
    return LookupAnswer(url, kind == CONNECT_TO, bool(content.get(8)), bool(content.get(5)))


def framed(kind: int, content: bytes = b"") -> bytes:
    """Return a simple frame with one command."""
    command = integer(1, kind) + text(kind, content)
    return SIZES.pack(len(command) + 4, len(command)) + command


def connect(client: str, login: BrokerLogin, broker: str) -> bytes:
    """Return the frame that opens a connection. ``broker`` is the broker to which a proxy forwards, or
    ""."""
    parts = [text(1, client), integer(4, PROTOCOL), text(10, REFRESHES_LOGIN)]
    if login.method:
        parts += [text(3, login.data), text(5, login.method)]
    if broker:
        parts.append(text(6, broker))
    return framed(CONNECT, b"".join(parts))


def credentials(client: str, login: BrokerLogin) -> bytes:
    """Return the frame that answers a request for new credentials."""
    response = text(1, login.method) + text(2, login.data)
    return framed(AUTH_RESPONSE, text(1, client) + text(2, response) + integer(3, PROTOCOL))


def lookup(topic: str, request: int, *, authoritative: bool) -> bytes:
    """Return the frame that asks for the broker of a topic."""
    content = text(1, topic) + integer(2, request) + integer(3, int(authoritative))
    return framed(LOOKUP, content)


def producer(topic: str, number: int, request: int) -> bytes:
    """Return the frame that opens a producer. The broker names it."""
    return framed(PRODUCER, text(1, topic) + integer(2, number) + integer(3, request))


def close_producer(number: int, request: int) -> bytes:
    """Return the frame that closes a producer."""
    return framed(CLOSE_PRODUCER, integer(1, number) + integer(2, request))
