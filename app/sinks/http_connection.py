"""One HTTP/1.1 connection to a webhook or proxy. The connection writes a request and reads its
answer.

A connection serves one request at a time, without pipelining. Bytes beyond an answer, and bytes
that are not HTTP, end the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import re
import ssl
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from app.interfaces import SinkAnswer
from app.sinks.http_answer import BROKEN, AnswerReader, RequestFailed, UsualAnswer

MAX_COPIED_BODY = 2**16  # bytes of the largest body that is joined with its head into one write
CHUNK = 2**18  # bytes of a larger body that are given to the transport at once

# In TLS 1.3 the client ends its part of the handshake first. None: the connection is closed.
_CLIENT_ENDS_FIRST = frozenset({"TLSv1.3", None})
_TICK = 0.001  # seconds that a loop's timer may be early
_CLIP = 200  # characters of an error's text
# Alerts with which a target rejects a handshake that is already complete for the client (TLS 1.3).
_REFUSED = re.compile(
    r"ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|DECRYPT_ERROR|INSUFFICIENT_SECURITY)"
)
_NEVER = math.inf

ResultCallback = Callable[[SinkAnswer | Exception], None]
"""A function that receives the answer of a request, or RequestFailed or TimeoutError. It must not raise."""


class StaleConnection(RequestFailed):
    """The error for a reused connection that was closed before any byte of the answer arrived.

    The target may have closed it while idle, so the request may be repeated (RFC 9112 9.3.1).
    """


class ConnectionOwner(Protocol):
    """The pool that a connection belongs to."""

    def release(self, connection: ClientConnection) -> None:
        """Take back a connection whose answer is complete."""

    def lost(self, connection: ClientConnection) -> None:
        """Forget a connection that was closed."""

    def aborted(self, connection: ClientConnection) -> None:
        """End the request of a connection that was aborted."""


class WriteBatcher:
    """Writes the requests of many connections in a row, once the other ready callbacks of the loop
    have run.

    Consecutive writes cost the system a third less time than writes between other work.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[ClientConnection, bytes]] = []

    def put(self, connection: ClientConnection, request: bytes) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._write)
        self._waiting.append((connection, request))

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection, request in waiting:
            transport = connection.transport
            if not transport.is_closing():  # a closing connection fails its own request
                transport.write(request)
                connection.unsent = False


class ClientConnection(asyncio.Protocol):
    """A connection to a webhook or proxy, as an asyncio protocol.

    ``batcher`` writes the requests of all connections. ``limit`` is the largest answer body in
    bytes. With ``tunnel``, the request is CONNECT, and a tunnel begins after the head of its
    answer. ``shows_own`` means that TLS uses a client certificate. ``usual`` is as in ``AnswerReader``.
    """

    __slots__ = (
        *("_loop", "_batcher", "_reader", "_tunnel", "_on_result", "_timer", "_fires"),
        *("_paused", "_rest", "_shows_own", "_idle_error"),
        *("transport", "owner", "closed", "deadline", "unsent", "used", "idle_since"),
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        batcher: WriteBatcher,
        limit: int,
        *,
        tunnel: bool = False,
        shows_own: bool = False,
        usual: UsualAnswer | None = None,
    ) -> None:
        self._loop = loop
        self._batcher = batcher
        self._reader = AnswerReader(limit, tunnel=tunnel, usual=usual)
        self._tunnel = tunnel
        self._shows_own = shows_own
        self._on_result: ResultCallback | None = None
        self.deadline = _NEVER  # of the last request, by the loop's clock
        self._timer: asyncio.TimerHandle | None = None
        self._fires = _NEVER
        self._paused = False
        self._rest: memoryview | None = None
        self._idle_error: Exception | None = None  # the error that closed it while idle
        self.transport = cast("asyncio.Transport", None)  # until the connection is made
        self.owner: ConnectionOwner | None = None  # the pool that takes it back after an answer
        self.closed = False
        self.unsent = False  # its request has not been written yet
        self.used = False  # whether an earlier request was answered
        self.idle_since = 0.0

    def send(self, head: bytes, body: bytes, deadline: float, on_result: ResultCallback) -> None:
        """Send a request. ``on_result`` is called once with its result, but not before this returns.

        ``deadline`` is a time of the loop's clock. The result is RequestFailed if the connection failed, and
        TimeoutError after the deadline.
        """
        if self.closed:
            self._loop.call_soon(on_result, self._lost(self._idle_error, unsent=True))
            return
        self._on_result = on_result
        if self._reader.begun:
            self._reader.begin()
        self.deadline = deadline
        if deadline < self._fires:
            self._set_timer(deadline)
        if len(body) <= MAX_COPIED_BODY:
            self.unsent = True
            self._batcher.put(self, head + body)
        else:
            self.transport.write(head)
            self._rest = memoryview(body)
            self._write_body()

    async def ask(self, head: bytes, body: bytes, deadline: float) -> SinkAnswer:
        """Send a request and return its answer. Raise RequestFailed or TimeoutError.

        If the caller is cancelled, the connection is closed.
        """
        answer: asyncio.Future[SinkAnswer] = self._loop.create_future()
        on_result = partial(_resolve, answer)
        self.send(head, body, deadline, on_result)
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancel(on_result)
            raise

    def abort(self) -> None:
        """End the request without an answer: the callback given to ``send`` is not called."""
        self._on_result = None
        self.close()
        if self.owner is not None:
            self.owner.aborted(self)

    def cancel(self, on_result: ResultCallback) -> None:
        """Close the connection if it still serves the request of ``on_result``, which is then not called."""
        if self._on_result is on_result:
            self._on_result = None
            self.close()

    def close(self, fault: RequestFailed | None = None) -> None:
        """Close the connection. A request that waits for its answer fails with ``fault``."""
        if self._on_result is not None:
            self._fail(fault or RequestFailed("reset", BROKEN))
        elif not self.closed:
            self.closed = True
            if self.transport is not None:
                self.transport.abort()
            if self._timer is not None:
                self._timer.cancel()
            if self.owner is not None:
                self.owner.lost(self)

    # Callbacks of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._on_result is None or self.unsent:  # the target sent bytes without a request
            self._on_end(None)
            return
        try:
            found = self._reader.read(data)
        except RequestFailed as fault:
            self._fail(fault)
            return
        if found is not None:
            self._finish(found)

    def eof_received(self) -> None:
        self._on_end(None)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and self._on_result is not None:
            self._read_pending()
        self._on_end(error)
        self._reader.release()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write_body()

    def _finish(self, found: SinkAnswer) -> None:
        on_result, self._on_result = self._on_result, None
        if not self._tunnel:
            if self._reader.last or self._rest is not None or self._paused or self.owner is None:
                self._rest = None  # a target that answers early does not want the rest of the body
                self.close()
            else:
                self.used = True
                self.owner.release(self)
        if on_result is not None:
            on_result(found)

    def _fail(self, error: Exception) -> None:
        """Fail the request. If its status arrived already, return an answer that is cut short
        instead.
        """
        on_result, self._on_result = self._on_result, None
        self._rest = None
        self.close()
        if on_result is not None:
            on_result(self._reader.cut_short(describe(error)) if self._reader.status else error)

    def _on_end(self, error: Exception | None) -> None:
        if self._on_result is None:
            self._idle_error = self._idle_error or error
            self.close()
        elif error is None and (found := self._reader.end()) is not None:
            self._finish(found)
        elif self._reader.begun:
            self._fail(RequestFailed("reset", describe(error)))
        else:
            self._fail(self._lost(error, unsent=self.unsent))

    def _lost(self, error: Exception | None, *, unsent: bool) -> RequestFailed:
        """Return the fault of a connection that ended before any byte of this answer came."""
        if self.used:
            return StaleConnection("reset", describe(error))
        if isinstance(error, ssl.SSLError) and _REFUSED.search(error.reason or ""):
            return RequestFailed("tls", describe(error), unsent=True)
        if self._shows_own and self._is_certificate_rejected():
            return RequestFailed(
                "tls",
                f"the target did not accept the client certificate: {describe(error)}",
                unsent=True,
            )
        return RequestFailed("reset", describe(error), unsent=unsent)

    def _is_certificate_rejected(self) -> bool:
        """Return True if the target ended the connection before it completed the TLS handshake.

        In TLS 1.3 the client completes the handshake first. A server sends session tickets when it
        completes its own part. A server may reject a certificate without an alert, and an alert may
        be lost.
        """
        tls = self.transport.get_extra_info("ssl_object")
        if tls is None or tls.version() not in _CLIENT_ENDS_FIRST:
            return False
        return tls.session is None or not tls.session.has_ticket

    def _read_pending(self) -> None:
        """Read an answer that is still in the socket. A target that refuses a body may close the
        connection while the body is written.
        """
        if self.transport.get_extra_info("sslcontext") is None:
            socket = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                if data := os.read(socket.fileno(), CHUNK):
                    self._paused = True  # the connection serves no further request
                    self.data_received(data)

    def _write_body(self) -> None:
        while self._rest and not self._paused and not self.transport.is_closing():
            piece, self._rest = self._rest[:CHUNK], self._rest[CHUNK:]
            self.transport.write(piece)
        if not self._rest:
            self._rest = None

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._on_time)
        self._fires = at

    def _on_time(self) -> None:
        """Fail a request whose deadline has passed. If the deadline has not passed, set the timer
        again. One timer serves many requests."""
        self._timer, self._fires = None, _NEVER
        if self._on_result is None:
            return
        if self.deadline - self._loop.time() > _TICK:
            self._set_timer(self.deadline)
        else:
            self._fail(TimeoutError("the deadline of the request has passed"))


def _resolve(answer: asyncio.Future[SinkAnswer], result: SinkAnswer | Exception) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def describe(error: Exception | None) -> str:
    """Return a text for an error that contains no text of a target and no URL."""
    if isinstance(error, RequestFailed):
        return error.detail
    if not isinstance(error, OSError):
        return BROKEN
    text = (str(error) or type(error).__name__)[:_CLIP]
    return text.encode("utf-8", "replace").decode()
