"""A listener's life: uvicorn without its signals, inside the loop that is running.

``runtime`` owns the signals (rule 11); this starts, tells its port, and stops within a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from functools import partial
from typing import Any

from uvicorn import Config, Server

from app.errors import SetupError
from app.gateway.asgi import EventsApp
from app.gateway.http_wire import Renderer
from app.gateway.httptools_protocol import EventsProtocol, HttpProtocol
from app.gateway.intakes import Intakes
from app.gateway.limits import Limits
from app.gateway.listener import Listener
from app.gateway.port import BACKLOG, LOOPBACK, is_loopback, open_port, share_port
from app.gateway.resource import CallBack, EventsPolicy, EventsResource, Publishing
from app.gateway.tls import Certificates, Handshakes, Tls
from app.gateway.uvicorn_adapter import demand_known_uvicorn
from app.telemetry import Counters
from app.telemetry.tasks import keep

_log = logging.getLogger(__name__)

_POLL = 0.01  # seconds; uvicorn keeps its connections in a plain set, which tells nobody
_ABORT_BOUND = 1.0  # seconds for aborted connections to be gone
_DATE = 1.0  # seconds between dates of the answers


class HttpServer:
    """One listener around an ASGI application. ``port`` 0 takes a free one; ``port`` and ``url`` tell which,
    once started. ``settings`` names host, port and TLS in error messages, as ``gateway.port`` has it.
    ``installation``: gateways of this one may listen on the port too."""

    def __init__(
        self,
        app: Any,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        listener: Listener | None = None,
        protocol: type[HttpProtocol] = HttpProtocol,
        settings: str = "{}",
        installation: str | None = None,
        tls: Tls | None = None,
        date_header: bool = True,
    ) -> None:
        self.host = host
        self.port = port
        self._app = app
        self._listener = listener or Listener(Limits())
        self._protocol = protocol
        self._settings = settings
        self._installation = installation
        self._mark: socket.socket | None = None
        self._tls = tls
        self._date_header = date_header
        self._uvicorn: Server | None = None
        self._sockets: list[socket.socket] = []
        self._handshakes: Handshakes | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._certificates: Certificates | None = None

    async def start(self) -> None:
        """Returns when the port is open. Raises SetupError naming the setting."""
        demand_known_uvicorn()
        certificates = Certificates(self._tls, self._settings.format("tls")) if self._tls else None
        self._certificates = certificates
        server = self._build()
        self._sockets = [self._open()]
        self.port = self._sockets[0].getsockname()[1]
        self._uvicorn = server
        await server.startup(sockets=[] if certificates else self._sockets)
        await server.on_tick(0)  # sets the headers of every answer
        if self._date_header:
            self._tasks.append(keep("listener", partial(self._keep_date, server), str(self.port)))
        if certificates is not None:
            self._tasks.append(certificates.watch())
            self._handshakes = self._begin_handshakes(server, certificates)

    async def stop(self, drain: float = 25.0) -> None:
        """Take nothing new, answer what is due, close. After ``drain`` seconds what is left is cut:
        it has not been answered 2xx, so its sender repeats it (reliability G6)."""
        server = self._uvicorn
        if server is None:
            return
        self._uvicorn = None
        if self._handshakes is not None:
            self._handshakes.stop()
        for listener in server.servers:
            listener.close()
        for each in (*self._sockets, self._mark):
            if each is not None:
                each.close()
        if not await _drained(server.server_state, drain):
            _cut(server.server_state)
            await _drained(server.server_state, _ABORT_BOUND)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _keep_date(self, server: Server) -> None:
        """In place of uvicorn's loop, which wakes ten times a second to see whether it shall end: ``stop`` ends us."""
        while True:
            await asyncio.sleep(_DATE)
            await server.on_tick(0)

    def _open(self) -> socket.socket:
        if self._installation is None:
            return open_port(self.host, self.port, self._settings)
        self._mark = share_port(self.port, self._installation)
        try:
            return open_port(self.host, self.port, self._settings, shared=True)
        except SetupError:
            self._mark.close()
            raise

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    @property
    def connections(self) -> int:
        """Open connections, for the metrics."""
        return len(self._uvicorn.server_state.connections) if self._uvicorn else 0

    def _begin_handshakes(self, server: Server, certificates: Certificates) -> Handshakes:
        state = server.server_state
        protocol: Any = server.config.http_protocol_class
        make = partial(protocol, server.config, state, {})
        return Handshakes(
            self._sockets[0],
            certificates.context,
            make,
            tasks=state.tasks,
            room=lambda: self._listener.limits.connections - len(state.connections),
            within=self._listener.limits.handshake_timeout,
        )

    def _build(self) -> Server:
        make: Any = partial(self._protocol, listener=self._listener, renderer=Renderer())
        config = Config(
            self._app,
            http=make,
            ws="none",
            lifespan="off",
            interface="asgi3",
            loop="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=self._date_header,
            proxy_headers=False,
            backlog=BACKLOG,
        )
        config.load()
        server = Server(config)
        server.lifespan = config.lifespan_class(config)
        return server


class EventsServer(HttpServer):
    """The listener of ``/events``."""

    def __init__(
        self,
        publisher: Publishing,
        counters: Counters,
        policy: EventsPolicy | None = None,
        *,
        port: int = 8080,
        date_header: bool = False,
        call_back: CallBack | None = None,
        **settings: Any,
    ) -> None:
        self.resource = EventsResource(
            publisher,
            policy or EventsPolicy(intakes=Intakes((), counters)),
            counters,
            call_back,
            on_loopback=is_loopback(settings.get("host", LOOPBACK)),
        )
        super().__init__(
            EventsApp(self.resource),
            port=port,
            listener=self.resource,
            protocol=EventsProtocol,
            settings="server.events.{}",
            date_header=date_header,
            **settings,
        )

    async def start(self) -> None:
        await super().start()
        _log.info("events listener on %s:%d", self.host, self.port)

    def apply(self, policy: EventsPolicy) -> None:
        """Decide and bound by another policy from now on; the port and its connections stay."""
        self.resource.apply(policy)
        if self._certificates is not None:
            self._certificates.demand_clients(policy.demands_client)


async def _drained(state: Any, bound: float) -> bool:
    """Whether every connection closed by itself within ``bound`` seconds. Each is told once to end;
    one that was accepted at the last moment too."""
    told: set[object] = set()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bound):
            while state.connections or state.tasks:
                for connection in state.connections - told:
                    told.add(connection)
                    connection.shutdown()
                await asyncio.sleep(_POLL)
    return not (state.connections or state.tasks)


def _cut(state: Any) -> None:
    _log.warning("drain time is over: %d connections are closed", len(state.connections))
    for task in state.tasks:
        task.cancel()
    for connection in list(state.connections):
        connection.transport.abort()
