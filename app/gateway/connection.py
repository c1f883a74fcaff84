"""A connection of a listener: its bounds, its deadlines, its answers and its end.

What travels on it is read by ``httptools_protocol``. What both use of uvicorn is listed in ``uvicorn_adapter``.
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
    Answer,
    busy,
)
from app.gateway.http_wire import CONTINUE, Renderer
from app.gateway.listener import Listener
from app.gateway.read_control import PIPELINE, Flow
from app.gateway.request_queue import RequestCycle, RequestQueue
from app.gateway.timeouts import Phase, Watch
from app.gateway.uvicorn_adapter import AsgiCycle, AsgiProtocol

_log = logging.getLogger(__name__)

IDLE, HEAD, BODY = Phase.IDLE, Phase.HEAD, Phase.BODY

_PIECE = 16 * 1024  # bytes parsed before a look at how many requests they held
_AROUND = 32  # bytes of method, version and line ends, which the bound of a whole head leaves out
_LAST_LOOK = 0.05  # seconds a connection that drains stays open for what is already on its way
_FRAMING = 16  # wire bytes of chunk framing allowed for each byte of content
LINGERING = 64  # connections beyond the bound that are answered before they close; further ones are only closed
_FIELD = 160  # bytes of the objects that a field is kept in, beside its text


class EndOfInput(Exception):
    """Stops the parser: nothing more of this connection is read."""


class Connection(AsgiProtocol):
    """``listener`` and ``renderer`` are shared by all connections of a listener."""

    flow: Flow  # type: ignore[assignment]  # in place of uvicorn's own

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
        self._queue = RequestQueue(self, self._limits.in_work, listener.answered)
        self._watch = Watch(self, self._limits, self.loop)
        self._rest = b""  # read, but not parsed yet: the queue is full, or it is others' turn
        self._reads_on = False  # soon
        self._ended = False  # nothing more is read ...
        self._unread = False  # ... though the peer may still be sending
        # The request being received:
        self._number = 0
        self._phase = IDLE  # IDLE, HEAD or BODY
        self._hot = False  # taken the short way
        self._ordinary = False  # left to uvicorn's own way
        self._expects = False  # the peer waits for 100 Continue before it sends the body
        self._suspect_head = False  # not all of one read: its size is still to be looked at
        self._named: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""  # hot ones only
        self._body_size = 0
        self._most_body = self._limits.body  # bytes that the body of this request may have
        self._wire_size = 0  # bytes of the reads that hold a part of this head, or of this body
        self._before = 0  # of these, those that may be of what came before it
        self._head_size = 0  # of a request whose body did not come with its head
        self._held = 0  # bytes of this request, as the listener counts them
        self._share: str | None = None  # that the bytes of its body are charged to

    # What the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._watch.start()
        beyond = len(self.connections) - self._limits.connections
        if beyond > LINGERING:  # refusals that are being read take descriptors too
            transport.abort()
        elif beyond > 0:
            full = busy("Too many connections are open")
            self.write(self._listener.refused(full), last=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.stop()
        self._ended, self._rest = True, b""
        super().connection_lost(exc)
        self._let_go()
        for cycle in self._queue.drop():
            cycle.disconnected = True
            cycle.message_event.set()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The peer sends no more. It still gets the answers that are due, where the transport can
        stay half open (TLS cannot)."""
        if self._rest:
            self._feed_in_pieces(b"", at_once=True)
        if not self._ended:
            self._withdraw()
        self._let_go()
        self._ended, self._unread, self._phase = True, False, IDLE
        self._queue.drain()
        return len(self._queue) > 0 and self.scheme == "http"

    def data_received(self, data: bytes) -> None:
        if len(data) <= _PIECE and not self._rest and not self._ended:
            data = self._feed(data)
        if data:
            self._feed_in_pieces(data)

    def _feed_in_pieces(self, data: bytes, *, at_once: bool = False) -> None:
        """One read can hold thousands of small requests: no more are parsed than may wait, and behind each
        piece that held several it is the turn of other connections, but for ``at_once``."""
        data = self._rest + data
        while data and not self._ended and not self._is_full():
            number = self._number
            piece, data = data[:_PIECE], data[_PIECE:]
            data = self._feed(piece) + data
            if data and self._number > number + 1 and not (at_once or self.flow.write_paused):
                self.flow.hold(PIPELINE)
                self._read_on_soon()
                break
        self._rest = b"" if self._ended else data

    def _feed(self, data: bytes) -> bytes:
        """Parse. Returns what is to be parsed again: nothing, but for an upgrade."""
        phase, number = self._phase, self._number
        self._suspect_head = phase is HEAD or len(data) > self._limits.header_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(_answer_to(error))
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
        """The request that asked for an upgrade, as one that did not, and ``rest`` behind it."""

    def _bound_wire(self, size: int) -> None:
        """``size`` bytes were read of one head or one body. What the parser keeps to itself of them (an endless
        field, an endless trailer) has a bound too (reliability S5)."""
        self._wire_size += size
        framing = self._wire_size - self._body_size - self._before
        if framing > self._limits.header_bytes + _AROUND + _FRAMING * self._body_size:
            self._refuse(HEAD_TOO_LARGE)

    def _bound_body(self, size: int) -> None:
        """Of either way; in the parser's callback."""
        self._body_size += size
        if self._body_size > self._most_body:
            self._stop(BODY_TOO_LARGE)

    def _hold(self) -> None:
        """Charge what an unfinished request takes, which is bounded over all connections together (reliability G4)."""
        if self._ended:
            return
        if self._phase is HEAD:
            self._held = self._wire_size + _FIELD * len(self.headers)
            self._listener.hold_head(self, self._held)
            return
        if not self._held:
            self._head_size = sum(_FIELD + len(n) + len(v) for n, v in self.headers)
            self._share = self._body_share()
        size = 0 if self._discards_body() else self._head_size + self._body_size
        more, self._held = size - self._held, size
        if not self._listener.bodies.hold(self._share, more):
            self._refuse(busy("Too many request bodies are unfinished"))

    def _discards_body(self) -> bool:
        """Return whether an ordinary request was answered before its body was whole: the rest is not kept."""
        return self._ordinary and self.cycle.response_complete

    def _body_share(self) -> str | None:
        """Return the share that the body of this request is charged to, as ``BodyShares.hold`` has it."""
        return None

    def _release(self) -> None:
        """The listener's bounds are free of this request: its head is whole, or the request is, or gone."""
        if self._phase is HEAD:
            self._listener.let_go_head(self)
        else:
            self._listener.bodies.hold(self._share, -self._held)
        self._held = 0

    def _let_go(self) -> None:
        """Nothing of the request being received is kept."""
        self._release()
        self._body = b""
        self._named = {}
        self.headers = []
        self.parser = None  # type: ignore[assignment]  # it keeps the field that is not whole

    def make_room(self) -> None:
        self._refuse(busy("Too many request heads are unfinished"))

    # What uvicorn's way says

    def asgi_ready(self, cycle: AsgiCycle, app: Any) -> None:
        self._queue.add_asgi(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        self._queue.asgi_completed()

    def shutdown(self) -> None:
        """The server goes. What is due is answered, what is on its way is read; then it closes."""
        self._queue.drain()
        self.loop.call_later(_LAST_LOOK, self._close_if_idle)

    # What the queue asks

    @abc.abstractmethod
    def publish(self, cycle: RequestCycle) -> Answer | None:
        """A request of the short way."""

    def write(self, answer: Answer, *, last: bool) -> None:
        transport = self.transport
        if transport.is_closing():
            return
        self.server_state.total_requests += 1
        transport.write(self._renderer.render(answer, self.server_state.default_headers, last=last))
        if last:
            self._close()

    def is_receiving(self) -> bool:
        return self._phase is HEAD or (self._phase is BODY and self._hot) or bool(self._rest)

    def queue_changed(self) -> None:
        if self.flow.read_paused and not self._queue.is_full:
            self._read_on_soon()
        if self._expects:
            self._continue()
        if self._queue.draining:
            self._close_if_idle()

    def _read_on_soon(self) -> None:
        if not self._reads_on:
            self._reads_on = True
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        """What has been read already comes first."""
        self._reads_on = False
        if self._rest:
            self._feed_in_pieces(b"")
        if not self._rest and not self._is_full():
            self.flow.release(PIPELINE)

    def _is_full(self) -> bool:
        """Not while an ordinary request waits for its body: it holds its place already."""
        return self._queue.is_full and not (self._ordinary and self._phase is BODY)

    # What the watch asks

    def standing(self) -> tuple[Phase, Hashable]:
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

    # Endings

    def _stop(self, answer: Answer) -> NoReturn:
        self._refuse(answer)
        raise EndOfInput

    def _refuse(self, answer: Answer) -> None:
        """The last answer of this connection, behind those that are due."""
        if self._ended:
            return
        may_answer = self._withdraw()
        self._let_go()
        self._ended = self._unread = True
        if may_answer:
            self._queue.add_refusal(self._listener.refused(answer))
        else:
            self.transport.close()

    def _withdraw(self) -> bool:
        """The request being received will never be whole. Whether it may still be answered here."""
        if not self._ordinary or self._phase is not BODY:
            return True
        cycle = self.cycle
        cycle.disconnected = True
        cycle.message_event.set()
        self._queue.withdraw_asgi(cycle)
        return not cycle.response_started

    def _close(self) -> None:
        """Behind the last answer. A peer that is still sending is read for a while: a connection
        closed with unread bytes is reset, and the peer would not see its answer."""
        self._ended = True
        if not self._unread:
            self.transport.close()
            return
        self.flow.release_all()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close_if_idle(self) -> None:
        if not len(self._queue) and self._phase is IDLE and not (self._unread or self._rest):
            self.transport.close()

    def _continue(self) -> None:
        """``100 Continue``, once everything before it is answered and the body will be read."""
        if not len(self._queue) and not self._ended and not self.transport.is_closing():
            self._expects = False
            self.transport.write(CONTINUE)


def _answer_to(error: httptools.HttpParserError) -> Answer:
    """400 for what is no HTTP; a fault of ours inside a callback is said to be ours."""
    cause = error.__context__
    known = (type(None), EndOfInput, httptools.HttpParserError, UnicodeError)
    if isinstance(cause, known):
        return MALFORMED
    _log.error("a callback of the parser failed", exc_info=cause)
    return BUG
