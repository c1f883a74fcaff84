"""Wrong tokens for the admin listener: counted by address, throttled, and told to the operator."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from app.api.access.callers import AdminAccess
from app.api.access.guard import TokenGuard
from app.api.access.wrong_tokens import PEERS, PERIOD, WRONG_TOKENS
from virtual_clock import VirtualClock

RIGHT, WRONG = "t0ken-of-the-admin", "t0ken-of-somebody"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def guard(clock: VirtualClock) -> TokenGuard:
    return TokenGuard(_answers, AdminAccess.by(RIGHT), clock.monotonic)


async def _answers(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def _ask(
    guard: TokenGuard, token: str | None, peer: str = "10.0.0.9", path: str = "/status"
) -> httpx.Response:
    transport = httpx.ASGITransport(app=guard, client=(peer, 4711))
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client:
        return await client.get(path, headers=headers)


async def _exhaust(guard: TokenGuard, peer: str = "10.0.0.9") -> None:
    for _ in range(WRONG_TOKENS):
        assert (await _ask(guard, WRONG, peer)).status_code == 401


async def test_an_address_with_many_wrong_tokens_waits_until_its_minute_is_over(
    guard: TokenGuard, clock: VirtualClock
) -> None:
    """Guessing costs time, and the guesser is told how much."""
    await _exhaust(guard)
    await clock.advance(20.5)
    refused = await _ask(guard, WRONG)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "40")
    assert refused.json()["type"] == "urn:skybridge:problem:too-many-wrong-tokens"
    assert (await _ask(guard, WRONG, path="/readyz")).status_code == 429
    await clock.advance(PERIOD - 20.5)
    assert (await _ask(guard, WRONG)).status_code == 401


async def test_the_right_token_is_never_throttled(guard: TokenGuard) -> None:
    """A proxy, or a neighbour behind the same address, must not lock the operator out."""
    await _exhaust(guard)
    assert (await _ask(guard, WRONG)).status_code == 429
    assert (await _ask(guard, RIGHT)).status_code == 200


async def test_no_token_and_other_addresses_are_not_counted(guard: TokenGuard) -> None:
    """A probe shows none, as often as it likes."""
    for _ in range(2 * WRONG_TOKENS):
        assert (await _ask(guard, None)).status_code == 401
        assert (await _ask(guard, None, path="/readyz")).status_code == 200
    await _exhaust(guard)
    assert (await _ask(guard, WRONG, peer="10.0.0.10")).status_code == 401
    assert (await _ask(guard, None, path="/readyz")).status_code == 200


async def test_the_memory_of_addresses_is_bounded(guard: TokenGuard) -> None:
    """Whoever has many addresses must not fill our memory: the oldest are forgotten."""
    await _exhaust(guard)
    for n in range(PEERS - 1):
        await _ask(guard, WRONG, peer=f"10.1.{n >> 8}.{n & 255}")
    assert (await _ask(guard, WRONG)).status_code == 429
    await _ask(guard, WRONG, peer="10.2.0.0")
    assert (await _ask(guard, WRONG)).status_code == 401


async def test_one_warning_a_minute_counts_them_and_names_the_address(
    guard: TokenGuard, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator sees that somebody tries, or that a monitor has an old token, and never the token."""
    caplog.set_level(logging.WARNING)
    for _ in range(30):
        await _ask(guard, WRONG)
    await clock.advance(PERIOD)
    await _ask(guard, WRONG, peer="10.0.0.10")
    assert [each.getMessage() for each in caplog.records] == [
        "wrong tokens for the admin listener: 1 since the last entry, the latest from 10.0.0.9",
        "wrong tokens for the admin listener: 30 since the last entry, the latest from 10.0.0.10",
    ]
