"""Listens, and keeps the bounds that all connections share."""

from __future__ import annotations

import asyncio
import logging
import ssl

from app.errors import SetupError
from app.kafka_listener.connection import Connection, Incoming
from app.kafka_listener.node import Node, Session
from app.kafka_listener.room import Room

READ_AHEAD = (
    1 << 20
)  # bytes of one connection that are taken from the system before they are asked for
_log = logging.getLogger("skybridge.kafka_listener")


class KafkaListener:
    """``start`` before clients, ``stop`` gives requests in work so many seconds."""

    def __init__(
        self,
        node: Node,
        *,
        setting: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._node = node
        self._setting = setting
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._received = Room(node.settings.receiving)
        self._expanded = Room(node.settings.receiving)

    @property
    def address(self) -> tuple[str, int]:
        """What clients are told."""
        return self._node.address

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def held(self) -> int:
        """Bytes of requests that are not finished, and of what was expanded of them."""
        return self._received.held + self._expanded.held

    async def start(self) -> None:
        """Raises SetupError for an address that cannot be had."""
        settings = self._node.settings
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._protocol,
                host=settings.host,
                port=settings.port,
                ssl=self._tls,
                ssl_handshake_timeout=settings.handshake_timeout if self._tls else None,
                ssl_shutdown_timeout=1.0 if self._tls else None,
            )
        except OSError as error:
            raise SetupError(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}",
                setting=self._setting,
                cure="name a free port, or 0 for any",
            ) from error
        host, port = self._server.sockets[0].getsockname()[:2]
        self._node.address = settings.advertised or (host, port)

    async def stop(self, drain: float) -> None:
        """What is in work is answered as far as ``drain`` allows; nothing more is read."""
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections.values():
            connection.leave()
        if self._connections:
            await asyncio.wait(self._connections, timeout=drain)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._server = None

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = Incoming(READ_AHEAD)

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(reader, writer)

        return asyncio.StreamReaderProtocol(reader, connected)

    async def _accept(self, reader: Incoming, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        peer = f"{name[0]}:{name[1]}" if name else "a client that is gone"
        if len(self._connections) >= self._node.settings.connections:
            self._node.counters.add("kafka_connections", "refused")
            self._node.refused_connections += 1
            _log.warning("%s: refused, %d connections are open", peer, len(self._connections))
            writer.close()
            return
        self._node.counters.add("kafka_connections", "accepted")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server runs it as one
        session = Session(peer, self._expanded, authenticated=self._node.logins is None)
        connection = Connection(self._node, session, reader, writer, self._received)
        self._connections[task] = connection
        try:
            await connection.serve()
        finally:
            del self._connections[task]
