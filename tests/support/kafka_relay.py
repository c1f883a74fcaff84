"""A relay between a Kafka client and a broker that parses the heads of the frames.

It shares no code with clients and knows only the framing of the protocol guide, which has not
changed since 0.8. A frame has a size; a request has api key, version, correlation id and client id;
a response has a correlation id. All traffic of a broker passes through the relay if the broker
advertises the relay's address.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

PRODUCE, FETCH, OFFSET, METADATA = 0, 1, 2, 3
"""The api keys of the four operations in the protocol guide."""


@dataclass(frozen=True)
class Request:
    """The head of a request. ``size`` is the count of bytes after the size field."""

    size: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@dataclass
class Conversation:
    """The frames of one connection, in order.

    ``answered`` has the correlation ids of responses. ``loose`` has by direction the count of bytes
    that are not yet a whole frame, which must be 0 in the end.
    """

    requests: list[Request] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    loose: dict[str, int] = field(default_factory=dict)


class KafkaRelay:
    """A relay that listens on ``port`` and forwards everything to the port ``upstream``."""

    def __init__(self, port: int, upstream: int) -> None:
        self.port = port
        self._upstream = upstream
        self.conversations: list[Conversation] = []

    @property
    def requests(self) -> list[Request]:
        return [request for each in self.conversations for request in each.requests]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KafkaRelay]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        broker, to_broker = await asyncio.open_connection("127.0.0.1", self._upstream)
        seen = Conversation()
        self.conversations.append(seen)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass(client, to_broker, _Requests(seen)))
                both.create_task(_pass(broker, to_client, _Responses(seen)))
        except* ConnectionError:
            pass
        finally:
            to_client.close()
            to_broker.close()


async def _pass(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, frames: _Frames
) -> None:
    while data := await source.read(1 << 16):
        frames.feed(data)
        target.write(data)
        await target.drain()
    target.close()


class _Frames:
    """A parser that cuts one direction of a connection into frames."""

    direction = ""

    def __init__(self, seen: Conversation) -> None:
        self.seen = seen
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            (size,) = struct.unpack_from(">i", self._buffer)
            assert size > 0, "a frame has a size"
            if len(self._buffer) < 4 + size:
                break
            self.take(bytes(self._buffer[4 : 4 + size]))
            del self._buffer[: 4 + size]
        self.seen.loose[self.direction] = len(self._buffer)

    def take(self, frame: bytes) -> None:
        raise NotImplementedError


class _Requests(_Frames):
    direction = "requests"

    def take(self, frame: bytes) -> None:
        key, version, correlation, length = struct.unpack_from(">hhih", frame)
        client = None if length < 0 else frame[10 : 10 + length].decode()
        self.seen.requests.append(Request(len(frame), key, version, correlation, client))


class _Responses(_Frames):
    direction = "responses"

    def take(self, frame: bytes) -> None:
        self.seen.answered.append(struct.unpack_from(">i", frame)[0])
