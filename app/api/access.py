"""Access to the admin listener: a bearer token on everything but the status of the probes, wrong ones throttled,
and no changes on behalf of a page of another origin. What a token may do is judged by ``operations``.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import msgspec

from app.api.callers import Access, Caller, Callers, attach, caller_of
from app.api.wrong_tokens import WrongTokens
from app.errors import SetupError

Scope = MutableMapping[str, Any]
Asgi = Callable[
    [Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]

LIVENESS, READINESS = "/healthz", "/readyz"
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({b"", b"same-origin", b"none"})  # none: a person typed the address


class Refusal(NamedTuple):
    """``wait``: seconds until it may be otherwise, 0 where that is no question of time."""

    status: int
    body: bytes
    wait: float = 0.0


def _refusal(status: int, code: str, title: str, detail: str) -> Refusal:
    problem = {"type": f"urn:skybridge:problem:{code}", "title": title, "status": status}
    return Refusal(status, msgspec.json.encode({**problem, "detail": detail}))


_NO_TOKEN = _refusal(
    401,
    "not-authorised",
    "The admin listener needs a token",
    "Send one as Authorization: Bearer <token>: server.admin.token, or one of server.admin.tokens.",
)
_WRONG_TOKEN = _refusal(
    401,
    "not-authorised",
    "The admin listener has no such token",
    "Send server.admin.token or one of server.admin.tokens as Authorization: Bearer <token>.",
)
_THROTTLED = _refusal(
    429,
    "too-many-wrong-tokens",
    "Too many wrong tokens came from this address",
    "Wait as Retry-After says, or send the right token, which works at once.",
)
_OTHER_HOST = _refusal(
    421,
    "misdirected",
    "The admin listener answers to loopback names only",
    "Set server.admin.token to reach it under another name.",
)
_OTHER_ORIGIN = _refusal(
    403,
    "other-origin",
    "A page of another origin must not change anything",
    "Send the request from the command line, or from a page of this listener: without Origin and Sec-Fetch-Site, or with its own.",
)


class TokenGuard:
    """A plain ASGI layer that finds the caller of each request. Without tokens the listener is on loopback
    and everybody there may ask, but only under a loopback name, or a web page could have its own name
    point here. Readiness answers strangers too.
    """

    def __init__(
        self, app: Asgi, access: Access, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._wrong = WrongTokens(monotonic)
        self.expect(access)

    def expect(self, access: Access) -> None:
        """From the next request on."""
        self._callers = Callers(access)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"www-authenticate", b"Bearer"),
            (b"content-length", str(len(refusal.body)).encode()),
        ]
        if refusal.wait:
            headers.append((b"retry-after", str(math.ceil(refusal.wait)).encode()))
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": refusal.body})

    def _refusal(self, scope: Scope) -> Refusal | None:
        if scope["type"] != "http" or scope["path"] == LIVENESS:
            return None
        found = self._judge(scope)
        if isinstance(found, Caller):
            attach(scope, found)
            return None
        if scope["path"] == READINESS and found in {_NO_TOKEN, _OTHER_HOST}:
            return None
        return found

    def _judge(self, scope: Scope) -> Caller | Refusal:
        if scope["method"] not in _LOOKS and _is_of_another_origin(scope):
            return _OTHER_ORIGIN
        if self._callers.open:
            return self._callers.anybody() if is_loopback(_host(scope)) else _OTHER_HOST
        given = _header(scope, b"authorization")
        if not given:
            return _NO_TOKEN
        scheme, _, token = given.partition(b" ")
        caller = self._callers.by(token.strip()) if scheme.lower() == b"bearer" else None
        if caller is not None:
            return caller
        wait = self._wrong.note(peer_of(scope))
        return _THROTTLED._replace(wait=wait) if wait else _WRONG_TOKEN


def may_look(scope: Scope) -> bool:
    """Whether the caller may see more than the status of a probe."""
    caller = caller_of(scope)
    return caller is not None and "read" in caller.scopes


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")


def peer_of(scope: Scope) -> str:
    """The address of whoever is connected to us: a proxy, where there is one."""
    client = scope.get("client")
    return client[0] if client else "an unknown address"


def _host(scope: Scope) -> str:
    """Of the Host header, without its port."""
    text = _header(scope, b"host").decode("latin-1")
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _is_of_another_origin(scope: Scope) -> bool:
    """A browser says where a page that asks comes from. Other programs say nothing."""
    if _header(scope, b"sec-fetch-site").lower() not in _OWN_SITE:
        return True
    origin = _header(scope, b"origin")
    return bool(origin) and origin.partition(b"://")[2].lower() != _header(scope, b"host").lower()


def demand_token(host: str, access: Access) -> None:
    """Off loopback the admin listener does not start without a token. Raises SetupError."""
    if not access.tokens and not is_loopback(host):
        raise SetupError(
            f"the admin listener on {host} can be reached from other machines but has no token.",
            setting="server.admin.token",
            cure="Set it, for example to ${env:SKYBRIDGE_ADMIN_TOKEN}, or server.admin.tokens, or"
            " listen on 127.0.0.1.",
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
