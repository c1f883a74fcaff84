"""TLS of a listener. The number and duration of handshakes are limited, and changed certificate files are
read again."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from app.telemetry.tasks import keep
from app.tls import PemReloader, Pems, server_context

_log = logging.getLogger(__name__)

_PAUSE = 0.1  # seconds without new connections if no file descriptor is left


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS settings of a listener.

    Attributes:
        certificate: PEM file with the certificate chain, leaf first.
        key: PEM file with the private key.
        client_ca: PEM file with the certificate authorities for clients. If it is set, clients are asked for
            a certificate.
        demands_client: whether a client without a certificate is rejected.
        check_every: seconds between checks of the files.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    demands_client: bool = True
    check_every: float = 5.0


class _ContextPair(msgspec.Struct, frozen=True):
    """Two TLS contexts: one demands a client certificate, and the other only requests one.

    Both are created at the start. So a change of this demand does not need the files, which may be invalid by
    then.
    """

    demanding: ssl.SSLContext
    asking: ssl.SSLContext


class Certificates:
    """The certificates of a listener. New connections use the certificates that were loaded last, and open
    connections keep their own.

    ``setting`` is the name of the TLS setting for error messages. The constructor raises SetupError for files
    that cannot be used.
    """

    def __init__(self, settings: Tls, setting: str = "server.events.tls") -> None:
        self._settings = settings
        self._setting = setting
        pems = Pems(
            setting=setting,
            cert=settings.certificate,
            key=settings.key,
            ca=settings.client_ca,
            ca_part="client_ca",
            signs=True,
        )
        self._tried = PemReloader(pems, partial(_contexts, pems))

    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake.

        Each context has its own TLS sessions. Otherwise a session that began under other certificate
        authorities could be resumed, and the client's certificate would not be checked.
        """
        contexts = self._tried.current
        return contexts.demanding if self._settings.demands_client else contexts.asking

    def demand_clients(self, demands: bool) -> None:
        """Set whether clients need a certificate, from the next handshake on."""
        self._settings = msgspec.structs.replace(self._settings, demands_client=demands)

    def watch(self) -> asyncio.Task[None]:
        """Start a task that checks the files until it is cancelled."""
        return keep("certificates", self._watch, of=self._setting)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._settings.check_every)
            await asyncio.to_thread(self._tried.look)


def _contexts(pems: Pems) -> _ContextPair:
    demanding = server_context(pems, demands_client=True)
    if pems.ca is None:
        return _ContextPair(demanding, demanding)
    return _ContextPair(demanding, server_context(pems, demands_client=False))


class Handshakes:
    """The part of a TLS listener that accepts connections and limits their handshakes.

    The server of asyncio cannot count or refuse handshakes, because it reports a connection only after the
    handshake.

    Args:
        listening: the listening socket.
        context: a function that returns the context of the next handshake.
        make: a function that creates the protocol of a connection.
        tasks: the set to which one task is added for each handshake.
        room: a function that returns how many more connections may be open, without counting handshakes.
        within: the time limit of a handshake, in seconds.
        shutdown: the time limit for closing TLS, in seconds; None for asyncio's default.
        refused: called with the address of each client that was refused because there was no room.
        share: most handshakes of one sender; if it begins more, its oldest handshake ends. None for no limit.
        sender: a function that returns the sender for the address of a client.
    """

    def __init__(
        self,
        listening: socket.socket,
        context: Callable[[], ssl.SSLContext],
        make: Callable[[], asyncio.BaseProtocol],
        *,
        tasks: set[asyncio.Task[None]],
        room: Callable[[], int],
        within: float,
        shutdown: float | None = None,
        refused: Callable[[Any], None] = lambda _peer: None,
        share: int | None = None,
        sender: Callable[[Any], str] = str,
    ) -> None:
        self.under_way = 0
        self._listening = listening
        self._context = context
        self._make = make
        self._tasks = tasks
        self._room = room
        self._within = within
        self._shutdown = shutdown
        self._refused = refused
        self._share, self._sender = share, sender
        self._by_sender: dict[
            str, dict[asyncio.Task[None], None]
        ] = {}  # by sender, the oldest first
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._accept_again()

    def stop(self) -> None:
        """Stop accepting. Running handshakes remain in ``tasks``."""
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()

    def _accept_again(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        try:
            connection, peer = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as failure:
            _log.warning("connections are not accepted for %g s: %s", _PAUSE, failure)
            self._loop.remove_reader(self._listening)
            self._pause = self._loop.call_later(_PAUSE, self._accept_again)
            return
        if self.under_way >= self._room():
            connection.close()
            self._refused(peer)
            return
        self.under_way += 1
        task = self._loop.create_task(self._handshake(connection))
        self._tasks.add(task)
        task.add_done_callback(partial(self._handshake_done, connection))
        if self._share is not None:
            self._end_oldest(self._sender(peer), task, self._share)

    def _end_oldest(self, sender: str, task: asyncio.Task[None], share: int) -> None:
        """Count the handshake of ``task``, and end the oldest handshake of its sender if there are
        too many.
        """
        own = self._by_sender.setdefault(sender, {})
        if len(own) >= share:
            next(iter(own)).cancel()
        own[task] = None
        task.add_done_callback(partial(self._handshake_left, sender))

    def _handshake_left(self, sender: str, task: asyncio.Task[None]) -> None:
        own = self._by_sender[sender]
        del own[task]
        if not own:
            del self._by_sender[sender]

    async def _handshake(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(
            self._make,
            connection,
            ssl=self._context(),
            ssl_handshake_timeout=self._within,
            ssl_shutdown_timeout=self._shutdown,
        )

    def _handshake_done(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self.under_way -= 1
        self._tasks.discard(task)
        if task.cancelled():
            connection.close()
        elif (failure := task.exception()) is not None:
            connection.close()
            expected = isinstance(failure, OSError)  # a fault of the client, or the client left
            _log.log(logging.DEBUG if expected else logging.ERROR, "no TLS: %s", failure)
