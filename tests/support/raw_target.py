"""A webhook on a loopback port whose connections a test plays by hand, byte for byte."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

from loopback_server import LoopbackServer

Play = Callable[["Played"], Awaitable[None]]


class Played:
    """One connection. ``number``: counted from 0."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self.reader, self.writer, self.number = reader, writer, number

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def request(self) -> bytes:
        """Head and body."""
        head = await self.head()
        (length,) = (
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        return head + await self.reader.readexactly(length)

    async def say(self, *pieces: bytes) -> None:
        """Each in a packet of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.002)

    async def until_left(self) -> int:
        """How many bytes came until the other side hung up."""
        count = 0
        try:
            while data := await self.reader.read(2**16):
                count += len(data)
        except ConnectionError:
            pass
        return count

    def reset(self) -> None:
        """As a process that died: no orderly end."""
        found = self.writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class RawTarget(LoopbackServer):
    """``connections``: so many came; ``gone``: so many have ended."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.connections = 0
        self.gone = 0
        super().__init__()

    async def start(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> str:
        """Its URL."""
        await self.listen(tls, host)
        shown = f"[{host}]" if ":" in host else host
        return f"http{'s' * (tls is not None)}://{shown}:{self.port}/hook"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        played = Played(reader, writer, self.connections)
        self.connections += 1
        self._begin(self._run(played))

    async def _run(self, played: Played) -> None:
        try:
            await self.play(played)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return
        finally:
            played.writer.transport.abort()
            self.gone += 1
