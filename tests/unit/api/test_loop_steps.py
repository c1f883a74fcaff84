"""No operation of the admin listener computes long between two turns of the loop, with its largest request."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.api.access.operations import RULES
from app.api.http.slices import Slices
from app.telemetry.slices import SLICE
from large_requests import (
    EVENT,
    JSON,
    KnownIds,
    LargeRequest,
    S,
    a_subscription,
    body_of,
    events,
    fill,
    largest,
    settings,
)
from loop_steps import counted_steps
from sending import STRUCTURED
from service import Service, running

ROUTES, SUBSCRIPTIONS, ROWS = 20, 100, 1_000
CALLS = 30_000  # of one step: some milliseconds
UNITS = 1_100  # of one step: a slice, and behind it one row of 1 MiB

DESCRIPTIONS = {path: LargeRequest("GET", path) for path in ("/openapi.json", "/docs")}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    await fill(tmp_path, rows=ROWS, subscriptions=SUBSCRIPTIONS)
    whole = settings(tmp_path, routes=ROUTES, subscriptions=SUBSCRIPTIONS)
    async with running(whole, tmp_path) as service:
        status, answer = await asyncio.to_thread(
            asked_of, service.events_url, KnownIds(), events(ROWS)
        )
        assert status == 202, answer
        yield service


def asked_of(url: str, made: KnownIds, asked: LargeRequest) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)
    try:
        client.request(asked.method, made.path(asked), body_of(asked), dict(asked.headers))
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


LONG = {
    "sql": f"type IN ({', '.join(['0'] * 500)}) OR TRUE"
}  # always true; to compile it takes more than twice CALLS


def long_subscription(name: str) -> dict[str, object]:
    """Return one that is never out of work: it cannot send, or it may read only what is not there."""
    about = {"paused": False, "start": "earliest", "reply": "r0"}
    return {**a_subscription(name, filters=[LONG] * 7), **about}


@pytest.fixture
async def filtering(tmp_path: Path) -> AsyncIterator[Service]:
    """A service with a route whose filters are long too, which takes replies."""
    whole = settings(tmp_path, routes=2, subscriptions=2)
    whole["routes"][0]["filters"] = [{"exact": {"type": "other"}}, *[LONG] * 7]
    async with running(whole, tmp_path) as service:
        yield service


async def test_a_stored_subscription_with_long_filters_is_compiled_in_no_step_of_the_loop(
    filtering: Service,
) -> None:
    """As it is made, as its records are read, looked for, explained and streamed, and as the file is read again."""
    asks = [
        LargeRequest("POST", S, long_subscription("long"), JSON),
        LargeRequest("POST", "/v1/explain", EVENT, STRUCTURED),
        LargeRequest("GET", "/v1/events?id=1"),
        LargeRequest("GET", f"{S}/long/events?start=earliest&follow=false&explain=true"),
        LargeRequest("POST", f"{S}/long:pause", {"cause": "looked at"}, JSON),
        LargeRequest("POST", f"{S}/long:resume"),
        LargeRequest("POST", "/v1/config:reload"),
    ]
    for _ in range(3):
        one = LargeRequest("POST", "/events", EVENT, STRUCTURED)
        assert (await asyncio.to_thread(asked_of, filtering.events_url, KnownIds(), one))[0] == 202
    beyond: dict[str, object] = {}
    with counted_steps() as steps:
        for asked in asks:
            steps.begin()
            status, answer = await asyncio.to_thread(
                asked_of, filtering.admin_url, KnownIds(), asked
            )
            assert status < 300, (asked.path, status, answer[:500])
            await asyncio.sleep(0.1)
            if steps.longest > CALLS:
                beyond[asked.path] = steps.longest, steps.where.most_common(6)
    assert beyond == {}


@pytest.mark.nightly
async def test_no_operation_makes_many_calls_between_two_turns_of_the_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with a row for each operation; one without a row fails."""
    table, made = largest(proposed=300), KnownIds()
    assert set(table) == set(RULES)
    monkeypatch.setattr(Slices, "longest", 0)
    beyond: dict[str, object] = {}
    with counted_steps() as steps:
        for name, asked in {**DESCRIPTIONS, **table}.items():
            steps.begin()
            status, answer = await asyncio.to_thread(asked_of, service.admin_url, made, asked)
            assert status < 300 or status in asked.also, (name, status, answer[:500])
            made.note(name, answer)
            if steps.longest > CALLS:
                beyond[name] = steps.longest, steps.where.most_common(6)
    assert beyond == {}
    assert SLICE <= Slices.longest <= UNITS
