"""A webhook on a loopback port whose responses a test writes byte by byte."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

from loopback_server import LoopbackServer

Play = Callable[["PlayedConnection"], Awaitable[None]]


class PlayedConnection:
    """A connection that a test plays by hand. ``number`` counts connections from 0."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self.reader, self.writer, self.number = reader, writer, number

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> bytes:
        """Return the head and body of the next request."""
        head = await self.head()
        (length,) = (
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        return head + await self.reader.readexactly(length)

    async def send(self, *pieces: bytes) -> None:
        """Send each piece in a packet of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.002)

    async def bytes_until_closed(self) -> int:
        """Return the count of bytes that came until the peer closed the connection."""
        count = 0
        try:
            while data := await self.reader.read(2**16):
                count += len(data)
        except ConnectionError:
            pass
        return count

    def reset(self) -> None:
        """Abort the connection with a reset, as the death of a process does."""
        found = self.writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class RawTarget(LoopbackServer):
    """A webhook that runs ``play`` for each connection.

    Attributes:
        connections: The count of accepted connections.
        gone: The count of ended connections.
    """

    def __init__(self, play: Play) -> None:
        self.play = play
        self.connections = 0
        self.gone = 0
        super().__init__()

    async def start(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> str:
        """Start to listen, and return the URL."""
        await self.listen(tls, host)
        shown = f"[{host}]" if ":" in host else host
        return f"http{'s' * (tls is not None)}://{shown}:{self.port}/hook"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        played = PlayedConnection(reader, writer, self.connections)
        self.connections += 1
        self._begin(self._run(played))

    async def _run(self, played: PlayedConnection) -> None:
        try:
            await self.play(played)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            played.writer.transport.abort()
            self.gone += 1
