"""A start position that no log holds is refused, and one that has gone meanwhile stops its subscription alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from large_requests import a_subscription, settings
from service import Service, running

HELD = 3  # events in partition 0


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running(settings(tmp_path, routes=1, subscriptions=2), tmp_path) as service:
        async with httpx.AsyncClient(base_url=service.events_url, timeout=120) as client:
            for number in range(HELD):
                sent = await client.post("/events", headers=_event(number))
                assert sent.status_code == 202, sent.text
        yield service


def _event(number: int) -> dict[str, str]:
    named = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}
    return {"skybridge-key": "k"} | {f"ce-{name}": value for name, value in named.items()}


async def asked(service: Service, method: str, path: str, body: Any = None) -> httpx.Response:
    async with httpx.AsyncClient(base_url=service.admin_url, timeout=60) as client:
        return await client.request(method, path, json=body)


@pytest.mark.parametrize(
    ("partition", "position", "reason"),
    [
        ("0", "-5", "is not an offset"),
        ("0", "9" * 23, "is not an offset"),
        ("0", str(1 << 63), "is not an offset"),
        ("0", "٣", "is not an offset"),
        ("0", str((1 << 63) - 1), "has positions 0 to"),
        ("0", "4", "has positions 0 to"),
        ("99", "0", "no partition 99"),
        ("9" * 20, "0", "no partition"),
    ],
)
async def test_a_position_that_is_not_there_is_refused_and_named(
    service: Service, partition: str, position: str, reason: str
) -> None:
    start = {"position": {partition: position}}
    document = a_subscription("new", paused=False, start=start)
    refused = await asked(service, "POST", "/v1/subscriptions", document)
    assert refused.status_code == 422, refused.text
    (fault,) = refused.json()["faults"]
    assert fault["at"] == f"/start/position/{partition}"
    assert reason in fault["detail"]
    assert (await asked(service, "GET", "/v1/subscriptions/new")).status_code == 404


async def test_a_position_that_is_held_is_taken_and_kept_by_changes(service: Service) -> None:
    document = a_subscription("new", paused=False, start={"position": {"0": "1"}})
    made = await asked(service, "POST", "/v1/subscriptions", document)
    assert made.status_code == 201, made.text
    assert (await asked(service, "GET", "/readyz")).status_code == 200
