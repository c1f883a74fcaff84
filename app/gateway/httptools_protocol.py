"""The parser callbacks of a connection: uvicorn's httptools protocol with bounds, and with a fast
path for events.

On the events listener, ``POST`` and ``PUT`` to ``/events`` and ``/events/{route}`` take the fast
path, and so does ``POST`` to ``/in/{name}``. They are answered without an ASGI scope. All other
requests are ASGI requests of uvicorn. Both kinds share one queue, so answers leave in the order of
the requests.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import unquote

import httptools

from app.access.caller import EventSender
from app.access.who import San, sans_of
from app.bindings.headers import FIELD_NAMES
from app.event.memo import Memo
from app.gateway.answers import (
    BODY_TOO_LARGE,
    BUG,
    HEAD_TOO_LARGE,
    MALFORMED,
    NO_CODING,
    NO_HOST,
    NO_LENGTH,
    OTHER_ORIGIN,
    TARGET_TOO_LONG,
    TUNNEL,
    HttpAnswer,
    from_sender_error,
)
from app.gateway.connection import BODY, HEAD, IDLE, EndOfInput, ServerConnection
from app.gateway.door import Authenticator
from app.gateway.head_layout import HeadLayout
from app.gateway.intakes import UnknownIntake
from app.gateway.listener import UNAUTHENTICATED
from app.gateway.read_control import PIPELINE
from app.gateway.request import EventRequest, Pending, events_target, intake_target
from app.gateway.request_queue import RequestCycle
from app.gateway.resource import POSTS, EventsResource

_log = logging.getLogger(__name__)

_METHODS_WITH_BODY = frozenset({b"POST", b"PUT", b"PATCH"})  # methods whose requests have a body
_MAX_TARGET = 0xFFFF  # bytes that the URL parser can read; RFC 9112 3 asks for 8,000
_FIELD_OVERHEAD = 4  # ": " and the line end


class HttpProtocol(ServerConnection):
    """The callbacks of the HTTP parser, in the order in which the parser calls them."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._max_fields = self._fields_left = self._limits.header_fields
        self._route: str | None = None
        self._intake: str | None = None
        self._query = b""
        self._caller: EventSender | None = None
        self._pending: Pending | None = None
        self._keeps = True
        self._upgrades = False

    def on_message_begin(self) -> None:
        if self._ended:
            raise EndOfInput
        self.url = b""
        self.headers = []
        self._phase = HEAD
        self._fields_left = self._max_fields
        self._number += 1
        self._fast = self._is_asgi = False
        self._expects = False
        self._upgrades = False
        self._body = b""
        self._body_size = 0
        self._wire_size = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > _MAX_TARGET:
            self._stop(TARGET_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self.headers
        if len(headers) >= self._fields_left:
            if self._phase is not HEAD:
                return  # a trailer, which must not be merged into the head (RFC 9110 6.5.1)
            self._stop(HEAD_TOO_LARGE)
        headers.append(
            (FIELD_NAMES[name], value.rstrip(b" \t"))
        )  # optional white space (RFC 9112 5)

    def on_headers_complete(self) -> None:
        if self._suspect_head:
            self._bound_head()
        if self._held:
            self._release()
        self._phase = BODY
        self._fields_left = 0
        self._wire_size = 0
        named = self._named = dict(self.headers)
        parser = self.parser
        if parser.should_upgrade():
            self._upgrades = True
            return
        self._keeps = parser.should_keep_alive()
        if not self._keeps or b"connection" in named or b"expect" in named:
            self._read_connection(named)
        if b"host" not in named or len(named) != len(self.headers):
            self._demand_host()
        self._check_head(named)
        if self._takes_fast_path():
            self._fast = True
        else:
            self._leave_to_asgi()

    def on_body(self, body: bytes) -> None:
        self._bound_body(len(body))
        if not self._fast:
            super().on_body(body)
            return
        self._expects = False
        if not self._body:
            self._body = body
            return
        if type(self._body) is bytes:
            self._body = bytearray(self._body)
        self._body += body

    def on_message_complete(self) -> None:
        self._phase = IDLE
        self._expects = False
        body, self._body = self._body, b""
        if self._held:
            self._release()
        if self._upgrades:
            return
        if not self._keeps:
            self._ended = True
        if not self._fast:
            super().on_message_complete()
        else:
            if type(body) is not bytes:
                body = bytes(body)
            request = EventRequest(
                self.headers,
                self._named,
                body,
                self._route,
                self._query,
                self._caller,
                self._pending,
                self._intake,
            )
            self._queue.add_fast(request, last=not self._keeps)
        if self._queue.is_full:
            self.flow.hold(PIPELINE)

    def _bound_head(self) -> None:
        size = len(self.url) + sum(len(n) + len(v) + _FIELD_OVERHEAD for n, v in self.headers)
        if size > self._limits.header_bytes:
            self._stop(HEAD_TOO_LARGE)

    def _read_connection(self, named: dict[bytes, bytes]) -> None:
        """Decide by the HTTP version whether the connection is kept open, and whether the sender expects
        ``100 Continue``.

        As in uvicorn, a connection with HTTP/1.0 is never kept open. HTTP/1.0 has no status 100 (RFC 9110
        10.1.1).
        """
        version = self.parser.get_http_version()
        if version == "1.0":
            self._keeps = False
            self._demand_length(named)
        elif version != "1.1":
            self._stop(MALFORMED)
        else:
            self._expects = named.get(b"expect", b"").lower() == b"100-continue"

    def _demand_length(self, named: dict[bytes, bytes]) -> None:
        """Refuse an HTTP/1.0 request whose body has no certain end (RFC 1945 8.3, RFC 9112 6.1).

        The parser would drop such a body, and the sender would get a success.
        """
        if b"transfer-encoding" in named:
            self._stop(NO_CODING)
        if b"content-length" not in named and self.parser.get_method() in _METHODS_WITH_BODY:
            self._stop(NO_LENGTH)

    def _demand_host(self) -> None:
        """Refuse a request without exactly one Host field; HTTP/1.0 needs none (RFC 9112 3.2)."""
        count = [name for name, _ in self.headers].count(b"host")
        if count > 1 or (not count and self.parser.get_http_version() == "1.1"):
            self._stop(NO_HOST)

    def eof_received(self) -> bool:  # type: ignore[override]
        """End the requests of a client that closes its side of the connection. A stream or a long poll ends
        at once.
        """
        super().eof_received()
        return False

    def _check_head(self, named: dict[bytes, bytes]) -> None:
        """Refuse a request whose head is invalid or declares a body that is too large."""
        refusal = self._listener.refuse_head(self.headers, named, expects=self._expects)
        if refusal is not None:
            self._stop(refusal)
        self._most_body = self._largest_body()
        if int(named.get(b"content-length", 0)) > self._most_body:
            self._stop(BODY_TOO_LARGE)

    def _largest_body(self) -> int:
        """Return the largest allowed body of this request in bytes. It is called before
        ``_takes_fast_path``.
        """
        return self._limits.body

    def _takes_fast_path(self) -> bool:
        """Return True if the request takes the fast path."""
        return False

    def publish(self, cycle: RequestCycle) -> HttpAnswer | None:
        raise NotImplementedError

    def _leave_to_asgi(self) -> None:
        """Let uvicorn build the ASGI scope and the request cycle from the head that was read."""
        url, headers, expects = self.url, self.headers, self._expects
        super().on_message_begin()
        self.url = _origin_form(url)
        self.expect_100_continue, self._expects = expects, False
        self.headers.extend(
            (name.lower(), value) for name, value in headers
        )  # ASGI demands lower case
        self._is_asgi = True
        self.cycle = None  # type: ignore[assignment]  # the queue begins the request, not uvicorn
        super().on_headers_complete()

    def _ignore_upgrade(self, rest: bytes) -> bytes:
        """Return the request without its Upgrade field, because no upgrade is offered (RFC 9110
        7.8).

        The parser took the body for bytes of another protocol and skipped it, so the request is parsed again.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._refuse(TUNNEL)
            return b""
        fields = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        head = b"%b %b HTTP/%b\r\n" % (method, self.url, version)
        return b"".join((head, *fields, b"\r\n", rest))


class EventsProtocol(HttpProtocol):
    """The protocol of the events listener. It passes events to the resource directly, and authenticates the
    sender by the head of the request.
    """

    _listener: EventsResource
    _sans: tuple[San, ...] | None = None
    _is_for_resource = False  # the request is a POST or PUT for events, or a POST for an intake

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._layout = self._fitting(self._listener.layouts.newest)

    def data_received(self, data: bytes) -> None:
        """Read a whole request by the layout of the head before it, or else by the parser."""
        layout = self._layout
        if layout is not None and self._phase is IDLE and not (self._unparsed or self._ended):
            found = layout.read(data)
            if found is not None and self._fits(data, found[1]):
                self._is_parsing = True
                try:
                    self._take(layout, *found)
                except Exception:  # noqa: BLE001 - the sender is owed an answer, as after a fault in the parser
                    _log.exception("reading a request failed")
                    self._refuse(BUG)
                finally:
                    self._is_parsing = False
                return
        number = self._number
        super().data_received(data)
        if self._number == number + 1 and self._fast and self._phase is IDLE and self._keeps:
            self._learn(data)

    def _fits(self, data: bytes, body: bytes) -> bool:
        """Return True if neither the head nor the body of a whole request can be too large."""
        limits = self._limits
        return len(data) <= limits.header_bytes and len(body) <= limits.body

    def _take(self, layout: HeadLayout, values: tuple[bytes, ...], body: bytes) -> None:
        """Begin a request whose head is of a known layout."""
        self._number += 1
        request = EventRequest(None, None, body, layout.route)
        request.layout, request.values = layout, values
        door = self._listener.door
        if door is not None:
            verdict = door.judge(
                request.headers, request.named, self._sans_of_peer(), self._address()
            )
            if isinstance(verdict, HttpAnswer):
                self._refuse(verdict)
                return
            if isinstance(verdict, Pending):
                request.pending = verdict
            else:
                request.caller = verdict
        self._queue.add_fast(request, last=False)
        if self._queue.is_full:
            self.flow.hold(PIPELINE)

    def _learn(self, data: bytes) -> None:
        """Choose the layout for the next request by the one that the parser has just read."""
        if self._intake is None and not self._query and self.parser is not None:
            line = b"%b %b HTTP/1.1" % (self.parser.get_method(), self.url)
            known = self._listener.layouts.learn(data, line, self.headers, self._route)
            self._layout = self._fitting(known)

    def _fitting(self, layout: HeadLayout | None) -> HeadLayout | None:
        """Return the layout if its heads may have so many fields, else None."""
        return layout if layout and len(layout.names) <= self._limits.header_fields else None

    def eof_received(self) -> bool:  # type: ignore[override]
        """Handle the end of the client's input. A sender may close its side of the connection and still read
        its answers.
        """
        return ServerConnection.eof_received(self)

    def _largest_body(self) -> int:
        self._is_for_resource = self.parser.get_method() in POSTS and self._is_for_events()
        if not self._is_for_resource or self._intake is None:
            return self._limits.body
        try:
            intake = self._listener.intakes.demand(self._intake)
        except UnknownIntake as error:
            if self._has_body():
                self._stop(from_sender_error(error))
            self._is_for_resource = (
                False  # the ASGI way gives the same answer and keeps the connection
            )
            return self._limits.body
        return intake.largest_body(self._limits.body)

    def _has_body(self) -> bool:
        named = self._named
        return b"transfer-encoding" in named or int(named.get(b"content-length", 0)) > 0

    def _body_share(self) -> str | None:
        """Return the share of the listener's memory that the body of this request uses.

        Each intake has its own share, because its requests are verified only when they are complete. The
        share is None for a known producer, and for every sender if the listener has no producers.
        """
        if not self._fast:
            return UNAUTHENTICATED
        if self._intake is not None:
            return self._intake
        door, caller = self._listener.door, self._caller
        if door is None or not door.producers.posts or (caller is not None and caller.name):
            return None
        return UNAUTHENTICATED

    def _takes_fast_path(self) -> bool:
        if not self._is_for_resource:
            return False
        if b"origin" in self._named and self._listener.refuses_origin(self.headers, self._intake):
            self._stop(OTHER_ORIGIN)
        door = self._listener.door
        self._caller = self._pending = None
        if door is not None and self._intake is None:  # an intake verifies its own requests
            self._authenticate(door)
        return True

    def _authenticate(self, door: Authenticator) -> None:
        """Authenticate the sender. After a refusal the body is not read, and the connection ends."""
        verdict = door.judge(self.headers, self._named, self._sans_of_peer(), self._address())
        if isinstance(verdict, HttpAnswer):
            self._stop(verdict)
        elif isinstance(verdict, Pending):
            self._pending = verdict
        else:
            self._caller = verdict

    def _sans_of_peer(self) -> tuple[San, ...]:
        """Return the subject alternative names of the client certificate, which the handshake has
        verified.
        """
        if self._sans is None:
            self._sans = sans_of(self.transport.get_extra_info("peercert") or {})
        return self._sans

    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _is_for_events(self) -> bool:
        url = self.url
        self._route, self._query, self._intake = None, b"", None
        if url == b"/events":
            return True
        path, _, self._query = _origin_form(url).partition(b"?")
        is_for_events, self._route, intake = _TARGETS[path]
        if intake is not None and self.parser.get_method() == b"POST":
            self._intake = intake
        return is_for_events or self._intake is not None

    def publish(self, cycle: RequestCycle) -> HttpAnswer | None:
        return self._listener.post(cycle.request, cycle.answered)  # type: ignore[arg-type]


def _target(path: bytes) -> tuple[bool, str | None, str | None]:
    """Return three values for a path: whether it accepts events, its route, and its intake."""
    wanted = unquote(path.decode("latin-1"))
    is_for_events, route = events_target(wanted)
    return is_for_events, route, None if is_for_events else intake_target(wanted)


_TARGETS = Memo(_target)


def _origin_form(url: bytes) -> bytes:
    """Return path and query of a request target, without the fragment. The target may have the absolute form
    (RFC 9112 3.2.2).
    """
    if url[:1] == b"/" and b"#" not in url:
        return url
    parsed = httptools.parse_url(url)
    path: bytes = parsed.path or b"/"
    return path + b"?" + parsed.query if parsed.query else path
