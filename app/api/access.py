"""Access to the admin listener: a bearer token on everything but the status of the probes, compared in constant
time, and no changes on behalf of a page of another origin.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from app.errors import SetupError

Scope = MutableMapping[str, Any]
Asgi = Callable[
    [Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]

LIVENESS, READINESS = "/healthz", "/readyz"
_MAY_LOOK = "skybridge.may_look"  # in a scope
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({b"", b"same-origin", b"none"})  # none: a person typed the address


def _refusal(status: int, code: str, title: str, detail: str) -> tuple[int, bytes]:
    problem = {"type": f"urn:skybridge:problem:{code}", "title": title, "status": status}
    return status, msgspec.json.encode({**problem, "detail": detail})


_NO_TOKEN = _refusal(
    401,
    "not-authorised",
    "The admin listener needs its token",
    "Send it as Authorization: Bearer <server.admin.token>.",
)
_WRONG_TOKEN = _refusal(
    401,
    "not-authorised",
    "This is not the token of the admin listener",
    "Send server.admin.token as Authorization: Bearer <token>.",
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
    "A page of another origin may change nothing here",
    "Send the request from the command line, or from a page of this listener: without Origin and Sec-Fetch-Site, or with its own.",
)


class TokenGuard:
    """A plain ASGI layer. ``token`` None: the listener is on loopback and everybody there may ask,
    but only under a loopback name, or a web page could have its own name point here.

    Readiness answers strangers too; ``may_look`` tells its handler whether this is one.
    """

    def __init__(self, app: Asgi, token: str | None) -> None:
        self._app = app
        self.expect(token)

    def expect(self, token: str | None) -> None:
        """From the next request on."""
        self._expected = f"Bearer {token}".encode() if token else None

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, body = refusal
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"www-authenticate", b"Bearer"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope) -> tuple[int, bytes] | None:
        if scope["type"] != "http" or scope["path"] == LIVENESS:
            return None
        refusal = self._judge(scope)
        scope[_MAY_LOOK] = refusal is None
        if scope["path"] == READINESS and refusal in {_NO_TOKEN, _OTHER_HOST}:
            return None
        return refusal

    def _judge(self, scope: Scope) -> tuple[int, bytes] | None:
        if scope["method"] not in _LOOKS and _is_of_another_origin(scope):
            return _OTHER_ORIGIN
        if self._expected is None:
            return None if is_loopback(_host(scope)) else _OTHER_HOST
        given = _header(scope, b"authorization")
        if not given:
            return _NO_TOKEN
        return None if hmac.compare_digest(given, self._expected) else _WRONG_TOKEN


def may_look(scope: Scope) -> bool:
    """Whether whoever asks may see more than the status of a probe."""
    return bool(scope.get(_MAY_LOOK))


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")


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


def demand_token(host: str, token: str | None) -> None:
    """Off loopback the admin listener does not start without a token. Raises SetupError."""
    if not token and not is_loopback(host):
        raise SetupError(
            f"the admin listener on {host} can be reached from other machines and has no token.",
            setting="server.admin.token",
            cure="Set it, for example to ${env:SKYBRIDGE_ADMIN_TOKEN}, or listen on 127.0.0.1.",
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
