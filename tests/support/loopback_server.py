"""A server on loopback whose connections are tasks, which end with the server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from typing import Any


class LoopbackServer:
    """A server that keeps the port of its first start, so that it can be started again on the same
    port."""

    def __init__(self) -> None:
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._server = await asyncio.start_server(self._accept, host, self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in tuple(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Start the task of a new connection."""
        raise NotImplementedError

    def _begin(self, serving: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
