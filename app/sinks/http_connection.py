"""One connection of HTTP/1.1: writes a request, waits for its answer, and ends where either fails.

One request at a time, no pipelining. What a target says beyond its answer, and whatever is no HTTP,
ends the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import ssl
from typing import Protocol, cast

from app.interfaces import SinkAnswer
from app.sinks.http_answer import BROKEN, AnswerReader, Fault

IN_ONE_WRITE = 2**16  # bytes of a body that is copied behind its head
PIECE = 2**18  # bytes of a longer one that are handed to the transport at once

_LATE = frozenset(
    {"TLSv1.3", None}
)  # versions in which ours ends first; None: the connection is closed
_TICK = 0.001  # seconds that a loop's timer may be early
_CLIP = 200  # characters of an error's text
# Alerts by which the other side ends a handshake that it has not finished, although ours is (TLS 1.3).
_REFUSED = re.compile(
    r"ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|DECRYPT_ERROR|INSUFFICIENT_SECURITY)"
)
_NEVER = math.inf


class Stale(Fault):
    """A connection that had been used before was closed before any byte of this answer came: the
    target may have closed it while it was idle, and may be asked again (RFC 9112 9.3.1)."""


class Owner(Protocol):
    """The pool that a connection belongs to."""

    def release(self, connection: Connection) -> None:
        """Take back a connection whose answer is complete."""

    def lost(self, connection: Connection) -> None:
        """Forget a connection that was closed."""


class Outbox:
    """Requests that leave one behind the other, when whatever is ready has run: the system's part of a write costs
    a third less in a row than amid everything else."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Connection, bytes]] = []

    def put(self, connection: Connection, request: bytes) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        self._waiting.append((connection, request))

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection, request in waiting:
            transport = connection.transport
            if not transport.is_closing():  # else it is given up, or its connection will say why
                transport.write(request)
                connection.unsent = False


class Connection(asyncio.Protocol):
    """``limit``: most bytes of a body. ``tunnel``: asks a proxy for a tunnel, which begins behind the
    head of its answer. ``shows_own``: it shows a client certificate."""

    __slots__ = (
        *("_loop", "_outbox", "_reader", "_tunnel", "_answer", "_deadline", "_timer", "_fires"),
        *(
            "_paused",
            "_rest",
            "_shows_own",
            "_why",
            "transport",
            "owner",
            "closed",
            "unsent",
            "used",
            "idle_since",
        ),
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        outbox: Outbox,
        limit: int,
        *,
        tunnel: bool = False,
        shows_own: bool = False,
    ) -> None:
        self._loop = loop
        self._outbox = outbox
        self._reader = AnswerReader(limit, tunnel=tunnel)
        self._tunnel = tunnel
        self._shows_own = shows_own
        self._answer: asyncio.Future[SinkAnswer] | None = None
        self._deadline = _NEVER
        self._timer: asyncio.TimerHandle | None = None
        self._fires = _NEVER
        self._paused = False
        self._rest: memoryview | None = None
        self._why: Exception | None = None  # it was lost before a request
        self.transport = cast("asyncio.Transport", None)  # until the connection is made
        self.owner: Owner | None = None  # where it goes when its answer is complete
        self.closed = False
        self.unsent = False  # its request is in the outbox
        self.used = False  # an answer came by it before
        self.idle_since = 0.0

    def send(self, head: bytes, body: bytes, deadline: float) -> asyncio.Future[SinkAnswer]:
        """``deadline``: by the loop's clock. Its result raises Fault and TimeoutError; a caller that
        goes away calls ``forsake``."""
        answer: asyncio.Future[SinkAnswer] = self._loop.create_future()
        if self.closed:
            answer.set_exception(self._lost(self._why, unsent=True))
            return answer
        self._answer = answer
        self._reader.begin()
        self._deadline = deadline
        if deadline < self._fires:
            self._set_timer(deadline)
        if len(body) <= IN_ONE_WRITE:
            self.unsent = True
            self._outbox.put(self, head + body)
        else:
            self.transport.write(head)
            self._rest = memoryview(body)
            self._write_on()
        return answer

    def forsake(self, answer: asyncio.Future[SinkAnswer]) -> None:
        """Nobody waits for it any more: the connection ends, unless it is somebody else's by now."""
        if self._answer is answer:
            self.close()

    def close(self, fault: Fault | None = None) -> None:
        """``fault``: for the request that waits for an answer."""
        if self._answer is not None:
            self._fail(fault or Fault("reset", BROKEN))
        elif not self.closed:
            self.closed = True
            if self.transport is not None:
                self.transport.abort()
            if self._timer is not None:
                self._timer.cancel()
            if self.owner is not None:
                self.owner.lost(self)

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self.unsent:  # nobody asked
            self._hung_up(None)
            return
        try:
            found = self._reader.read(data)
        except Fault as fault:
            self._fail(fault)
            return
        if found is not None:
            self._finish(found)

    def eof_received(self) -> None:
        self._hung_up(None)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and self._answer is not None:
            self._read_left()
        self._hung_up(error)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write_on()

    def _finish(self, found: SinkAnswer) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result(found)
        if self._tunnel:
            return
        if self._reader.last or self._rest is not None or self._paused or self.owner is None:
            self._rest = None  # a target that answers early does not want it
            self.close()
        else:
            self.used = True
            self.owner.release(self)

    def _fail(self, error: Exception) -> None:
        """A status that came counts, also when what is behind it breaks off."""
        answer, self._answer = self._answer, None
        self._rest = None
        if answer is not None and not answer.done():
            if self._reader.status:
                answer.set_result(self._reader.cut_short(words(error)))
            else:
                answer.set_exception(error)
        self.close()

    def _hung_up(self, error: Exception | None) -> None:
        if self._answer is None:
            self._why = self._why or error
            self.close()
        elif error is None and (found := self._reader.end()) is not None:
            self._finish(found)
        elif self._reader.begun:
            self._fail(Fault("reset", words(error)))
        else:
            self._fail(self._lost(error, unsent=self.unsent))

    def _lost(self, error: Exception | None, *, unsent: bool) -> Fault:
        """Return the fault of a connection that ended before any byte of this answer came."""
        if self.used:
            return Stale("reset", words(error))
        if isinstance(error, ssl.SSLError) and _REFUSED.search(error.reason or ""):
            return Fault("tls", words(error), unsent=True)
        if self._shows_own and self._is_unaccepted():
            return Fault(
                "tls",
                f"the target did not accept the client certificate: {words(error)}",
                unsent=True,
            )
        return Fault("reset", words(error), unsent=unsent)

    def _is_unaccepted(self) -> bool:
        """Return True if the target did not finish its part of the handshake, although ours is finished. In TLS
        1.3 servers send session tickets as they finish it. Some end a connection without an alert, and
        some alerts are lost with it."""
        tls = self.transport.get_extra_info("ssl_object")
        if tls is None or tls.version() not in _LATE:
            return False
        return tls.session is None or not tls.session.has_ticket

    def _read_left(self) -> None:
        """A target that refuses a body hangs up while we write it. Its answer may be in the socket still."""
        if self.transport.get_extra_info("sslcontext") is None:
            socket = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                if data := os.read(socket.fileno(), PIECE):
                    self._paused = True  # whatever it says, no other request may follow
                    self.data_received(data)

    def _write_on(self) -> None:
        while self._rest and not self._paused and not self.transport.is_closing():
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            self.transport.write(piece)
        if not self._rest:
            self._rest = None

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._on_time)
        self._fires = at

    def _on_time(self) -> None:
        """One timer serves many requests: it is moved when it fires, not with each of them."""
        self._timer, self._fires = None, _NEVER
        if self._answer is None:
            return
        if self._deadline - self._loop.time() > _TICK:
            self._set_timer(self._deadline)
        else:
            self._fail(TimeoutError("its time was over"))


def words(error: Exception | None) -> str:
    """What this side says of it: nothing that a target said, and no URL."""
    if isinstance(error, Fault):
        return error.detail
    if not isinstance(error, OSError):
        return BROKEN
    text = (str(error) or type(error).__name__)[:_CLIP]
    return text.encode("utf-8", "replace").decode()
