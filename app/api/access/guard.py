"""Access to the admin listener. Every request needs a bearer token or a browser session, except for the
status of the probes.

Addresses that send wrong tokens are throttled. A page of another origin cannot change anything. The rights of
a token are checked in ``operations``.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

import msgspec

from app.api.access.callers import (
    AdminAccess,
    AdminCaller,
    CallerDirectory,
    attach,
    caller_of,
    digest_of,
)
from app.api.access.sessions import BrowserSession, BrowserSessions, cookie_name, csrf_of, id_in
from app.api.access.wrong_tokens import WrongTokens
from app.errors import SetupError
from app.problems import ProblemCode, problem_type

Scope = MutableMapping[str, Any]
Asgi = Callable[
    [Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]

LIVENESS, READINESS, SESSION = "/healthz", "/readyz", "/v1/session"
CSRF_HEADER = "x-csrf-token"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({b"", b"same-origin", b"none"})  # "none" means a person typed the address


class AccessRefusal(NamedTuple):
    """The answer to a request without access. ``wait`` is the seconds after which the client may try again,
    or 0 if waiting does not help."""

    status: int
    body: bytes
    wait: float = 0.0

    @property
    def headers(self) -> Iterator[tuple[str, str]]:
        yield "www-authenticate", "Bearer"
        if self.wait:
            yield "retry-after", str(math.ceil(self.wait))


def _refusal(status: int, code: ProblemCode, title: str, detail: str) -> AccessRefusal:
    problem = {"type": problem_type(code), "title": title, "status": status}
    return AccessRefusal(status, msgspec.json.encode({**problem, "detail": detail}))


_NO_TOKEN = _refusal(
    401,
    "not-authorised",
    "The admin listener needs a token",
    "Send server.admin.token or one of server.admin.tokens as Authorization: Bearer <token>.",
)
_WRONG_TOKEN = _refusal(
    401,
    "not-authorised",
    "The admin listener has no such token",
    "Send server.admin.token or one of server.admin.tokens as Authorization: Bearer <token>.",
)
_SESSION_OVER = _refusal(
    401,
    "session-over",
    "The session of this browser has ended",
    "Log in again at /console/ with server.admin.token or one of server.admin.tokens.",
)
_NO_CSRF = _refusal(
    403,
    "csrf",
    "A change by a session needs its CSRF token",
    "Send csrf from the answer of GET /v1/session as X-CSRF-Token. A bearer token needs none.",
)
_THROTTLED = _refusal(
    429,
    "too-many-wrong-tokens",
    "This address sent too many wrong tokens",
    "Wait as long as Retry-After asks, or send the right token, which works at once.",
)
_OTHER_HOST = _refusal(
    421,
    "misdirected",
    "The admin listener accepts only loopback names in Host",
    "Set server.admin.token to reach it under another name.",
)
_OTHER_ORIGIN = _refusal(
    403,
    "other-origin",
    "A page of another origin cannot change anything",
    "Send the request from the command line, without Origin and Sec-Fetch-Site, or from a page of this listener.",
)


_IGNORED_REFUSALS = {
    READINESS: {_NO_TOKEN, _SESSION_OVER, _OTHER_HOST},
    SESSION: {_NO_TOKEN, _SESSION_OVER},
}
"""The refusals that the readiness probe and the login ignore, by path. Both answer callers without a
token."""
_PRIVATE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_PRESENTED = "skybridge.session"  # in a scope of ASGI


def _without_slash(scope: Scope) -> Scope:
    """Return the ASGI scope without a slash at the end of its path, so that ``/v1/topics/`` is
    ``/v1/topics``."""
    if scope["type"] != "http" or len(scope["path"]) == 1 or scope["path"][-1:] != "/":
        return scope
    return {**scope, "path": scope["path"][:-1]}


class AccessEnded(OSError):
    """The access of a caller ended during a streamed answer, because its token or session ended. It is raised
    inside the stream, as if the client had disconnected."""


class PresentedSession(NamedTuple):
    """The session that a request presented, with the session id. Skybridge stores the id in no other
    place."""

    id: str
    session: BrowserSession


class TokenGuard:
    """A plain ASGI layer that finds the caller of each request and refuses requests without access.

    Without tokens, the listener is on loopback and every local caller has access. Such requests must use a
    loopback name in ``Host``, because a web page could otherwise point a name of its own to this listener.
    Readiness and the login answer callers without a token.
    """

    def __init__(
        self, app: Asgi, access: AdminAccess, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._wrong = WrongTokens(monotonic)
        self.sessions = BrowserSessions(monotonic)
        self.apply(access)

    def apply(self, access: AdminAccess) -> None:
        """Apply the tokens of a new configuration from the next request on, and end sessions of removed
        tokens."""
        self._callers = CallerDirectory(access)
        self.sessions.keep_only(self._callers.digests)

    @property
    def open(self) -> bool:
        """Return True if the listener needs no token."""
        return self._callers.open

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        scope, send = _without_slash(scope), _forbid_storing(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(refusal, send)
            return
        caller = caller_of(scope)
        try:
            if caller is None:
                await self._app(scope, receive, send)
            else:
                await self._run_while_allowed(caller, scope, receive, send)
        except Exception as error:
            if not _is_disconnect(error):
                raise

    async def _run_while_allowed(
        self, caller: AdminCaller, scope: Scope, receive: Any, send: Any
    ) -> None:
        """Run the application until the answer is complete or the caller's access ends.

        A stream ends when its token is removed or loses rights, and when its session ends. An open stream
        keeps its session in use.
        """
        presented = presented_by(scope)

        def is_allowed() -> bool:
            session = presented is None or self.sessions.use(presented.id) is not None
            return session and self._callers.still_allows(caller)

        async def pass_on(message: Any) -> None:
            if message.get("more_body") and not is_allowed():
                raise AccessEnded
            await send(message)

        try:
            await self._app(scope, receive, pass_on)
        except Exception as error:
            if is_allowed() or not _is_end_of_access(error):
                raise
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    def log_in(
        self, scope: Scope, token: str
    ) -> tuple[AdminCaller, PresentedSession] | AccessRefusal:
        """Begin a session for a token, and end the session of the request's cookie. A wrong token counts
        against the address, as a wrong bearer token does."""
        given = token.strip().encode(
            "utf-8", "surrogatepass"
        )  # a lone surrogate is in no token, but it must not raise here
        caller = self._callers.by_token(given)
        if caller is None:
            return self._note_wrong(scope)
        self.log_out(scope)
        presented = PresentedSession(*self.sessions.begin(digest_of(given)))
        attach(scope, caller)
        scope[_PRESENTED] = presented
        return caller, presented

    def log_out(self, scope: Scope) -> None:
        """End the session that the request's cookie names, if there is one."""
        self.sessions.end(id_in_cookie(scope))

    def _refusal(self, scope: Scope) -> AccessRefusal | None:
        if scope["type"] != "http" or scope["path"] == LIVENESS:
            return None
        found = self._judge(scope)
        if isinstance(found, AdminCaller):
            attach(scope, found)
            return None
        return None if found in _IGNORED_REFUSALS.get(scope["path"], ()) else found

    def _judge(self, scope: Scope) -> AdminCaller | AccessRefusal:
        if scope["method"] not in _SAFE_METHODS and _is_of_another_origin(scope):
            return _OTHER_ORIGIN
        if self._callers.open:
            return self._callers.local_caller() if is_loopback(_host(scope)) else _OTHER_HOST
        given = _header(scope, b"authorization")
        if not given:
            return self._by_session(scope)
        scheme, _, token = given.partition(b" ")
        caller = self._callers.by_token(token.strip()) if scheme.lower() == b"bearer" else None
        return self._note_wrong(scope) if caller is None else caller

    def _by_session(self, scope: Scope) -> AdminCaller | AccessRefusal:
        id_ = id_in_cookie(scope)
        if not id_:
            return _NO_TOKEN
        session = self.sessions.use(id_)
        caller = None if session is None else self._callers.by_digest(session.token)
        if session is None or caller is None:
            return _SESSION_OVER
        if (
            not _is_login(scope)
            and scope["method"] not in _SAFE_METHODS
            and not _has_csrf(scope, id_)
        ):
            return _NO_CSRF
        scope[_PRESENTED] = PresentedSession(id_, session)
        return caller

    def _note_wrong(self, scope: Scope) -> AccessRefusal:
        wait = self._wrong.note(peer_of(scope))
        return _THROTTLED._replace(wait=wait) if wait else _WRONG_TOKEN


def _is_end_of_access(error: Exception) -> bool:
    """Return True if ``error`` shows that the access of a caller ended. This guard or Starlette raises such
    errors."""
    return isinstance(error, AccessEnded) or _is_disconnect(error)


def _is_disconnect(error: Exception) -> bool:
    """Return True if the caller closed the connection before its body had arrived. It is owed no answer."""
    from starlette.requests import ClientDisconnect  # noqa: PLC0415 - loads with the application

    return isinstance(error, ClientDisconnect)


def _forbid_storing(send: Any) -> Any:
    """Wrap ``send`` so that no cache stores the answers and no browser guesses their media type. Answers may
    contain event data."""

    async def send_marked(message: Any) -> None:
        if message["type"] == "http.response.start":
            given = {bytes(name).lower() for name, _ in message["headers"]}
            added = [pair for pair in _PRIVATE if pair[0] not in given]
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return send_marked


async def _refuse(refusal: AccessRefusal, send: Any) -> None:
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(refusal.body)).encode()),
        *((name.encode(), value.encode()) for name, value in refusal.headers),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body})


def presented_by(scope: Scope) -> PresentedSession | None:
    """Return the browser session that the request presented. Return None if the request sent a token, or
    needed no access."""
    found: PresentedSession | None = scope.get(_PRESENTED)
    return found


def id_in_cookie(scope: Scope) -> str:
    """Return the session id in the request's cookie, or "" if there is none. The session may have ended."""
    return id_in(_header(scope, b"cookie").decode("latin-1"), cookie_of(scope))


def cookie_of(scope: Scope) -> str:
    """Return the name of the session cookie for this request.

    The name depends on TLS, which a proxy reports in ``X-Forwarded-Proto``. A client that sends that header
    without TLS only makes its own browser reject the cookie.
    """
    forwarded = _header(scope, b"x-forwarded-proto").lower().partition(b",")[0].strip()
    server = scope.get("server") or ("", 0)
    return cookie_name(server[1], secure=scope.get("scheme") == "https" or forwarded == b"https")


def _is_login(scope: Scope) -> bool:
    """Return True if the request is a login. The guard then uses the token in the body, even if the cookie
    has the session of another user."""
    return bool(scope["path"] == SESSION and scope["method"] == "POST")


def _has_csrf(scope: Scope, id_: str) -> bool:
    given = _header(scope, CSRF_HEADER.encode())
    return hmac.compare_digest(given, csrf_of(id_).encode())


def may_read(scope: Scope) -> bool:
    """Return True if the caller may see the causes in the answer of a probe. Other callers see its status
    only."""
    caller = caller_of(scope)
    return caller is not None and "read" in caller.scopes and not caller.binding.is_bound


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == wanted), b"")


def peer_of(scope: Scope) -> str:
    """Return the address of the connected peer, which may be a proxy."""
    client = scope.get("client")
    return client[0] if client else "an unknown address"


def _host(scope: Scope) -> str:
    """Return the host of the Host header, without the port."""
    text = _header(scope, b"host").decode("latin-1")
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _is_of_another_origin(scope: Scope) -> bool:
    """Return True if a page of another origin sent the request. Browsers alone report the origin in headers,
    so other clients are never refused."""
    if _header(scope, b"sec-fetch-site").lower() not in _OWN_SITE:
        return True
    origin = _header(scope, b"origin")
    return bool(origin) and origin.partition(b"://")[2].lower() != _header(scope, b"host").lower()


def demand_token(host: str, access: AdminAccess) -> None:
    """Raise SetupError if the admin listener would accept requests from other machines without a token."""
    if not access.tokens and not is_loopback(host):
        raise SetupError(
            f"the admin listener on {host} is reachable from other machines but has no token.",
            setting="server.admin.token",
            cure="Set it, for example to ${env:SKYBRIDGE_ADMIN_TOKEN}, or server.admin.tokens, or"
            " listen on 127.0.0.1.",
        )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
