"""Sessions of browsers. A browser sends an admin token once, and then a cookie with the opaque id of its
session (ADR 0041).

Only digests of the session id and of the token are stored. A session always has the current rights of its
token. It ends after a time without use, at its maximum age, at logout, and when its token is removed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection

import msgspec

from app.api.access.callers import digest_of

IDLE = 30 * 60.0  # seconds without a request or an open stream, after which a session ends
LONGEST = 12 * 3600.0  # seconds, the maximum age of a session
OF_A_TOKEN = 64  # sessions of one token; a new one ends the least recently used

NAME = "skybridge-session"
HOST_PREFIX = "__Host-"  # a browser accepts such a cookie over TLS only, and from this host only
_ID_BYTES = 32


class BrowserSession(msgspec.Struct):
    """A session of a browser. ``token`` is the digest of its token. ``begun`` and ``used`` are seconds of the
    monotonic clock."""

    token: bytes
    begun: float
    used: float

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the session ends without further use. The result is 0 or negative if the
        session has ended."""
        return min(self.begun + LONGEST, self.used + IDLE) - now


class BrowserSessions:
    """The browser sessions of this process, the least recently used first. All sessions end with the
    process."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._sessions: dict[bytes, BrowserSession] = {}

    def begin(self, token: bytes) -> tuple[str, BrowserSession]:
        """Begin a session for a token with this digest. Return the session id and the session. Only the
        browser keeps the id."""
        self._make_room(token)
        id_, now = secrets.token_urlsafe(_ID_BYTES), self._monotonic()
        session = BrowserSession(token, now, now)
        self._sessions[digest_of(id_.encode())] = session
        return id_, session

    def use(self, id_: str) -> BrowserSession | None:
        """Return the session of an id and mark it as used now. Return None if there is none or it has ended."""
        digest, now = digest_of(id_.encode()), self._monotonic()
        session = self._sessions.pop(digest, None)
        if session is None or session.seconds_left(now) <= 0:
            return None
        session.used = now
        self._sessions[digest] = session
        return session

    def end(self, id_: str) -> None:
        """End the session of an id, if there is one."""
        self._sessions.pop(digest_of(id_.encode()), None)

    def keep_only(self, tokens: Collection[bytes]) -> None:
        """End the sessions of all tokens except these, which are given by their digests. A reload has removed
        the other tokens from the configuration."""
        self._sessions = {id_: one for id_, one in self._sessions.items() if one.token in tokens}

    def seconds_left(self, session: BrowserSession) -> float:
        """Return the seconds until a session ends without further use."""
        return session.seconds_left(self._monotonic())

    def __len__(self) -> int:
        return len(self._sessions)

    def _make_room(self, token: bytes) -> None:
        now = self._monotonic()
        self._sessions = {
            id_: one for id_, one in self._sessions.items() if one.seconds_left(now) > 0
        }
        own = [id_ for id_, one in self._sessions.items() if one.token == token]
        for id_ in own[: max(0, len(own) - OF_A_TOKEN + 1)]:
            del self._sessions[id_]


def csrf_of(id_: str) -> str:
    """Return the CSRF token of a session id. The console sends the token with each change. A page of another
    origin cannot read it, and the session id cannot be computed from it."""
    return hmac.new(id_.encode(), b"skybridge csrf", hashlib.sha256).hexdigest()


def cookie_name(port: int, *, secure: bool) -> str:
    """Return the name of the session cookie of a port.

    Browsers send the cookies of a host to all its ports. The port in the name keeps the sessions of two
    services on one machine apart.
    """
    return f"{HOST_PREFIX if secure else ''}{NAME}-{port}"


def set_cookie(name: str, id_: str) -> str:
    """Return the value of the Set-Cookie header. An empty ``id_`` removes the cookie."""
    secure = "; Secure" if name.startswith(HOST_PREFIX) else ""
    ends = "" if id_ else "; Max-Age=0"
    return f"{name}={id_}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"


def id_in(cookies: str, name: str) -> str:
    """Return the session id in a Cookie header, or "" if it has none. Other cookies may have any form."""
    pairs = (each.strip().partition("=") for each in cookies.split(";"))
    return next((value for named, _, value in pairs if named == name), "")
