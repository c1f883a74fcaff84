"""Start and stop a listener. It is a server of uvicorn that runs on the present event loop, without uvicorn's
signal handlers.

``runtime`` handles the signals. A stop is limited in time.
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
from app.gateway.limits import ListenerLimits
from app.gateway.listener import Listener
from app.gateway.port import BACKLOG, LOOPBACK, is_loopback, open_port, share_port
from app.gateway.resource import ConsentReceiver, EventPublisher, EventsPolicy, EventsResource
from app.gateway.tls import Certificates, Handshakes, Tls
from app.gateway.uvicorn_adapter import demand_known_uvicorn
from app.telemetry import Counters
from app.telemetry.tasks import keep

_log = logging.getLogger(__name__)

_POLL = 0.01  # seconds between checks of uvicorn's set of connections, which has no notification
_ABORT_BOUND = 1.0  # seconds that aborted connections may take to end
_DATE = 1.0  # seconds between updates of the date header


class HttpServer:
    """A listener for an ASGI application.

    Args:
        app: the application.
        host: the address.
        port: the port; 0 takes a free one. After the start, the attributes ``port`` and ``url`` have the
            actual port.
        listener: the limits of the connections.
        protocol: the protocol of the connections.
        settings: the name of the listener's settings with ``{}`` in place of the last part, such as
            ``server.events.{}``.
        installation: the name of the installation whose processes share the port; None if the port is not
            shared.
        tls: the certificates, if the listener uses TLS.
        date_header: whether answers have a Date header.
    """

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
        self._listener = listener or Listener(ListenerLimits())
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
        """Open the port. Raise SetupError, which names the wrong setting."""
        demand_known_uvicorn()
        certificates = Certificates(self._tls, self._settings.format("tls")) if self._tls else None
        self._certificates = certificates
        server = self._build()
        self._sockets = [self._open()]
        self.port = self._sockets[0].getsockname()[1]
        self._uvicorn = server
        await server.startup(sockets=[] if certificates else self._sockets)
        await server.on_tick(0)  # sets the default headers of every answer
        if self._date_header:
            self._tasks.append(keep("listener", partial(self._keep_date, server), str(self.port)))
        if certificates is not None:
            self._tasks.append(certificates.watch())
            self._handshakes = self._begin_handshakes(server, certificates)

    def leave(self) -> None:
        """End each connection with its next answer, which has `Connection: close`. New connections are still accepted.

        Senders then open connections to other pods, while no request can meet a closed connection.
        """
        self._listener.leaving = True
        if self._uvicorn is not None:
            state: Any = self._uvicorn.server_state
            for connection in state.connections:
                connection.leave()

    async def stop(self, drain: float = 25.0) -> None:
        """Stop accepting, send the answers that are due, and close the connections.

        After ``drain`` seconds, connections that are still open are aborted. Their requests were not answered
        2xx, so the senders repeat them.
        """
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
        if not await _drain(server.server_state, drain):
            _abort(server.server_state)
            await _drain(server.server_state, _ABORT_BOUND)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _keep_date(self, server: Server) -> None:
        """Update the Date header every second, until ``stop`` cancels this task. It replaces uvicorn's own
        loop, which would wake ten times a second.
        """
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
        """Return the number of open connections."""
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
    """The events listener."""

    def __init__(
        self,
        publisher: EventPublisher,
        counters: Counters,
        policy: EventsPolicy | None = None,
        *,
        port: int = 8080,
        date_header: bool = False,
        call_back: ConsentReceiver | None = None,
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
        """Apply a new policy from now on. The port stays open, and so do its connections."""
        self.resource.apply(policy)
        if self._certificates is not None:
            self._certificates.demand_clients(policy.demands_client)


async def _drain(state: Any, bound: float) -> bool:
    """Ask each connection once to end. Return True if all connections and tasks ended within
    ``bound`` seconds.

    Connections that are accepted in the meantime are also asked.
    """
    asked: set[object] = set()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bound):
            while state.connections or state.tasks:
                for connection in state.connections - asked:
                    asked.add(connection)
                    connection.shutdown()
                await asyncio.sleep(_POLL)
    return not (state.connections or state.tasks)


def _abort(state: Any) -> None:
    _log.warning("drain time is over: %d connections are closed", len(state.connections))
    for task in state.tasks:
        task.cancel()
    for connection in list(state.connections):
        connection.transport.abort()
