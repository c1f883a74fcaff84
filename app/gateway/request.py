"""One request for ``/events``, parsed as far as every way in needs it. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from app.access.caller import EventSender
from app.bindings.record import Decoded
from app.errors import Fault, SenderError

HeaderPairs = Sequence[tuple[bytes, bytes]]

KEY_HEADER = b"skybridge-key"


class Pending(NamedTuple):
    """A token of a key that is not known: ``asking`` is the question for the keys of its issuer. ``since``: how
    often the issuer had been asked when the token came."""

    asking: asyncio.Task[None]
    token: bytes
    digest: bytes
    since: int = 0


class Request(msgspec.Struct, gc=False):
    """``headers``: names as ``FIELD_NAMES`` has them, order and repeats kept. ``named``: the same as a
    mapping, in which the last of repeats stands; good for asking whether a name is there at all.
    ``route``: the name in the path, None for the rules to choose. ``query``: without ``?``.
    ``caller``: the producer; None where nobody is asked for a credential.
    ``pending``: it is not known yet.
    ``intake``: the name in the path of one. ``event``: what an intake has made of a request.
    ``counted``: its events are known, and the caller's quota was asked for them.
    """

    headers: HeaderPairs
    named: dict[bytes, bytes]
    body: bytes
    route: str | None = None
    query: bytes = b""
    caller: EventSender | None = None
    pending: Pending | None = None
    intake: str | None = None
    event: Decoded | None = None
    counted: bool = False

    @property
    def producer(self) -> str:
        """Its name; "" where nobody knows."""
        return "" if self.caller is None else self.caller.name


def events_target(path: str) -> tuple[bool, str | None]:
    """Return whether ``path`` (decoded, no query) is ours, and the route it names. A slash at its end changes nothing."""
    path = path.removesuffix("/")
    if path == "/events":
        return True, None
    route = path.removeprefix("/events/")
    return (True, route) if route and route != path else (False, None)


def intake_target(path: str) -> str | None:
    """Return the intake that ``path`` (decoded, no query) names. A slash at its end changes nothing."""
    path = path.removesuffix("/")
    name = path.removeprefix("/in/")
    return name if name and name != path else None


def request_key(request: Request) -> bytes | None:
    """The sender's own record key (K7): header ``Skybridge-Key``, bytes as they are, or query
    ``key``, percent-decoded. Two that differ are a fault, for one of them would be lost."""
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


def _keys(request: Request) -> list[tuple[str, bytes]]:
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
    """Every field of that name as one list (RFC 9110 5.3): a mapping would keep the last alone."""
    return b", ".join(value for name, value in headers if name == wanted)


def wants_receipts(request: Request) -> bool:
    """``Prefer: return=representation`` (RFC 7240), among other preferences, in any case."""
    if b"prefer" not in request.named:
        return False
    prefer = values_of(request.headers, b"prefer")
    wishes = prefer.lower().replace(b'"', b"").replace(b" ", b"").split(b",")
    return b"return=representation" in (wish.split(b";")[0] for wish in wishes)
