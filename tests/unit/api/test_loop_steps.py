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
from large_requests import Asked, Made, body_of, events, fill, largest, settings
from loop_steps import counted_steps
from service import Service, running

ROUTES, SUBSCRIPTIONS, ROWS = 20, 100, 1_000
CALLS = 30_000  # of one step: some milliseconds
UNITS = 1_100  # of one step: a slice, and behind it one row of 1 MiB

DESCRIPTIONS = {path: Asked("GET", path) for path in ("/openapi.json", "/docs")}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    await fill(tmp_path, rows=ROWS, subscriptions=SUBSCRIPTIONS)
    whole = settings(tmp_path, routes=ROUTES, subscriptions=SUBSCRIPTIONS)
    async with running(whole, tmp_path) as service:
        status, answer = await asyncio.to_thread(asked_of, service.events_url, Made(), events(ROWS))
        assert status == 202, answer
        yield service


def asked_of(url: str, made: Made, asked: Asked) -> tuple[int, bytes]:
    client = http.client.HTTPConnection(url.removeprefix("http://"), timeout=300)
    try:
        client.request(asked.method, made.path(asked), body_of(asked), dict(asked.headers))
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


async def test_no_operation_makes_many_calls_between_two_turns_of_the_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with a row for each operation; one without a row fails."""
    table, made = largest(proposed=300), Made()
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
