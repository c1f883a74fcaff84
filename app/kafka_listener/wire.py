"""Convert requests and responses of Kafka's protocol from bytes to the message classes of ``kio``
and back.

Each API version has its own class. Handlers use the fields of the newest version, and fields that a
version lacks are dropped.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from functools import lru_cache
from struct import Struct
from struct import error as BadStruct  # noqa: N812 - an exception
from sys import modules
from threading import RLock
from types import ModuleType
from typing import Any

import msgspec
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from app.kafka_listener.lengths import LengthCheck, Step, steps_of

_HEADER = Struct(">hhi")  # api key, version, correlation id
_SIZE = Struct(">i")
SIZE = _SIZE.size

API_VERSIONS = 18
UNTHROTTLED = timedelta(0)
RIGHTS_NOT_REQUESTED = -(1 << 31)  # Kafka's value if the client did not request its rights
Steps = tuple[Step, ...]
OfferedVersions = Mapping[int, tuple[int, int]]
"""The oldest and newest offered version of each API, by its key."""


class Malformed(Exception):
    """The error for a request that cannot be read. It ends the connection, and its text goes to the
    log.
    """


class KafkaRequest(msgspec.Struct, frozen=True):
    """A request of a client.

    ``payload`` has the class of ``kio`` for this API and version. ``shapes`` has the classes for
    the response.
    """

    api: int
    version: int
    correlation: int
    client: str
    payload: Any
    shapes: ResponseShapes


class ResponseShapes:
    """The response classes of one API version, as attributes with their names in ``kio``.

    For example, ``shapes.MetadataResponseTopic(name=..., topic_id=...)``. Fields that the version
    lacks are dropped.
    """

    def __init__(self, api: int, version: int) -> None:
        response: type[Any] = load_response_schema(api, version)
        self._api = api
        self.flexible: bool = response.__header_schema__.__flexible__
        self._module = modules[response.__module__]
        self.write: Callable[[io.BytesIO, Any], None] = entity_writer(response)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        shape: type[Any] | None = getattr(self._module, name, None)
        if shape is None:
            return self._missing_class(name)
        known = frozenset(field.name for field in fields(shape))

        def make(**given: Any) -> Any:
            return shape(**{name: value for name, value in given.items() if name in known})

        setattr(self, name, make)
        return make

    def _missing_class(self, name: str) -> Callable[..., Any]:
        """Return a function that returns None, for a class that only later versions have.

        Raise AttributeError for a class that no version has.
        """
        if not any(hasattr(module, name) for module in _modules(self._api)):
            raise AttributeError(name)
        setattr(self, name, _nothing)
        return _nothing


def _nothing(**_: Any) -> None:
    """Return None in place of a part that the version lacks."""


def _modules(api: int) -> Iterator[ModuleType]:
    """Yield the response modules of an API, the newest version first."""
    for version in sorted(schema_name_map[api_key_map[api]], reverse=True):
        yield modules[load_response_schema(api, version).__module__]


_loading = RLock()  # two threads that import modules of kio could deadlock


@lru_cache(maxsize=512)
def _shapes(api: int, version: int) -> ResponseShapes:
    with _loading:
        return ResponseShapes(api, version)


@lru_cache(maxsize=512)
def _reader(api: int, version: int) -> tuple[Callable[..., tuple[Any, int]], Steps, bool]:
    with _loading:
        schema: Any = load_request_schema(api, version)
        return entity_reader(schema), steps_of(schema), schema.__header_schema__.__flexible__


_prepared: set[bytes] = set()


def is_prepared(frame: bytes) -> bool:
    """Return True if requests of this API version can be read at once."""
    return frame[:4] in _prepared


def prepare(frame: bytes, offered: OfferedVersions) -> None:
    """Load and compile the classes of a request's API version, which takes up to 30 ms. This may
    run in any thread.

    Nothing is loaded for a version that is not offered.
    """
    if len(frame) >= _HEADER.size:
        api, version, _ = _HEADER.unpack_from(frame)
        oldest, newest = offered.get(api, (0, -1))
        if oldest <= version <= newest:
            _reader(api, version)
            _shapes(api, version)
            _prepared.add(bytes(frame[:4]))


def size_of(head: bytes) -> int:
    """Return the size of a request in bytes, from its first four bytes."""
    (size,) = _SIZE.unpack(head)
    return int(size)


def read_request(frame: bytes, offered: OfferedVersions) -> KafkaRequest:
    """Parse a request, given without its size. Raise Malformed.

    An ApiVersions request of an unknown newer version has version -1, because its response must
    list the versions (KIP-511).
    """
    try:
        return _read(frame, offered)
    except (SerialError, BadStruct, ValueError, LookupError, OverflowError) as error:
        raise Malformed(f"a request cannot be read: {error}") from error


def _read(frame: bytes, offered: OfferedVersions) -> KafkaRequest:
    api, version, correlation = _HEADER.unpack_from(frame)
    oldest, newest = offered.get(api, (0, -1))
    if not oldest <= version <= newest:
        if api == API_VERSIONS:
            return KafkaRequest(api, -1, correlation, "", None, _shapes(api, 0))
        raise Malformed(f"API {api} is not offered in version {version}")
    read, steps, flexible = _reader(api, version)
    client, at = _client(frame, _HEADER.size)
    if flexible:
        at = _skip_tags(frame, at)
    LengthCheck(frame, at).check(steps)
    payload, _ = read(frame, at)  # later bytes are ignored, as in Kafka; librdkafka sends some
    return KafkaRequest(api, version, correlation, client, payload, _shapes(api, version))


def _client(frame: bytes, at: int) -> tuple[str, int]:
    """Return the client id and the offset after it. The id is a nullable string in every version of
    the header.
    """
    length = int.from_bytes(frame[at : at + 2], "big", signed=True)
    at += 2
    if length < 0:
        return "", at
    if at + length > len(frame):
        raise Malformed("a request ends within its client id")
    return frame[at : at + length].decode("utf-8", "replace"), at + length


def _skip_tags(frame: bytes, at: int) -> int:
    """Return the offset after the tagged fields of the header, all of which are ignored."""
    count, at = _varint(frame, at)
    for _ in range(count):
        _, at = _varint(frame, at)
        size, at = _varint(frame, at)
        at += size
    if at > len(frame):
        raise Malformed("a request ends within its header")
    return at


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(frame) or shift > 28:  # noqa: PLR2004 - five groups of seven bits
            raise Malformed("a number in a header does not end")
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the top bit means that more follow
            return value, at
        shift += 7


def write_answer(request: KafkaRequest, answer: Any) -> memoryview:
    """Return the bytes of a response, with its size.

    The header of ApiVersions responses never has tags, so that every client can read it.
    """
    buffer = io.BytesIO()
    buffer.write(b"\0\0\0\0")
    buffer.write(_SIZE.pack(request.correlation))
    if request.shapes.flexible and request.api != API_VERSIONS:
        buffer.write(b"\0")
    request.shapes.write(buffer, answer)
    frame = buffer.getbuffer()
    frame[:SIZE] = _SIZE.pack(len(frame) - SIZE)
    return frame


__all__ = [
    "API_VERSIONS",
    "SIZE",
    "ErrorCode",
    "KafkaRequest",
    "Malformed",
    "OfferedVersions",
    "ResponseShapes",
    "is_prepared",
    "prepare",
    "read_request",
    "size_of",
    "write_answer",
]
