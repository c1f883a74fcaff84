"""A connection of a listener: its bounds, its deadlines, its answers and its end.

``httptools_protocol`` parses the bytes that arrive on the connection. ``uvicorn_adapter`` lists the parts of
uvicorn that both modules use.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Hashable
from typing import Any, NoReturn

import httptools
from uvicorn import Config

from app.gateway.answers import (
    BODY_TOO_LARGE,
    BUG,
    HEAD_TOO_LARGE,
    MALFORMED,
    TOO_SLOW,
    HttpAnswer,
    busy,
)
from app.gateway.http_wire import CONTINUE, Renderer
from app.gateway.listener import Listener
from app.gateway.read_control import PIPELINE, ReadPauses
from app.gateway.request_queue import RequestCycle, RequestQueue
from app.gateway.timeouts import Phase, TimeoutWatch
from app.gateway.uvicorn_adapter import AsgiCycle, AsgiProtocol

_log = logging.getLogger(__name__)

IDLE, HEAD, BODY = Phase.IDLE, Phase.HEAD, Phase.BODY

_CHUNK = 16 * 1024  # bytes that are parsed before their requests are counted
_LINE_OVERHEAD = (
    32  # bytes of method, version and line ends, which the bound of a head does not count
)
_DRAIN_DELAY = 0.05  # seconds that a draining connection stays open for requests already sent
_FRAMING = 16  # wire bytes of chunk framing allowed for each byte of content
MAX_REFUSED_CONNECTIONS = (
    64  # connections beyond the bound that get an answer; further ones are closed at once
)
_FIELD_OVERHEAD = 160  # bytes of memory for one header field, without its text


class EndOfInput(Exception):
    """An exception of the parser's callbacks that stops the parser, because nothing more of this connection
    is read."""


class ServerConnection(AsgiProtocol):
    """A connection of a listener, as a protocol of uvicorn.

    ``listener`` and ``renderer`` are shared by all connections of a listener.
    """

    flow: ReadPauses  # type: ignore[assignment]  # in place of uvicorn's own

    def __init__(
        self,
        config: Config,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        listener: Listener,
        renderer: Renderer,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._listener = listener
        self._limits = listener.limits
        self._renderer = renderer
        self._queue = RequestQueue(
            self, self._limits.in_work, listener.answered, self._limits.keep_alive_requests
        )
        if listener.leaving:
            self._queue.use_up()
        self._watch = TimeoutWatch(self, self._limits, self.loop)
        self._unparsed = b""  # received, but not parsed yet
        self._is_parsing = False
        self._is_resuming = False  # ``_resume`` is scheduled
        self._ended = False  # the connection reads nothing more ...
        self._unread = False  # ... though the client may still send
        self._is_retiring = False  # the ASGI answer that is being written is the last one
        # The request being received:
        self._number = 0
        self._phase = IDLE  # IDLE, HEAD or BODY
        self._fast = False  # takes the fast path
        self._is_asgi = False  # is handled by uvicorn as an ASGI request
        self._expects = False  # the client waits for 100 Continue before it sends the body
        self._suspect_head = (
            False  # the head came in several reads or is large, so its size must be checked
        )
        self._named: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""  # of fast requests only
        self._body_size = 0
        self._most_body = self._limits.body  # largest allowed body in bytes
        self._wire_size = 0  # bytes received in reads that contain part of this head or body
        self._before = 0  # bytes among them that may belong to the request before
        self._head_size = 0  # bytes of the head of a request whose body came later
        self._held = 0  # bytes of this request that the listener counts
        self._share: str | None = None  # the share that the body is charged to

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = ReadPauses(transport)
        self._watch.start()
        beyond = len(self.connections) - self._limits.connections
        if beyond > MAX_REFUSED_CONNECTIONS:  # connections with a refusal use descriptors, too
            transport.abort()
        elif beyond > 0:
            full = busy("Too many connections are open")
            self.write(self._listener.refused(full), last=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.stop()
        self._ended, self._unparsed = True, b""
        super().connection_lost(exc)
        self._discard_request()
        for cycle in self._queue.drop():
            cycle.disconnected = True
            cycle.message_event.set()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Handle the end of the client's input. Pending answers are still sent if the transport can
        stay half open; TLS cannot.
        """
        if self._unparsed:
            self._feed_in_pieces(b"", at_once=True)
        if not self._ended:
            self._abandon_request()
        self._discard_request()
        self._ended, self._unread, self._phase = True, False, IDLE
        self._queue.drain()
        return len(self._queue) > 0 and self.scheme == "http"

    def data_received(self, data: bytes) -> None:
        if len(data) <= _CHUNK and not self._unparsed and not self._ended:
            data = self._feed(data)
        if data:
            self._feed_in_pieces(data)

    def _feed_in_pieces(self, data: bytes, *, at_once: bool = False) -> None:
        """Parse received data in pieces of 16 KiB while the request queue has room.

        One read can contain thousands of small requests. After a piece that contained several requests, other
        connections get their turn, unless ``at_once`` is set.
        """
        data = self._unparsed + data
        while data and not self._ended and not self._is_full():
            number = self._number
            piece, data = data[:_CHUNK], data[_CHUNK:]
            data = self._feed(piece) + data
            if data and self._number > number + 1 and not (at_once or self.flow.write_paused):
                self.flow.hold(PIPELINE)
                self._resume_soon()
                break
        self._unparsed = b"" if self._ended else data

    def _feed(self, data: bytes) -> bytes:
        """Parse ``data``. Return the bytes that must be parsed again, which exist only after an upgrade
        request.
        """
        phase, number = self._phase, self._number
        self._suspect_head = phase is HEAD or len(data) > self._limits.header_bytes
        self._is_parsing = True
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(_parser_error_answer(error))
        finally:
            self._is_parsing = False
        if self._number > number + 1:
            self._queue.overlaps = True
        if self._phase is not IDLE and not self._ended:
            if self._phase is not phase or self._number != number:
                is_first = phase is IDLE and self._phase is HEAD and self._number == number + 1
                self._before = 0 if is_first else len(data) - self._body_size
            self._bound_wire(len(data))
            self._hold()
            if self._expects:
                self._continue()
        return b""

    @abc.abstractmethod
    def _ignore_upgrade(self, rest: bytes) -> bytes:
        """Return the bytes of the request without its Upgrade field, followed by ``rest``."""

    def _bound_wire(self, size: int) -> None:
        """Count ``size`` received bytes of one head or body, and refuse the request if its framing
        is too large.

        The limit covers bytes that the parser does not report, such as those of an endless header field or
        trailer.
        """
        self._wire_size += size
        framing = self._wire_size - self._body_size - self._before
        if framing > self._limits.header_bytes + _LINE_OVERHEAD + _FRAMING * self._body_size:
            self._refuse(HEAD_TOO_LARGE)

    def _bound_body(self, size: int) -> None:
        """Count ``size`` body bytes, and refuse the request if its body is too large. The parser
        calls this method.
        """
        self._body_size += size
        if self._body_size > self._most_body:
            self._stop(BODY_TOO_LARGE)

    def _hold(self) -> None:
        """Count the memory of the unfinished request towards the limits of the listener."""
        if self._ended:
            return
        if self._phase is HEAD:
            self._held = self._wire_size + _FIELD_OVERHEAD * len(self.headers)
            self._listener.hold_head(self, self._held)
            return
        if not self._held:
            self._head_size = sum(_FIELD_OVERHEAD + len(n) + len(v) for n, v in self.headers)
            self._share = self._body_share()
        size = 0 if self._discards_body() else self._head_size + self._body_size
        more, self._held = size - self._held, size
        if not self._listener.bodies.hold(self._share, more):
            self._refuse(busy("Too many request bodies are unfinished"))

    def _discards_body(self) -> bool:
        """Return True if an ASGI request was answered before its body arrived. The rest of the body is then
        not stored.
        """
        return self._is_asgi and self.cycle.response_complete

    def _body_share(self) -> str | None:
        """Return the share of the listener's memory that the body of this request uses. It is a key of
        ``BodyShares.hold``.
        """
        return None

    def _release(self) -> None:
        """Stop counting this request towards the limits of the listener. Its head or body is complete, or the
        request has ended.
        """
        if self._phase is HEAD:
            self._listener.release_head(self)
        else:
            self._listener.bodies.hold(self._share, -self._held)
        self._held = 0

    def _discard_request(self) -> None:
        """Release the memory of the request that is being received."""
        self._release()
        self._body = b""
        self._named = {}
        self.headers = []
        self.parser = None  # type: ignore[assignment]  # the parser holds an unfinished field

    def make_room(self) -> None:
        self._refuse(busy("Too many request heads are unfinished"))

    # Callbacks of uvicorn

    def asgi_ready(self, cycle: AsgiCycle, app: Any) -> None:
        self._queue.add_asgi(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        self._queue.asgi_completed()
        if self._is_retiring:
            self._close()

    def leave(self) -> None:
        """Close after the next answer, because the server stops soon."""
        self._queue.use_up()

    def shutdown(self) -> None:
        """Begin to drain, because the server stops. Pending requests are answered, then the
        connection closes.
        """
        self._queue.drain()
        self.loop.call_later(_DRAIN_DELAY, self._close_if_idle)

    # Calls of the request queue

    @abc.abstractmethod
    def publish(self, cycle: RequestCycle) -> HttpAnswer | None:
        """Begin to publish a fast request. Return the answer if it is known at once, else None."""

    def write(self, answer: HttpAnswer, *, last: bool) -> None:
        transport = self.transport
        if transport.is_closing():
            return
        self.server_state.total_requests += 1
        transport.write(self._renderer.render(answer, self.server_state.default_headers, last=last))
        if last:
            self._unread = self._unread or self._queue.is_used_up
            self._close()

    def is_idle(self) -> bool:
        busy = self._is_parsing or self._unparsed or self._ended
        return not busy and self._phase is IDLE

    def read_no_more(self) -> None:
        self._ended = self._unread = self._is_retiring = True

    def is_receiving(self) -> bool:
        return self._phase is HEAD or (self._phase is BODY and self._fast) or bool(self._unparsed)

    def queue_changed(self) -> None:
        if self.flow.read_paused and not self._queue.is_full:
            self._resume_soon()
        if self._expects:
            self._continue()
        if self._queue.draining:
            self._close_if_idle()

    def _resume_soon(self) -> None:
        if not self._is_resuming:
            self._is_resuming = True
            self.loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Parse the data that was received before, then continue to read."""
        self._is_resuming = False
        if self._unparsed:
            self._feed_in_pieces(b"")
        if not self._unparsed and not self._is_full():
            self.flow.release(PIPELINE)

    def _is_full(self) -> bool:
        """Return True if no request may be added. An ASGI request that waits for its body is in the
        queue already.
        """
        return self._queue.is_full and not (self._is_asgi and self._phase is BODY)

    # Calls of the time-out watch

    def current_state(self) -> tuple[Phase, Hashable]:
        closing = self.transport.is_closing()
        if closing or (self._ended and not len(self._queue)):
            return Phase.CLOSING, closing
        if self.flow.write_paused:
            return Phase.UNREAD, self.transport.get_write_buffer_size()
        if self._phase is not IDLE and not self._ended and not self.flow.read_paused:
            return self._phase, self._number
        if len(self._queue):
            return Phase.BUSY, None
        return IDLE, self._number

    def expired(self, phase: Phase) -> None:
        if phase in (HEAD, BODY):
            self._refuse(TOO_SLOW)
        elif phase is Phase.UNREAD or self.transport.is_closing():
            self.transport.abort()
        else:
            self.transport.close()

    # Ends of the connection

    def _stop(self, answer: HttpAnswer) -> NoReturn:
        self._refuse(answer)
        raise EndOfInput

    def _refuse(self, answer: HttpAnswer) -> None:
        """Refuse the request that is being received. The refusal is the last answer of this connection, and
        follows the answers to earlier requests.
        """
        if self._ended:
            return
        may_answer = self._abandon_request()
        self._discard_request()
        self._ended = self._unread = True
        if may_answer:
            self._queue.add_refusal(self._listener.refused(answer))
        else:
            self.transport.close()

    def _abandon_request(self) -> bool:
        """End the request that is being received, because the rest of it will not arrive. Return True if the
        caller may still answer the request.
        """
        if not self._is_asgi or self._phase is not BODY:
            return True
        cycle = self.cycle
        cycle.disconnected = True
        cycle.message_event.set()
        self._queue.withdraw_asgi(cycle)
        return not cycle.response_started

    def _close(self) -> None:
        """Close the connection after its last answer.

        If the client is still sending, its bytes are read for a while. Otherwise the system would reset the
        connection because of unread bytes, and the client might not get the answer.
        """
        self._ended = True
        if not self._unread:
            self.transport.close()
            return
        self.flow.release_all()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close_if_idle(self) -> None:
        if not len(self._queue) and self._phase is IDLE and not (self._unread or self._unparsed):
            self.transport.close()

    def _continue(self) -> None:
        """Send ``100 Continue`` as soon as all earlier requests are answered."""
        if not len(self._queue) and not self._ended and not self.transport.is_closing():
            self._expects = False
            self.transport.write(CONTINUE)


def _parser_error_answer(error: httptools.HttpParserError) -> HttpAnswer:
    """Return 400 for input that is not HTTP. Return 500, and log the error, if a callback of the
    parser failed.
    """
    cause = error.__context__
    known = (type(None), EndOfInput, httptools.HttpParserError, UnicodeError)
    if isinstance(cause, known):
        return MALFORMED
    _log.error("a callback of the parser failed", exc_info=cause)
    return BUG
