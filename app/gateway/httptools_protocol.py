"""What travels on a connection: uvicorn's httptools protocol with bounds, and with a short way for events.

On the events listener ``POST`` and ``PUT`` to ``/events`` and ``/events/{route}``, and ``POST`` to
``/in/{name}``, are taken before an ASGI scope is built and answered here; all else goes uvicorn's own way. Both share one queue, so that
answers leave in the order the requests came.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import httptools

from app.access.caller import EventSender
from app.access.who import San, sans_of
from app.bindings.headers import FIELD_NAMES
from app.event.memo import Memo
from app.gateway.answers import (
    BODY_TOO_LARGE,
    HEAD_TOO_LARGE,
    MALFORMED,
    NO_CODING,
    NO_HOST,
    NO_LENGTH,
    OTHER_ORIGIN,
    TARGET_TOO_LONG,
    TUNNEL,
    Answer,
    from_sender_error,
)
from app.gateway.connection import BODY, HEAD, IDLE, Connection, EndOfInput
from app.gateway.door import Door
from app.gateway.intakes import UnknownIntake
from app.gateway.listener import STRANGERS
from app.gateway.read_control import PIPELINE
from app.gateway.request import Pending, Request, events_target, intake_target
from app.gateway.request_queue import RequestCycle
from app.gateway.resource import POSTS, EventsResource

_BEARING = frozenset({b"POST", b"PUT", b"PATCH"})  # methods whose requests bear a body
_LONGEST_TARGET = 0xFFFF  # bytes that the parser of URLs reads; RFC 9112 3 asks for 8,000
_FIELD_OVERHEAD = 4  # ": " and the line end


class HttpProtocol(Connection):
    """The parser's callbacks, in the order in which they come."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._max_fields = self._room = self._limits.header_fields
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
        self._room = self._max_fields
        self._number += 1
        self._hot = self._ordinary = False
        self._expects = False
        self._upgrades = False
        self._body = b""
        self._body_size = 0
        self._wire_size = 0

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > _LONGEST_TARGET:
            self._stop(TARGET_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self.headers
        if len(headers) >= self._room:
            if self._phase is not HEAD:
                return  # a trailer: never merged into the head (RFC 9110 6.5.1)
            self._stop(HEAD_TOO_LARGE)
        headers.append((FIELD_NAMES[name], value.rstrip(b" \t")))  # OWS (RFC 9112 5)

    def on_headers_complete(self) -> None:
        if self._suspect_head:
            self._bound_head()
        if self._held:
            self._release()
        self._phase = BODY
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
        if b"host" not in named or len(named) != len(self.headers):
            self._demand_host()
        self._judge_head(named)
        if self._is_hot():
            self._hot = True
        else:
            self._leave_to_asgi()

    def on_body(self, body: bytes) -> None:
        self._bound_body(len(body))
        if not self._hot:
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
        if not self._hot:
            super().on_message_complete()
        else:
            if type(body) is not bytes:
                body = bytes(body)
            request = Request(
                self.headers,
                self._named,
                body,
                self._route,
                self._query,
                self._caller,
                self._pending,
                self._intake,
            )
            self._queue.add_hot(request, last=not self._keeps)
        if self._queue.is_full:
            self.flow.hold(PIPELINE)

    def _bound_head(self) -> None:
        size = len(self.url) + sum(len(n) + len(v) + _FIELD_OVERHEAD for n, v in self.headers)
        if size > self._limits.header_bytes:
            self._stop(HEAD_TOO_LARGE)

    def _read_connection(self, named: dict[bytes, bytes]) -> None:
        """Read what the version decides. As in uvicorn HTTP/1.0 is never kept alive, and it knows no 100 (RFC 9110 10.1.1)."""
        version = self.parser.get_http_version()
        if version == "1.0":
            self._keeps = False
            self._demand_length(named)
        elif version != "1.1":
            self._stop(MALFORMED)
        else:
            self._expects = named.get(b"expect", b"").lower() == b"100-continue"

    def _demand_length(self, named: dict[bytes, bytes]) -> None:
        """Refuse a request of HTTP/1.0 whose body has no certain end (RFC 1945 8.3, RFC 9112 6.1): the parser would
        drop the body, and the sender would be told that it was taken."""
        if b"transfer-encoding" in named:
            self._stop(NO_CODING)
        if b"content-length" not in named and self.parser.get_method() in _BEARING:
            self._stop(NO_LENGTH)

    def _demand_host(self) -> None:
        """Exactly one in a request of HTTP/1.1 (RFC 9112 3.2)."""
        count = [name for name, _ in self.headers].count(b"host")
        if count > 1 or (not count and self.parser.get_http_version() == "1.1"):
            self._stop(NO_HOST)

    def eof_received(self) -> bool:  # type: ignore[override]
        """A peer that sends no more has left: its stream, or its long poll, ends at once."""
        super().eof_received()
        return False

    def _judge_head(self, named: dict[bytes, bytes]) -> None:
        """Refuse what the head alone tells."""
        refusal = self._listener.refuse_head(self.headers, named, expects=self._expects)
        if refusal is not None:
            self._stop(refusal)
        self._most_body = self._largest_body()
        if int(named.get(b"content-length", 0)) > self._most_body:
            self._stop(BODY_TOO_LARGE)

    def _largest_body(self) -> int:
        """Return the most bytes that the body of this request may have. Called before ``_is_hot``."""
        return self._limits.body

    def _is_hot(self) -> bool:
        """Whether the request goes the short way."""
        return False

    def publish(self, cycle: RequestCycle) -> Answer | None:
        raise NotImplementedError

    def _leave_to_asgi(self) -> None:
        """Let uvicorn build the scope and the cycle, late, from what was read so far."""
        url, headers, expects = self.url, self.headers, self._expects
        super().on_message_begin()
        self.url = _origin_form(url)
        self.expect_100_continue, self._expects = expects, False
        self.headers.extend((name.lower(), value) for name, value in headers)  # as ASGI wants it
        self._ordinary = True
        self.cycle = None  # type: ignore[assignment]  # the queue says when it begins, not uvicorn
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


class EventsProtocol(HttpProtocol):
    """The short way: events go to the resource as they are. The sender is judged by the head."""

    _listener: EventsResource
    _sans: tuple[San, ...] | None = None
    _is_ours = False  # this request is for events or an intake

    def eof_received(self) -> bool:  # type: ignore[override]
        """A sender may send all it has, close its side, and read its answers."""
        return Connection.eof_received(self)

    def _largest_body(self) -> int:
        self._is_ours = self.parser.get_method() in POSTS and self._is_for_events()
        if not self._is_ours or self._intake is None:
            return self._limits.body
        try:
            intake = self._listener.intakes.demand(self._intake)
        except UnknownIntake as error:
            if self._has_body():
                self._stop(from_sender_error(error))
            self._is_ours = False  # the ordinary way answers the same, and the connection goes on
            return self._limits.body
        return intake.largest_body(self._limits.body)

    def _has_body(self) -> bool:
        named = self._named
        return b"transfer-encoding" in named or int(named.get(b"content-length", 0)) > 0

    def _body_share(self) -> str | None:
        """Return the intake, whose requests are verified when they are whole; None for a known producer, and for
        all senders of events where the listener has no producers."""
        if not self._hot:
            return STRANGERS
        if self._intake is not None:
            return self._intake
        door, caller = self._listener.door, self._caller
        if door is None or not door.producers.posts or (caller is not None and caller.name):
            return None
        return STRANGERS

    def _is_hot(self) -> bool:
        if not self._is_ours:
            return False
        if b"origin" in self._named and self._listener.refuses_origin(self.headers, self._intake):
            self._stop(OTHER_ORIGIN)
        door = self._listener.door
        self._caller = self._pending = None
        if door is not None and self._intake is None:  # an intake verifies its own
            self._judge(door)
        return True

    def _judge(self, door: Door) -> None:
        """A refusal ends the connection: its body is not read."""
        verdict = door.judge(self.headers, self._named, self._sans_of_peer(), self._address())
        if isinstance(verdict, Answer):
            self._stop(verdict)
        elif isinstance(verdict, Pending):
            self._pending = verdict
        else:
            self._caller = verdict

    def _sans_of_peer(self) -> tuple[San, ...]:
        """Of the certificate that the client showed, which the handshake has verified."""
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
        is_ours, self._route, intake = _TARGETS[path]
        if intake is not None and self.parser.get_method() == b"POST":
            self._intake = intake
        return is_ours or self._intake is not None

    def publish(self, cycle: RequestCycle) -> Answer | None:
        return self._listener.post(cycle.request, cycle.answered)  # type: ignore[arg-type]


def _target(path: bytes) -> tuple[bool, str | None, str | None]:
    """Whether it takes events, the route, and the intake that it names."""
    wanted = unquote(path.decode("latin-1"))
    is_ours, route = events_target(wanted)
    return is_ours, route, None if is_ours else intake_target(wanted)


_TARGETS = Memo(_target)


def _origin_form(url: bytes) -> bytes:
    """Path and query of a target: of the absolute form too (RFC 9112 3.2.2), without fragment."""
    if url[:1] == b"/" and b"#" not in url:
        return url
    parsed = httptools.parse_url(url)
    path: bytes = parsed.path or b"/"
    return path + b"?" + parsed.query if parsed.query else path
