"""One uvicorn around one ASGI application, inside a loop that somebody else runs.

It binds before it starts, so that port 0 is known at once, and leaves the signals alone: only
``runtime.signals`` has them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from app.gateway.port import open_port
from app.gateway.tls import Certificates, Tls


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


class AsgiServer:
    """``start`` returns when it answers; ``url`` then says where. ``stop`` waits ``grace`` seconds
    for answers that are due. ``settings`` names host, port and TLS in error messages, as
    ``gateway.port`` has it: ``server.admin.{}``.
    """

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        *,
        grace: float = 1.0,
        settings: str = "{}",
        tls: Tls | None = None,
    ) -> None:
        self._tls = tls
        self._address = (host, port)
        self._settings = settings
        self._server = _Server(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(1, round(grace)),
            )
        )
        self._task: asyncio.Task[None] | None = None
        self._certificates: asyncio.Task[None] | None = None
        self.url = ""

    async def start(self) -> None:
        self._load_certificates()
        bound = open_port(*self._address, self._settings)
        self.url = url_of(bound, "https" if self._tls else "http")
        self._task = asyncio.create_task(self._server.serve(sockets=[bound]))
        up = asyncio.create_task(self._server.up.wait())
        await asyncio.wait([up, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            up.cancel()
            self._task.result()

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task
        if self._certificates is not None:
            self._certificates.cancel()

    def _load_certificates(self) -> None:
        if self._tls is None:
            return
        certificates = Certificates(self._tls, self._settings.format("tls"))
        self._server.config.load()
        self._server.config.ssl = certificates.context
        self._certificates = asyncio.create_task(certificates.watch())


def url_of(bound: socket.socket, scheme: str) -> str:
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
