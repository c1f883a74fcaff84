"""Sessions by the clock: they end when nobody uses them, at their longest age, and beyond their number."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.api.access.callers import AccessToken, AdminAccess, caller_of, digest_of
from app.api.access.guard import TokenGuard
from app.api.access.sessions import (
    IDLE,
    LONGEST,
    OF_A_TOKEN,
    BrowserSessions,
    cookie_name,
    id_in,
    set_cookie,
)
from virtual_clock import VirtualClock

TOKEN = digest_of(b"a-token-of-the-admin")
OTHER = digest_of(b"another-token")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def sessions(clock: VirtualClock) -> BrowserSessions:
    return BrowserSessions(clock.monotonic)


async def test_a_session_ends_when_nobody_uses_it(
    sessions: BrowserSessions, clock: VirtualClock
) -> None:
    """A browser that was left open in an office."""
    id_, session = sessions.begin(TOKEN)
    for _ in range(3):
        await clock.advance(IDLE - 1)
        assert sessions.use(id_) is session
        assert sessions.seconds_left(session) == IDLE
    await clock.advance(IDLE)
    assert sessions.use(id_) is None


async def test_a_session_ends_at_its_longest_age(
    sessions: BrowserSessions, clock: VirtualClock
) -> None:
    """However busy it is."""
    id_, session = sessions.begin(TOKEN)
    while session.begun + LONGEST - clock.monotonic() > IDLE:
        await clock.advance(IDLE / 2)
        assert sessions.use(id_) is session
    assert 0 < sessions.seconds_left(session) <= IDLE
    await clock.advance(sessions.seconds_left(session))
    assert sessions.use(id_) is None


async def test_one_more_ends_the_one_that_was_unused_for_longest(
    sessions: BrowserSessions, clock: VirtualClock
) -> None:
    """Of its own token: nobody is pushed out by another's logins."""
    others, _ = sessions.begin(OTHER)
    ids = [sessions.begin(TOKEN)[0] for _ in range(OF_A_TOKEN)]
    await clock.advance(1)
    sessions.use(ids[0])
    newest, _ = sessions.begin(TOKEN)
    assert sessions.use(ids[1]) is None
    assert all(sessions.use(each) for each in (others, ids[0], *ids[2:], newest))
    assert len(sessions) == OF_A_TOKEN + 1


async def test_sessions_that_ended_hold_no_memory(
    sessions: BrowserSessions, clock: VirtualClock
) -> None:
    for _ in range(5):
        sessions.begin(OTHER)
    await clock.advance(IDLE)
    sessions.begin(TOKEN)
    assert len(sessions) == 1


def test_no_id_and_no_token_is_kept(sessions: BrowserSessions) -> None:
    """Whoever reads the memory of the process logs in nowhere."""
    id_, session = sessions.begin(TOKEN)
    assert id_ not in str(sessions._sessions)
    assert id_.encode() not in sessions._sessions
    assert session.token == TOKEN


def test_sessions_of_other_tokens_are_not_kept(sessions: BrowserSessions) -> None:
    mine, _ = sessions.begin(TOKEN)
    others, _ = sessions.begin(OTHER)
    sessions.keep_only({OTHER})
    assert sessions.use(mine) is None
    assert sessions.use(others) is not None


@pytest.mark.parametrize(
    ("cookies", "expected"),
    [
        ("", ""),
        ("skybridge-session-8081=abc", "abc"),
        ('odd; a="b;c"; skybridge-session-8081=abc; x', "abc"),
        ("skybridge-session-8082=abc; __Host-skybridge-session-8081=abc", ""),
        ("skybridge-session-8081", ""),
    ],
)
def test_the_cookie_is_found_among_those_of_others(cookies: str, expected: str) -> None:
    assert id_in(cookies, cookie_name(8081, secure=False)) == expected


def test_over_tls_the_cookie_is_bound_to_its_host() -> None:
    """RFC 6265bis 4.1.3.2: with Secure, with Path=/ and without Domain."""
    name = cookie_name(8081, secure=True)
    assert set_cookie(name, "abc") == (
        "__Host-skybridge-session-8081=abc; Path=/; HttpOnly; SameSite=Strict; Secure"
    )


async def _name(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the name of the caller."""
    caller = caller_of(scope)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    body = b"a stranger" if caller is None else caller.name.encode()
    await send({"type": "http.response.body", "body": body})


async def test_a_token_in_the_header_counts_before_the_cookie(clock: VirtualClock) -> None:
    """A program that keeps cookies is who it says it is; a wrong token is not saved by a cookie."""
    every = frozenset({"read"})
    access = AdminAccess(
        [AccessToken("ana", ["token-of-ana"], every), AccessToken("ben", ["b"], every)]
    )
    guard = TokenGuard(_name, access, clock.monotonic)
    id_, _ = guard.sessions.begin(digest_of(b"token-of-ana"))
    cookie = {"cookie": f"{cookie_name(8081, secure=False)}={id_}"}
    transport = httpx.ASGITransport(app=guard)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://shop.example:8081"
    ) as client:

        async def asked(**headers: str) -> httpx.Response:
            return await client.get("/status", headers=cookie | headers)

        assert (await asked()).text == "ana"
        assert (await asked(authorization="Bearer b")).text == "ben"
        assert (await asked(authorization="Bearer c")).status_code == 401
