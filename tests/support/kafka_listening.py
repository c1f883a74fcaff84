"""A Kafka listener over its own embedded log, in the process of the test."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from struct import pack
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader, entity_writer

from app.interfaces.clock import SystemClock
from app.kafka_listener.gate import CloudEventsGate
from app.kafka_listener.node import KafkaListenerSettings, KafkaNode
from app.kafka_listener.server import KafkaListenerServer
from app.log.engine import LogEngine
from app.log.settings import EngineSettings
from app.telemetry import Counters

LOCAL = "127.0.0.1"


class KafkaTestListener:
    def __init__(self, node: KafkaNode, listener: KafkaListenerServer) -> None:
        self.node = node
        self.engine = node.engine
        self.listener = listener
        self.counters = node.counters

    @property
    def servers(self) -> str:
        host, port = self.listener.address
        return f"{host}:{port}"

    async def connect(self) -> RawClient:
        return RawClient(*await asyncio.open_connection(*self.listener.address))


class RawClient:
    """A client that sends and receives frames of Kafka's protocol as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, frame: bytes) -> bytes:
        await self.send(frame)
        return await self.take()

    async def call(self, payload: Any, correlation: int = 7) -> Any:
        """Send a request of ``kio`` and return the parsed answer."""
        answer = await self.ask(framed(payload, correlation))
        return unframed(payload, answer, correlation)

    async def send(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(4, "big") + frame)
        await self.writer.drain()

    async def take(self) -> bytes:
        """Return the next frame without its size, or no bytes if the connection was closed."""
        try:
            async with asyncio.timeout(60):
                size = int.from_bytes(await self.reader.readexactly(4), "big")
                return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def framed(payload: Any, correlation: int = 7) -> bytes:
    kind = type(payload)
    body = io.BytesIO()
    entity_writer(kind)(body, payload)
    tags = b"\0" if kind.__header_schema__.__flexible__ else b""
    head = pack(">hhih", kind.__api_key__, kind.__version__, correlation, 4)
    return head + b"test" + tags + body.getvalue()


def unframed(payload: Any, answer: bytes, correlation: int = 7) -> Any:
    kind = load_response_schema(payload.__api_key__, payload.__version__)
    at = 5 if kind.__header_schema__.__flexible__ and kind.__api_key__ != 18 else 4
    assert answer[:4] == correlation.to_bytes(4, "big")
    found, size = entity_reader(kind)(answer, at)
    assert at + size == len(answer)
    return found


@asynccontextmanager
async def kafka_listening(
    folder: Path,
    *,
    validated: tuple[str, ...] = (),
    log: dict[str, Any] | None = None,
    tls: Any = None,
    logins: Any = None,
    own_groups: str = "",
    clock: Any = None,
    **settings: Any,
) -> AsyncIterator[KafkaTestListener]:
    engine = LogEngine(EngineSettings(path=folder, **(log or {})))
    await engine.start()
    node = KafkaNode(
        engine=engine,
        gate=CloudEventsGate(validated),
        clock=clock or SystemClock(),
        settings=KafkaListenerSettings(host=LOCAL, port=0, **settings),
        cluster=engine.cluster,
        counters=Counters(),
        logins=logins,
        own_groups=own_groups,
    )
    listener = KafkaListenerServer(node, tls=None if tls is None else lambda: tls)
    await listener.start()
    try:
        yield KafkaTestListener(node, listener)
    finally:
        await listener.stop(5.0)
        await engine.stop()
