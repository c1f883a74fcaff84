"""Access to the admin listener: a bearer token on everything but the status of the probes, compared in constant
time, wrong ones throttled, and no changes on behalf of a page of another origin.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import msgspec

from app.errors import SetupError

Scope = MutableMapping[str, Any]
Asgi = Callable[
    [Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]

PERIOD = 60.0  # seconds
WRONG_TOKENS = 10  # from one address within the period; later ones are told to wait
PEERS = 1_024  # addresses that are remembered

LIVENESS, READINESS = "/healthz", "/readyz"
_MAY_LOOK = "skybridge.may_look"  # in a scope
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({b"", b"same-origin", b"none"})  # none: a person typed the address


_log = logging.getLogger(__name__)


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
    "The admin listener needs its token",
    "Send it as Authorization: Bearer <server.admin.token>.",
)
_WRONG_TOKEN = _refusal(
    401,
    "not-authorised",
    "The token is not that of the admin listener",
    "Send server.admin.token as Authorization: Bearer <token>.",
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


class WrongTokens:
    """How many came from each address since the first of its period; beyond a bound the oldest are forgotten."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._peers: dict[str, tuple[float, int]] = {}  # in the order of their periods
        self._untold = 0
        self._quiet_until = -math.inf

    def note(self, peer: str) -> float:
        """One more. Returns the seconds that the peer has to wait, 0 while it need not."""
        now = self._monotonic()
        since, count = self._peers.get(peer, (now, 0))
        if now - since >= PERIOD:
            del self._peers[peer]
            since, count = now, 0
        self._peers[peer] = since, count + 1
        if len(self._peers) > PEERS:
            del self._peers[next(iter(self._peers))]
        self._tell(peer, now)
        return since + PERIOD - now if count >= WRONG_TOKENS else 0.0

    def _tell(self, peer: str, now: float) -> None:
        self._untold += 1
        if now < self._quiet_until:
            return
        _log.warning(
            "wrong tokens for the admin listener: %d since the last entry, the latest from %s",
            self._untold,
            peer,
        )
        self._untold = 0
        self._quiet_until = now + PERIOD


class TokenGuard:
    """A plain ASGI layer. ``token`` None: the listener is on loopback and everybody there may ask,
    but only under a loopback name, or a web page could have its own name point here.

    Readiness answers strangers too; ``may_look`` tells its handler whether this is one.
    """

    def __init__(
        self, app: Asgi, token: str | None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._wrong = WrongTokens(monotonic)
        self.expect(token)

    def expect(self, token: str | None) -> None:
        """From the next request on."""
        self._expected = f"Bearer {token}".encode() if token else None

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
        refusal = self._judge(scope)
        scope[_MAY_LOOK] = refusal is None
        if scope["path"] == READINESS and refusal in {_NO_TOKEN, _OTHER_HOST}:
            return None
        return refusal

    def _judge(self, scope: Scope) -> Refusal | None:
        if scope["method"] not in _LOOKS and _is_of_another_origin(scope):
            return _OTHER_ORIGIN
        if self._expected is None:
            return None if is_loopback(_host(scope)) else _OTHER_HOST
        given = _header(scope, b"authorization")
        if not given:
            return _NO_TOKEN
        if hmac.compare_digest(given, self._expected):
            return None
        wait = self._wrong.note(_peer(scope))
        return _THROTTLED._replace(wait=wait) if wait else _WRONG_TOKEN


def may_look(scope: Scope) -> bool:
    """Whether whoever asks may see more than the status of a probe."""
    return bool(scope.get(_MAY_LOOK))


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")


def _peer(scope: Scope) -> str:
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


def demand_token(host: str, token: str | None) -> None:
    """Off loopback the admin listener does not start without a token. Raises SetupError."""
    if not token and not is_loopback(host):
        raise SetupError(
            f"the admin listener on {host} can be reached from other machines but has no token.",
            setting="server.admin.token",
            cure="Set it, for example to ${env:SKYBRIDGE_ADMIN_TOKEN}, or listen on 127.0.0.1.",
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
