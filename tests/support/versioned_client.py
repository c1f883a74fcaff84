"""Send requests of Kafka's protocol in any version to the Kafka listener, also such as no client
library sends.
"""

from __future__ import annotations

import io
from dataclasses import fields
from struct import pack
from sys import modules
from types import SimpleNamespace
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from app.kafka_listener.apis import OFFERED
from kafka_listening import RawClient

CORRELATION = 7
API_VERSIONS = 18


class VersionedClient:
    """A Kafka client whose ``ask`` takes the fields of the newest version. Fields that the requested version lacks
    are omitted."""

    def __init__(self, client: RawClient, name: str = "tester") -> None:
        self._client = client
        self._name = name.encode()

    async def ask(self, api: int, version: int, **given: Any) -> Any:
        schema = load_request_schema(api, version)
        module = modules[schema.__module__]
        payload = _made(schema, module, given)
        body = io.BytesIO()
        entity_writer(schema)(body, payload)
        head = pack(">hhih", api, version, CORRELATION, len(self._name)) + self._name
        tags = b"\0" if schema.__header_schema__.__flexible__ else b""
        return _answer(api, version, await self._client.ask(head + tags + body.getvalue()))

    async def close(self) -> None:
        await self._client.close()


def versions(api: int) -> range:
    """Return all versions of an API that the listener offers."""
    oldest, newest = OFFERED[api]
    return range(oldest, newest + 1)


def part(shape: str, **given: Any) -> SimpleNamespace:
    """Return a part of a request with these fields. ``shape`` is the name of its class in ``kio``."""
    return SimpleNamespace(shape=shape, given=given)


def _made(schema: Any, module: Any, given: dict[str, Any]) -> Any:
    known = {field.name for field in fields(schema)}
    return schema(**{name: _value(module, value) for name, value in given.items() if name in known})


def _value(module: Any, value: Any) -> Any:
    match value:
        case SimpleNamespace():
            return _made(getattr(module, value.shape), module, value.given)
        case tuple() | list():
            return tuple(
                _value(module, each)
                for each in value
                if not isinstance(each, SimpleNamespace) or hasattr(module, each.shape)
            )
        case _:
            return value


def _answer(api: int, version: int, frame: bytes) -> Any:
    assert frame, "the connection was closed"
    assert int.from_bytes(frame[:4], "big") == CORRELATION
    schema = load_response_schema(api, version)
    at = 4
    if schema.__header_schema__.__flexible__ and api != API_VERSIONS:
        assert frame[at] == 0
        at += 1
    answer, size = entity_reader(schema)(frame, at)
    assert at + size == len(frame)
    return answer
