"""The server of a Kafka listener: it accepts connections within the bounds that they share."""

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
from app.kafka_listener.connection import KafkaConnection
from app.kafka_listener.incoming import ClientReader
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.room import ByteBudget, UnreadAnswers

READ_AHEAD = 64 << 10
"""The bytes that a connection reads ahead of its requests.

Beyond twice this size, no more is read from the system. These bytes are in no budget, also before a
login and for clients that wait.
"""
MIN_STRANGERS = 16  # connections without a login or request that one address may always have
_log = logging.getLogger("skybridge.kafka_listener")


class KafkaListenerServer:
    """The listener for Kafka clients. Call ``start`` before clients connect, and ``stop`` with the
    seconds for requests in work.
    """

    def __init__(
        self,
        node: KafkaNode,
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
        self._agreeing: set[asyncio.Task[None]] = set()  # TLS handshakes
        self._connections: dict[asyncio.Task[None], KafkaConnection] = {}
        self._dropped: set[asyncio.Task[None]] = set()
        bound, share = node.settings.receiving, node.settings.share
        self._received = ByteBudget(bound, share)
        self._expanded = ByteBudget(bound, share)
        self._unread = UnreadAnswers(bound, share)

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port that clients must use."""
        return self._node.address

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._connections)

    @property
    def held(self) -> int:
        """Return the bytes of unfinished requests and of their decompressed batches."""
        return self._received.held + self._expanded.held

    @property
    def unread(self) -> int:
        """Return the bytes of responses that clients have not read."""
        return self._unread.held

    async def start(self) -> None:
        """Open the port. Raise SetupError if the address cannot be used."""
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
                room=self._free_places,
                within=settings.handshake_timeout,
                shutdown=1.0,
                refused=self._count_refused,
                share=max(MIN_STRANGERS, share_of(settings.connections)),
                sender=lambda peer: network_of(peer[0]),
            )
        host, port = self._listening.getsockname()[:2]
        self._node.address = settings.advertised or (host, port)

    async def stop(self, drain: float) -> None:
        """Stop reading, and answer requests in work for at most ``drain`` seconds."""
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
        reader = ClientReader(READ_AHEAD)

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(reader, writer)

        return asyncio.StreamReaderProtocol(reader, connected)

    async def _accept(self, reader: ClientReader, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        address = network_of(name[0]) if name else ""
        if not self._make_room(address):
            self._count_refused(name)
            writer.close()
            return
        self._node.counters.add("kafka_connections", "accepted")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server runs this method as a task
        stranger = self._node.logins is not None
        session = KafkaSession(
            _peer_text(name),
            self._expanded,
            self._unread,
            authenticated=not stranger,
            address=address,
            connected=writer.get_extra_info("socket"),
        )
        connection = KafkaConnection(self._node, session, reader, writer, self._received)
        self._connections[task] = connection
        try:
            await connection.serve()
        finally:
            self._connections.pop(task, None)
            self._dropped.discard(task)

    def _free_places(self) -> int:
        """Return how many more connections may be open."""
        self._make_room("")
        return self._node.settings.connections - len(self._connections)

    def _make_room(self, address: str) -> bool:
        """Return True if one more connection from ``address`` may be open, and close an inactive
        one if that is needed.

        A connection without a login or request is closed if its address has its share of them, or
        if all places are used. If users hold all places, a user with more than its share loses its
        longest idle connection.
        """
        most = self._node.settings.connections
        share = share_of(most)
        if len(self._connections) >= share:
            strangers = [each for each in self._connections.values() if each.stranger]
            here = [each for each in strangers if each.address == address]
            if len(here) >= max(share, MIN_STRANGERS):
                self._drop(here)
            elif len(self._connections) >= most:
                self._drop(_largest(strangers, lambda each: each.address))
        if len(self._connections) >= most:
            users = [each for each in self._connections.values() if each.user]
            candidates = _largest(users, lambda each: each.user)
            if len(candidates) > share:
                self._drop(candidates)
        return len(self._connections) < most

    def _drop(self, candidates: Sequence[KafkaConnection]) -> None:
        """Close the connection that was idle for longest."""
        if not candidates:
            return
        dropped = min(candidates, key=lambda each: each.heard)
        task = next(task for task, each in self._connections.items() if each is dropped)
        del self._connections[task]
        self._dropped.add(task)
        self._node.counters.add("kafka_connections", "displaced")
        dropped.drop()

    def _count_refused(self, name: Any) -> None:
        self._node.counters.add("kafka_connections", "refused")
        self._node.refused_connections += 1
        _log.warning(
            "%s: refused, %d connections are open", _peer_text(name), len(self._connections)
        )


def _largest(
    connections: Iterable[KafkaConnection], key: Callable[[KafkaConnection], str]
) -> list[KafkaConnection]:
    """Return the connections of the key, such as a user, that has most of them."""
    crowds: dict[str, list[KafkaConnection]] = {}
    for each in connections:
        crowds.setdefault(key(each), []).append(each)
    return max(crowds.values(), key=len, default=[])


def _peer_text(name: Any) -> str:
    return f"{name[0]}:{name[1]}" if name else "a client that is gone"
