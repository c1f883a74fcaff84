"""A TCP proxy that delays every byte, in both directions, because these kernels have no ``netem``.

The first line that the server reads names the client: ``PROXY TCP4 client server port port`` (version 1 of the PROXY
protocol), so that the server knows the host behind the relay.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

CHUNK = 1 << 16


class Relay:
    """A relay to a port of loopback.

    Attributes:
        delay: Seconds by which each byte is late in each direction, from now on.
        connections: How many are open.
    """

    def __init__(self, upstream: int) -> None:
        self.delay = 0.0
        self.connections = 0
        self._upstream = upstream

    async def listen(self, port: int, host: str = "0.0.0.0") -> asyncio.Server:
        """Listen on this port, 0 for a free one."""
        return await asyncio.start_server(self._accept, host, port, backlog=512)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._connect(reader, writer)
        finally:
            self.connections -= 1
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        client, own = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        far_writer.write(f"PROXY TCP4 {client[0]} {own[0]} {client[1]} {own[1]}\r\n".encode())
        await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass the bytes of one direction on until it ends, and then close the other end."""
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(late, writer))
        loop = asyncio.get_running_loop()
        chunk = b"?"
        while chunk:
            try:
                chunk = await reader.read(CHUNK)
            except OSError:
                chunk = b""
            late.put_nowait((loop.time() + self.delay, chunk))
        await sending

    @staticmethod
    async def _send(late: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                due, chunk = await late.get()
                if (wait := due - loop.time()) > 0:
                    await asyncio.sleep(wait)
                if not chunk:
                    break
                writer.write(chunk)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
