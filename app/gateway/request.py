"""Pure. One request for ``/events`` or an intake, parsed so far that all its handlers can use it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from app.access.caller import EventSender
from app.bindings.record import Decoded
from app.errors import Fault, SenderError
from app.gateway.head_layout import HeadLayout

HeaderPairs = Sequence[tuple[bytes, bytes]]

KEY_HEADER = b"skybridge-key"


class Pending(NamedTuple):
    """A token whose signing key is unknown, so that the request waits.

    ``asking`` is the running request to the issuer for its keys. ``since`` is the number of such requests at
    the time when the token came.
    """

    asking: asyncio.Task[None]
    token: bytes
    digest: bytes
    since: int = 0


class EventRequest(msgspec.Struct, gc=False):
    """One request for ``/events`` or an intake.

    Attributes:
        given: header pairs in order, including repeated headers, with names as in ``FIELD_NAMES``. None if
            ``layout`` has them.
        mapping: the headers as a mapping; None until ``named`` is called.
        body: the body.
        route: the route in the path; None if the rules choose the route.
        query: the query without ``?``.
        caller: the producer; None if no credential is needed.
        pending: set while the caller is not known yet.
        intake: the intake in the path, if any.
        event: the event that an intake has made of the request.
        counted: whether the events of the request were charged to the quota of the caller.
        layout: the layout of the head, if its head is compiled.
        values: the varying values of such a head.
    """

    given: HeaderPairs | None
    mapping: dict[bytes, bytes] | None
    body: bytes
    route: str | None = None
    query: bytes = b""
    caller: EventSender | None = None
    pending: Pending | None = None
    intake: str | None = None
    event: Decoded | None = None
    counted: bool = False
    layout: HeadLayout | None = None
    values: tuple[bytes, ...] = ()

    @property
    def headers(self) -> HeaderPairs:
        """Return the header pairs in order, including repeated headers."""
        if self.given is None:
            self.given = self.layout.headers(self.values) if self.layout else ()
        return self.given

    @property
    def named(self) -> dict[bytes, bytes]:
        """Return the headers as a mapping, which has only the last value of a repeated header. Use it to check
        whether a name is present."""
        if self.mapping is None:
            self.mapping = dict(self.headers)
        return self.mapping

    @property
    def producer(self) -> str:
        """Return the name of the producer; "" if it is not known."""
        return "" if self.caller is None else self.caller.name


def events_target(path: str) -> tuple[bool, str | None]:
    """Return whether a path accepts events, and the route that it names. The path is decoded and has no
    query. A slash at the end is ignored.
    """
    path = path.removesuffix("/")
    if path == "/events":
        return True, None
    route = path.removeprefix("/events/")
    return (True, route) if route and route != path else (False, None)


def intake_target(path: str) -> str | None:
    """Return the intake that a path names, or None. The path is decoded and has no query. A slash at the end
    is ignored.
    """
    path = path.removesuffix("/")
    name = path.removeprefix("/in/")
    return name if name and name != path else None


def request_key(request: EventRequest) -> bytes | None:
    """Return the record key that the sender chose, or None.

    The key is the raw value of the header ``Skybridge-Key``, or the percent-decoded query parameter ``key``.
    Raise SenderError if two keys differ, because one of them would be lost.
    """
    if not request.query and KEY_HEADER not in request.named:
        return None
    given = _keys(request)
    if not given:
        return None
    (at, key), *others = given
    for other_at, other in others:
        if other != key:
            raise _conflict(at, other_at)
    return key


def _keys(request: EventRequest) -> list[tuple[str, bytes]]:
    headers = [
        ("header skybridge-key", value) for name, value in request.headers if name == KEY_HEADER
    ]
    query = [
        ("query key", unquote_to_bytes(part[4:]))
        for part in request.query.split(b"&")
        if part.startswith(b"key=")
    ]
    return headers + query


def _conflict(at: str, other_at: str) -> SenderError:
    fault = Fault("conflicting-key", f"{at} and {other_at} give different keys.", other_at, "K7")
    return SenderError("Conflicting keys", code="conflicting-key", faults=(fault,))


def values_of(headers: HeaderPairs, wanted: bytes) -> bytes:
    """Return all fields of a name joined with commas (RFC 9110 5.3). A mapping of headers would have only the
    last field.
    """
    return b", ".join(value for name, value in headers if name == wanted)


def wants_receipts(request: EventRequest) -> bool:
    """Return True if the request has ``Prefer: return=representation`` (RFC 7240), in any case."""
    if b"prefer" not in request.named:
        return False
    prefer = values_of(request.headers, b"prefer")
    wishes = prefer.lower().replace(b'"', b"").replace(b" ", b"").split(b",")
    return b"return=representation" in (wish.split(b";")[0] for wish in wishes)
