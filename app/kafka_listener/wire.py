"""Frames of Kafka's protocol as the message classes of ``kio``, and back (seed 001: framing, request and
response headers).

A class a version: handlers name the fields of the newest version, and what a version does not have is
left out.
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

from app.kafka_listener.lengths import Step, Walk, steps_of

_HEADER = Struct(">hhi")  # api key, version, correlation id
_SIZE = Struct(">i")
SIZE = _SIZE.size

API_VERSIONS = 18
UNTHROTTLED = timedelta(0)
UNASKED_RIGHTS = -(1 << 31)  # of a client that did not ask what it may do
Steps = tuple[Step, ...]
Offered = Mapping[int, tuple[int, int]]
"""The oldest and the newest version of each API, by its key."""


class Malformed(Exception):
    """A frame that cannot be read: the connection ends, with this as the reason in the log."""


class Request(msgspec.Struct, frozen=True):
    """``payload``: of the class that ``kio`` has for this API and version. ``shapes`` makes the answer."""

    api: int
    version: int
    correlation: int
    client: str
    payload: Any
    shapes: Shapes


class Shapes:
    """The response classes of one API in one version, as attributes by their names in ``kio``:
    ``shapes.MetadataResponseTopic(name=..., topic_id=...)``. Fields that the version lacks are dropped."""

    def __init__(self, api: int, version: int) -> None:
        response: type[Any] = load_response_schema(api, version)
        self._api = api
        self.flexible: bool = response.__header_schema__.__flexible__
        self._module = modules[response.__module__]
        self.write: Callable[[io.BytesIO, Any], None] = entity_writer(response)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        shape: type[Any] | None = getattr(self._module, name, None)
        if shape is None:
            return self._lacking(name)
        known = frozenset(field.name for field in fields(shape))

        def make(**given: Any) -> Any:
            return shape(**{name: value for name, value in given.items() if name in known})

        setattr(self, name, make)
        return make

    def _lacking(self, name: str) -> Callable[..., Any]:
        """Return what makes nothing of a part that a later version has, as fields that a version lacks are dropped.
        Raises AttributeError for a part that no version has."""
        if not any(hasattr(module, name) for module in _modules(self._api)):
            raise AttributeError(name)
        setattr(self, name, _nothing)
        return _nothing


def _nothing(**_: Any) -> None:
    """Stand in for a part that a version lacks."""


def _modules(api: int) -> Iterator[ModuleType]:
    """Return the modules of an API's responses, the newest version first."""
    for version in sorted(schema_name_map[api_key_map[api]], reverse=True):
        yield modules[load_response_schema(api, version).__module__]


_loading = (
    RLock()
)  # two threads that import modules of kio from both ends would wait for each other


@lru_cache(maxsize=512)
def _shapes(api: int, version: int) -> Shapes:
    with _loading:
        return Shapes(api, version)


@lru_cache(maxsize=512)
def _reader(api: int, version: int) -> tuple[Callable[..., tuple[Any, int]], Steps, bool]:
    with _loading:
        schema: Any = load_request_schema(api, version)
        return entity_reader(schema), steps_of(schema), schema.__header_schema__.__flexible__


_prepared: set[bytes] = set()


def is_prepared(frame: bytes) -> bool:
    """Whether requests of this API and version can be read at once."""
    return frame[:4] in _prepared


def prepare(frame: bytes, offered: Offered) -> None:
    """Any thread: the first request of its kind has its classes loaded and compiled, which takes up to
    30 ms. Nothing is done for what is not offered."""
    if len(frame) >= _HEADER.size:
        api, version, _ = _HEADER.unpack_from(frame)
        oldest, newest = offered.get(api, (0, -1))
        if oldest <= version <= newest:
            _reader(api, version)
            _shapes(api, version)
            _prepared.add(bytes(frame[:4]))


def size_of(head: bytes) -> int:
    (size,) = _SIZE.unpack(head)
    return int(size)


def read_request(frame: bytes, offered: Offered) -> Request:
    """Without its size. An ApiVersions request in a version from the future is read as none, for its
    answer is to tell which there are (KIP-511). Raises Malformed."""
    try:
        return _read(frame, offered)
    except (SerialError, BadStruct, ValueError, LookupError, OverflowError) as error:
        raise Malformed(f"a request cannot be read: {error}") from error


def _read(frame: bytes, offered: Offered) -> Request:
    api, version, correlation = _HEADER.unpack_from(frame)
    oldest, newest = offered.get(api, (0, -1))
    if not oldest <= version <= newest:
        if api == API_VERSIONS:
            return Request(api, -1, correlation, "", None, _shapes(api, 0))
        raise Malformed(f"API {api} is not offered in version {version}")
    read, steps, flexible = _reader(api, version)
    client, at = _client(frame, _HEADER.size)
    if flexible:
        at = _past_tags(frame, at)
    Walk(frame, at).over(steps)  # before anything is made of what it says
    payload, _ = read(
        frame, at
    )  # bytes behind it are passed over, as Kafka does: librdkafka has some
    return Request(api, version, correlation, client, payload, _shapes(api, version))


def _client(frame: bytes, at: int) -> tuple[str, int]:
    """The client id is a plain nullable string in every version of the header."""
    length = int.from_bytes(frame[at : at + 2], "big", signed=True)
    at += 2
    if length < 0:
        return "", at
    if at + length > len(frame):
        raise Malformed("a request ends within its client id")
    return frame[at : at + length].decode("utf-8", "replace"), at + length


def _past_tags(frame: bytes, at: int) -> int:
    """Tagged fields of the header: none is known, all are passed over."""
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
        if byte < 0x80:  # noqa: PLR2004 - the top bit says that more follow
            return value, at
        shift += 7


def write_answer(request: Request, answer: Any) -> memoryview:
    """A frame with its size. The header of ApiVersions' answers never has tags, so that every client can
    read it."""
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
    "Malformed",
    "Offered",
    "Request",
    "Shapes",
    "is_prepared",
    "prepare",
    "read_request",
    "size_of",
    "write_answer",
]
