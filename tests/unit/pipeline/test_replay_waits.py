"""The waits of a replay whose gateway or broker asks it to come later."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from app.errors import BrokerUnavailable
from app.libraries.httpx_client import httpx
from app.pipeline.replay.gateway import problem_of, wait_of
from app.pipeline.replay.topic import FIRST_WAIT, PATIENCE, RetryWaits
from virtual_clock import VirtualClock

NOW = datetime(2026, 11, 28, 7, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("Sat, 28 Nov 2026 07:00:09 GMT", 9.0),  # RFC 9110 10.2.3: a date is as good as seconds
        ("Sat, 28 Nov 2026 06:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
    ],
)
def test_a_response_says_when_to_come_again(header: str, seconds: float | None) -> None:
    assert wait_of(httpx.Response(503, headers={"retry-after": header}), NOW) == seconds


def test_a_response_may_name_no_time() -> None:
    assert wait_of(httpx.Response(503), NOW) is None


@pytest.mark.parametrize("asked", [3_600.0, float("inf")])
async def test_nobody_makes_a_replay_wait_longer_than_its_patience(asked: float) -> None:
    clock = VirtualClock()
    waits = RetryWaits(clock)
    waiting = asyncio.ensure_future(waits.after(BrokerUnavailable("busy", retry_after=asked)))
    await clock.advance(PATIENCE - 1)
    assert not waiting.done()
    await clock.advance(1)
    assert waiting.done()
    await clock.advance(FIRST_WAIT)
    with pytest.raises(BrokerUnavailable, match="busy"):
        await waits.after(BrokerUnavailable("busy"))


@pytest.mark.parametrize("body", [b"[" * 200_000, b'"\xff"', b"\xff", b"", b"[]", b"null"])
def test_a_body_that_is_no_problem_ends_no_replay(body: bytes) -> None:
    assert problem_of(httpx.Response(503, content=body)) == (True, "")


def test_a_problem_says_that_another_attempt_is_useless() -> None:
    body = b'{"type": "urn:skybridge:problem:bound-reached", "retryable": false}'
    assert problem_of(httpx.Response(503, content=body)) == (False, "bound-reached")
