"""Listens, and keeps the bounds that all connections share."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.access.quota import share_of
from app.gateway.door import network_of
from app.gateway.port import open_port
from app.gateway.tls import Handshakes
from app.kafka_listener.connection import Connection
from app.kafka_listener.incoming import Incoming
from app.kafka_listener.node import Node, Session
from app.kafka_listener.room import Room, Unread

READ_AHEAD = 64 << 10
"""Bytes of one connection. Beyond twice of it no more is taken from the system before it is asked for: what is
read ahead is in no room, also of strangers and of clients that have to wait."""
FEW = 16  # strangers of one address that stay, however few connections there may be
_log = logging.getLogger("skybridge.kafka_listener")


class KafkaListener:
    """``start`` before clients, ``stop`` gives requests in work so many seconds."""

    def __init__(
        self,
        node: Node,
        *,
        setting: str = "",
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._node = node
        self._setting = setting
        self._tls = tls
        self._listening: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._handshakes: Handshakes | None = None
        self._agreeing: set[asyncio.Task[None]] = set()  # on TLS
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._dropped: set[asyncio.Task[None]] = set()
        bound, share = node.settings.receiving, node.settings.share
        self._received = Room(bound, share)
        self._expanded = Room(bound, share)
        self._unread = Unread(bound, share)

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

    @property
    def unread(self) -> int:
        """Bytes of records in answers that are not taken."""
        return self._unread.held

    async def start(self) -> None:
        """Raises SetupError for an address that cannot be had."""
        settings = self._node.settings
        self._listening = open_port(settings.host, settings.port, self._setting)
        if self._tls is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._protocol, sock=self._listening)
        else:
            self._handshakes = Handshakes(
                self._listening,
                self._tls,
                self._protocol,
                tasks=self._agreeing,
                room=self._room,
                within=settings.handshake_timeout,
                shutdown=1.0,
                refused=self._refused,
                share=max(FEW, share_of(settings.connections)),
                sender=lambda peer: network_of(peer[0]),
            )
        host, port = self._listening.getsockname()[:2]
        self._node.address = settings.advertised or (host, port)

    async def stop(self, drain: float) -> None:
        """What is in work is answered as far as ``drain`` allows; nothing more is read."""
        if self._listening is None:
            return
        if self._server is not None:
            self._server.close()
        if self._handshakes is not None:
            self._handshakes.stop()
        self._listening.close()
        self._listening = None
        for connection in self._connections.values():
            connection.leave()
        if self._connections:
            await asyncio.wait(self._connections, timeout=drain)
        rest = (*self._connections, *self._dropped, *self._agreeing)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = Incoming(READ_AHEAD)

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(reader, writer)

        return asyncio.StreamReaderProtocol(reader, connected)

    async def _accept(self, reader: Incoming, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        address = network_of(name[0]) if name else ""
        if not self._makes_way(address):
            self._refused(name)
            writer.close()
            return
        self._node.counters.add("kafka_connections", "accepted")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server runs it as one
        stranger = self._node.logins is not None
        session = Session(
            _shown(name),
            self._expanded,
            self._unread,
            authenticated=not stranger,
            address=address,
            connected=writer.get_extra_info("socket"),
        )
        connection = Connection(self._node, session, reader, writer, self._received)
        self._connections[task] = connection
        try:
            await connection.serve()
        finally:
            self._connections.pop(task, None)
            self._dropped.discard(task)

    def _room(self) -> int:
        """Return how many more connections there may be."""
        self._makes_way("")
        return self._node.settings.connections - len(self._connections)

    def _makes_way(self, address: str) -> bool:
        """Whether there is a place for one more connection, from ``address``. A client that does nothing gives its
        place up: of the same address where that has its share of strangers, of any where all places are taken."""
        most = self._node.settings.connections
        share = share_of(most)
        if len(self._connections) >= share:
            strangers = [each for each in self._connections.values() if each.stranger]
            here = [each for each in strangers if each.address == address]
            if len(here) >= max(share, FEW):
                self._drop(here)
            elif len(self._connections) >= most:
                self._drop(_largest(strangers, lambda each: each.address))
        if len(self._connections) >= most:
            users = [each for each in self._connections.values() if each.user]
            crowd = _largest(users, lambda each: each.user)
            if len(crowd) > share:
                self._drop(crowd)
        return len(self._connections) < most

    def _drop(self, crowd: Sequence[Connection]) -> None:
        """Close the connection that has been silent for longest."""
        if not crowd:
            return
        dropped = min(crowd, key=lambda each: each.heard)
        task = next(task for task, each in self._connections.items() if each is dropped)
        del self._connections[task]
        self._dropped.add(task)
        self._node.counters.add("kafka_connections", "displaced")
        dropped.drop()

    def _refused(self, name: Any) -> None:
        self._node.counters.add("kafka_connections", "refused")
        self._node.refused_connections += 1
        _log.warning("%s: refused, %d connections are open", _shown(name), len(self._connections))


def _largest(
    connections: Iterable[Connection], key: Callable[[Connection], str]
) -> list[Connection]:
    """Return the connections of whoever has most of them."""
    crowds: dict[str, list[Connection]] = {}
    for each in connections:
        crowds.setdefault(key(each), []).append(each)
    return max(crowds.values(), key=len, default=[])


def _shown(name: Any) -> str:
    return f"{name[0]}:{name[1]}" if name else "a client that is gone"
