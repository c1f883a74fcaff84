"""A connection of the events listener: uvicorn's httptools protocol, bounded, with a short way.

What is ``POST`` or ``PUT`` to ``/events`` and ``/events/{route}`` is taken before an ASGI scope is
built and answered here; all else goes uvicorn's own way. Both share one pipeline, so that answers
leave in the order the requests came.

The internals of uvicorn that this leans on are listed in ``guard``; the version is pinned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.event.memo import Memo
from app.gateway.answers import (
    BODY_TOO_LARGE,
    BUG,
    HEAD_TOO_LARGE,
    MALFORMED,
    TOO_SLOW,
    TUNNEL,
    Answer,
)
from app.gateway.flow import PIPELINE, Flow
from app.gateway.pipeline import Exchange, Pipeline
from app.gateway.request import Request, events_target
from app.gateway.resource import POSTS, EventsResource
from app.gateway.watch import Phase, Watch
from app.gateway.wire import CONTINUE, Renderer

_log = logging.getLogger(__name__)

_NAMES = Memo(bytes.lower)  # one object a name: its hash is computed once for all who ask

_IDLE, _HEAD, _BODY = Phase.IDLE, Phase.HEAD, Phase.BODY
_LAST_LOOK = 0.05  # seconds a connection that drains stays open for what is already on its way
_FIELD_OVERHEAD = 4  # ": " and the line end
_FRAMING = 16  # wire bytes of chunk framing allowed for each byte of content


class _EndOfInput(Exception):
    """Stops the parser: nothing more of this connection is read."""


class EventsProtocol(HttpToolsProtocol):
    """One connection. ``resource`` and ``renderer`` are shared by all connections of a listener."""

    flow: Flow

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        resource: EventsResource,
        renderer: Renderer,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._resource = resource
        self._limits = resource.limits
        self._max_fields = self._room = self._limits.header_fields
        self._renderer = renderer
        self._pipe = Pipeline(self, self._limits.in_work)
        self._watch = Watch(self, self._limits, self.loop)
        self._phase = _IDLE  # of the request being received: IDLE, HEAD or BODY
        self._number = 0  # of requests begun
        self._ended = False  # nothing more is read ...
        self._unread = False  # ... though the peer may still be sending
        self._suspect_head = False
        self._expects = False  # the peer waits for 100 Continue before it sends the body
        self._hot = False
        self._body: bytes | bytearray = b""
        self._body_size = 0
        self._wire_size = 0  # bytes of the chunks that lie wholly in this head, or in this body

    # What the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._watch.start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.stop()
        self._ended = True
        super().connection_lost(exc)
        for cycle in self._pipe.drop():
            cycle.disconnected = True
            cycle.message_event.set()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The peer sends no more. It still gets the answers that are due, where the transport can
        stay half open (TLS cannot)."""
        if not self._ended and self._phase is not _IDLE:
            self._withdraw()
        self._ended, self._unread = True, False
        self._pipe.drain()
        return len(self._pipe) > 0 and self.scheme == "http"

    def data_received(self, data: bytes) -> None:
        while data and not self._ended:
            data = self._feed(data)
        if self._expects and self._phase is _BODY:
            self._continue()

    def _feed(self, data: bytes) -> bytes:
        """Parse. Returns what is to be parsed again: nothing, but for an upgrade."""
        phase, number = self._phase, self._number
        if phase is _HEAD or len(data) > self._limits.header_bytes:
            self._suspect_head = True
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(_answer_to(error))
        else:
            if phase is not _IDLE and phase is self._phase and number == self._number:
                self._bound_wire(len(data))
        return b""

    def _bound_wire(self, size: int) -> None:
        """``size`` bytes went by inside one head or one body. What the parser keeps to itself of
        them (an endless field, an endless trailer) has a bound too (reliability S5)."""
        self._wire_size += size
        framing = self._wire_size - self._body_size
        if framing > self._limits.header_bytes + _FRAMING * self._body_size:
            self._refuse(HEAD_TOO_LARGE)

    # What the parser says

    def on_message_begin(self) -> None:
        if self._ended:
            raise _EndOfInput
        self.url = b""
        self.headers = []
        self._phase = _HEAD
        self._room = self._max_fields
        self._number += 1
        self._hot = False
        self._expects = False
        self._upgrades = False
        self._body = b""
        self._body_size = 0
        self._wire_size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self.headers
        if len(headers) >= self._room:
            if self._phase is not _HEAD:
                return  # a trailer: never merged into the head (RFC 9110 6.5.1)
            self._stop(HEAD_TOO_LARGE)
        headers.append((_NAMES[name], value.rstrip(b" \t")))  # OWS (RFC 9112 5)

    def on_headers_complete(self) -> None:
        if self._suspect_head:
            self._bound_head()
        self._phase = _BODY
        self._room = 0
        self._wire_size = 0
        named = self._named = dict(self.headers)
        parser = self.parser
        if parser.should_upgrade():
            self._upgrades = True
            return
        self._keeps = parser.should_keep_alive()
        if not self._keeps or b"connection" in named or b"expect" in named:
            self._read_connection(named)
        refusal = self._resource.refuse_head(named, expects=self._expects)
        if refusal is not None:
            self._stop(refusal)
        if parser.get_method() in POSTS and self._is_for_events():
            self._hot = True
        else:
            self._leave_to_asgi()

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if not self._hot:
            super().on_body(body)
            return
        self._expects = False
        if self._body_size > self._limits.body:
            self._stop(BODY_TOO_LARGE)
        if not self._body:
            self._body = body
            return
        if type(self._body) is bytes:
            self._body = bytearray(self._body)
        self._body += body

    def on_message_complete(self) -> None:
        self._phase = _IDLE
        self._expects = False
        if self._upgrades:
            return
        if not self._keeps:
            self._ended = True
        if not self._hot:
            super().on_message_complete()
        else:
            body = self._body if type(self._body) is bytes else bytes(self._body)
            request = Request(self.headers, self._named, body, self._route, self._query)
            self._pipe.add_hot(request, last=not self._keeps)
        if self._pipe.is_full:
            self.flow.hold(PIPELINE)

    def _bound_head(self) -> None:
        self._suspect_head = False
        size = len(self.url) + sum(len(n) + len(v) + _FIELD_OVERHEAD for n, v in self.headers)
        if size > self._limits.header_bytes:
            self._stop(HEAD_TOO_LARGE)

    def _read_connection(self, named: dict[bytes, bytes]) -> None:
        """As uvicorn: HTTP/1.0 is never kept alive. It knows no 100 either (RFC 9110 10.1.1)."""
        version = self.parser.get_http_version()
        if version == "1.0":
            self._keeps = False
        elif version != "1.1":
            self._stop(MALFORMED)
        else:
            self._expects = named.get(b"expect", b"").lower() == b"100-continue"

    def _is_for_events(self) -> bool:
        url = self.url
        self._route, self._query = None, b""
        if url == b"/events":
            return True
        if b"#" in url:
            return False
        path, _, self._query = url.partition(b"?")
        is_ours, self._route = events_target(unquote(path.decode("latin-1")))
        return is_ours

    def _leave_to_asgi(self) -> None:
        """Let uvicorn build the scope and the cycle, late, from what was read so far."""
        url, headers, expects = self.url, self.headers, self._expects
        super().on_message_begin()
        self.url, self.expect_100_continue, self._expects = url, expects, False
        self.headers.extend(headers)
        self.cycle = None  # type: ignore[assignment]  # the pipeline says when it begins, not uvicorn
        super().on_headers_complete()

    def _ignore_upgrade(self, rest: bytes) -> bytes:
        """Nobody offers an upgrade here, so it is ignored (RFC 9110 7.8). The parser has skipped the
        body as if it were of another protocol: the request is read again without the field."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._refuse(TUNNEL)
            return b""
        fields = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        head = b"%b %b HTTP/%b\r\n" % (method, self.url, version)
        return b"".join((head, *fields, b"\r\n", rest))

    # What uvicorn's way says

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._pipe.add_asgi(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        self._pipe.asgi_completed()

    def shutdown(self) -> None:
        """The server goes. What is due is answered, what is on its way is read; then it closes."""
        self._pipe.drain()
        self.loop.call_later(_LAST_LOOK, self._close_if_idle)

    # What the pipeline asks

    def publish(self, exchange: Exchange) -> Answer | None:
        return self._resource.post(exchange.request, exchange.answered)  # type: ignore[arg-type]

    def begin_asgi(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        super()._start_asgi_task(cycle, app)

    def write(self, answer: Answer, *, last: bool) -> None:
        transport = self.transport
        if transport.is_closing():
            return
        self.server_state.total_requests += 1
        transport.write(self._renderer.render(answer, self.server_state.default_headers, last=last))
        if last:
            self._close()

    def is_receiving(self) -> bool:
        return self._phase is _HEAD or (self._phase is _BODY and self._hot)

    def pipeline_changed(self) -> None:
        if self.flow.read_paused and not self._pipe.is_full:
            self.flow.release(PIPELINE)
        if self._expects:
            self._continue()
        if self._pipe.draining:
            self._close_if_idle()

    # What the watch asks

    def standing(self) -> tuple[Phase, Hashable]:
        closing = self.transport.is_closing()
        if closing or (self._ended and not len(self._pipe)):
            return Phase.CLOSING, closing
        if self.flow.write_paused:
            return Phase.UNREAD, self.transport.get_write_buffer_size()
        if self._phase is not _IDLE and not self._ended and not self.flow.read_paused:
            return self._phase, self._number
        if len(self._pipe):
            return Phase.BUSY, None
        return _IDLE, self._number

    def expired(self, phase: Phase) -> None:
        if phase in (_HEAD, _BODY):
            self._refuse(TOO_SLOW)
        elif phase is Phase.UNREAD or self.transport.is_closing():
            self.transport.abort()
        else:
            self.transport.close()

    # Endings

    def _stop(self, answer: Answer) -> None:
        self._refuse(answer)
        raise _EndOfInput

    def _refuse(self, answer: Answer) -> None:
        """The last answer of this connection, behind those that are due."""
        if self._ended:
            return
        may_answer = self._withdraw()
        self._ended = self._unread = True
        if may_answer:
            self._pipe.add_refusal(self._resource.refused(answer))
        else:
            self.transport.close()

    def _withdraw(self) -> bool:
        """The request being received will never be whole. Whether it may still be answered here."""
        cycle = self.cycle
        if self._hot or self._phase is not _BODY or cycle is None:
            return True
        cycle.disconnected = True
        cycle.message_event.set()
        self._pipe.withdraw_asgi(cycle)
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
        if not len(self._pipe) and self._phase is _IDLE and not self._unread:
            self.transport.close()

    def _continue(self) -> None:
        """``100 Continue``, once everything before it is answered and the body will be read."""
        if not len(self._pipe) and not self._ended and not self.transport.is_closing():
            self._expects = False
            self.transport.write(CONTINUE)


def _answer_to(error: httptools.HttpParserError) -> Answer:
    """400 for what is no HTTP; a fault of ours inside a callback is said to be ours."""
    cause = error.__context__
    known = (type(None), _EndOfInput, httptools.HttpParserError, UnicodeError)
    if isinstance(cause, known):
        return MALFORMED
    _log.error("a callback of the parser failed", exc_info=cause)
    return BUG
