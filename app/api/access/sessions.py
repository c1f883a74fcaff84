"""Sessions of browsers: behind the opaque id in a cookie stands an admin token that was shown once (ADR 0041).

Digests alone are kept: of the id, and of the token. Whatever the token may do at the time of a request, the
session may. It ends when nobody used it for long, at its longest age, at logout, and when its token goes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection

import msgspec

from app.api.access.callers import digest_of

IDLE = 30 * 60.0  # seconds without a request and without an open stream
LONGEST = 12 * 3600.0  # seconds
OF_A_TOKEN = 64  # sessions of one token; one more ends the one that has been unused for longest

NAME = "skybridge-session"
HOST_PREFIX = "__Host-"  # a browser takes such a cookie over TLS only, and from no other host
_ID_BYTES = 32


class Session(msgspec.Struct):
    """``token``: digest of its token. Times by the monotonic clock."""

    token: bytes
    begun: float
    used: float

    def left(self, now: float) -> float:
        """Seconds until it ends if nobody uses it; none are left when it has ended."""
        return min(self.begun + LONGEST, self.used + IDLE) - now


class Sessions:
    """Of one process, the one that has been unused for longest first. They do not survive it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._sessions: dict[bytes, Session] = {}

    def begin(self, token: bytes) -> tuple[str, Session]:
        """The id, which only the browser knows from here on. ``token``: its digest."""
        self._make_room(token)
        id_, now = secrets.token_urlsafe(_ID_BYTES), self._monotonic()
        session = Session(token, now, now)
        self._sessions[digest_of(id_.encode())] = session
        return id_, session

    def use(self, id_: str) -> Session | None:
        """None where there is none, or none any more."""
        digest, now = digest_of(id_.encode()), self._monotonic()
        session = self._sessions.pop(digest, None)
        if session is None or session.left(now) <= 0:
            return None
        session.used = now
        self._sessions[digest] = session
        return session

    def end(self, id_: str) -> None:
        self._sessions.pop(digest_of(id_.encode()), None)

    def keep(self, tokens: Collection[bytes]) -> None:
        """Only those of these tokens, by digest: the others are gone from the configuration."""
        self._sessions = {id_: one for id_, one in self._sessions.items() if one.token in tokens}

    def left(self, session: Session) -> float:
        """Seconds."""
        return session.left(self._monotonic())

    def __len__(self) -> int:
        return len(self._sessions)

    def _make_room(self, token: bytes) -> None:
        now = self._monotonic()
        self._sessions = {id_: one for id_, one in self._sessions.items() if one.left(now) > 0}
        own = [id_ for id_, one in self._sessions.items() if one.token == token]
        for id_ in own[: max(0, len(own) - OF_A_TOKEN + 1)]:
            del self._sessions[id_]


def csrf_of(id_: str) -> str:
    """What a page of ours shows with each change: another page cannot read it. It follows from the id, from
    which nobody comes back to the id."""
    return hmac.new(id_.encode(), b"skybridge csrf", hashlib.sha256).hexdigest()


def cookie_name(port: int, *, secure: bool) -> str:
    """With the port: browsers send the cookies of a host to all its ports, and two services on one machine
    must not end each other's sessions."""
    return f"{HOST_PREFIX if secure else ''}{NAME}-{port}"


def set_cookie(name: str, id_: str) -> str:
    """The header's value. An empty ``id_`` takes the cookie back."""
    secure = "; Secure" if name.startswith(HOST_PREFIX) else ""
    ends = "" if id_ else "; Max-Age=0"
    return f"{name}={id_}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"


def id_in(cookies: str, name: str) -> str:
    """Of a Cookie header; empty where it has none. Cookies of others in it may look as they like."""
    pairs = (each.strip().partition("=") for each in cookies.split(";"))
    return next((value for named, _, value in pairs if named == name), "")
