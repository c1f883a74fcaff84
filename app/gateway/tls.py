"""TLS of a listener: its handshakes are bounded; certificates and authorities are read again when
their files change (reliability S15).
"""

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
from app.tls import Pems, Tried, server_context

_log = logging.getLogger(__name__)

_PAUSE = 0.1  # seconds, where the system has no file descriptor left


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """``certificate``: PEM, the chain, leaf first. ``client_ca``: PEM; when set, a client is asked for a
    certificate that it signed, and ``demands_client``: it is let in with one only. ``check_every``: seconds
    between looks at the files.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    demands_client: bool = True
    check_every: float = 5.0


class _Contexts(msgspec.Struct, frozen=True):
    """Both contexts of one pair, so that a changed demand needs no file: the files on the disk may be unusable then."""

    demanding: ssl.SSLContext
    asking: ssl.SSLContext


class Certificates:
    """``context`` gives new connections the certificate that was loaded last; open connections keep
    theirs. ``setting`` names its TLS in error messages. Raises SetupError for files that cannot be used."""

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
        self._tried = Tried(pems, partial(_contexts, pems))

    def context(self) -> ssl.SSLContext:
        """Return the context of the next handshake. Each has its own sessions: none that began with other certificates,
        authorities or under another demand can be resumed, which would let a client in without a look at its certificate."""
        contexts = self._tried.current
        return contexts.demanding if self._settings.demands_client else contexts.asking

    def demand_clients(self, demands: bool) -> None:
        """From the next handshake on."""
        self._settings = msgspec.structs.replace(self._settings, demands_client=demands)

    def watch(self) -> asyncio.Task[None]:
        """Looks at the files until it is cancelled."""
        return keep("certificates", self._watch, of=self._setting)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._settings.check_every)
            await asyncio.to_thread(self._tried.look)


def _contexts(pems: Pems) -> _Contexts:
    demanding = server_context(pems, demands_client=True)
    if pems.ca is None:
        return _Contexts(demanding, demanding)
    return _Contexts(demanding, server_context(pems, demands_client=False))


class Handshakes:
    """Takes the connections of a TLS listener. A server of asyncio's tells nobody of a connection
    before its handshake is over, so it could be neither counted nor refused; this one counts and
    bounds them. ``context``: of the next one. ``make``: the protocol of a connection. ``tasks`` gets one for each handshake.
    ``room``: how many more connections there may be, handshakes not counted. ``within``: seconds
    for a handshake; ``shutdown``: for the end of TLS, None for asyncio's own. ``refused`` is called
    with the address of each peer for which there is no room. ``share``: most handshakes of one sender, as
    ``sender`` names it by the address of a peer; beyond them its oldest one ends. None: as many as there is room for.
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
        self._by_sender: dict[str, dict[asyncio.Task[None], None]] = {}  # the oldest first
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._go_on()

    def stop(self) -> None:
        """Takes no more; those under way are among ``tasks``."""
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()

    def _go_on(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        try:
            connection, peer = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as failure:
            _log.warning("connections are not accepted for %g s: %s", _PAUSE, failure)
            self._loop.remove_reader(self._listening)
            self._pause = self._loop.call_later(_PAUSE, self._go_on)
            return
        if self.under_way >= self._room():
            connection.close()
            self._refused(peer)
            return
        self.under_way += 1
        task = self._loop.create_task(self._agree(connection))
        self._tasks.add(task)
        task.add_done_callback(partial(self._agreed, connection))
        if self._share is not None:
            self._end_oldest(self._sender(peer), task, self._share)

    def _end_oldest(self, sender: str, task: asyncio.Task[None], share: int) -> None:
        """Count the handshake of ``task``; end the oldest one of its sender where there are too many."""
        here = self._by_sender.setdefault(sender, {})
        if len(here) >= share:
            next(iter(here)).cancel()
        here[task] = None
        task.add_done_callback(partial(self._left, sender))

    def _left(self, sender: str, task: asyncio.Task[None]) -> None:
        here = self._by_sender[sender]
        del here[task]
        if not here:
            del self._by_sender[sender]

    async def _agree(self, connection: socket.socket) -> None:
        await self._loop.connect_accepted_socket(
            self._make,
            connection,
            ssl=self._context(),
            ssl_handshake_timeout=self._within,
            ssl_shutdown_timeout=self._shutdown,
        )

    def _agreed(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self.under_way -= 1
        self._tasks.discard(task)
        if task.cancelled():
            connection.close()
        elif (failure := task.exception()) is not None:
            connection.close()
            expected = isinstance(failure, OSError)  # of the peer, or it left
            _log.log(logging.DEBUG if expected else logging.ERROR, "no TLS: %s", failure)
