"""``POST /v1/explain``: what a sender would be answered, and what every rule says; nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from app.api.explain.routes import UNITS
from app.api.http.slices import Slices
from app.errors import BrokerUnavailable
from app.model.metadata import LogMetadata
from app.model.route import Route
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.routing.plan import NO_RESOURCES
from app.telemetry.slices import SLICE
from topics_service import EVENT, FakeTopicsService

PATH = "/v1/explain"
BATCH = (
    b'[{"specversion":"1.0","id":"1","source":"/s","type":"t"},'
    b'{"specversion":"1.0","id":"2","source":"/s","type":"u"}]'
)


@pytest.fixture
async def service() -> FakeTopicsService:
    service = FakeTopicsService()
    await service.log.create_topic("events", 2)
    routes = [
        {"name": "t", "filters": [{"exact": {"type": "t"}}], "to": {"broker": "log", "topic": "events"}}
    ]  # fmt: skip
    billing = {
        "id": "billing",
        "source": {"broker": "log", "topics": ["events"]},
        "sink": "https://billing.example/hook",
    }

    async def declared() -> Sequence[Subscription]:
        return [Subscription.model_validate(billing)]

    async def states() -> Sequence[SubscriptionStatus]:
        return [
            SubscriptionStatus(
                id="billing", sink="x", broker="log", group="g", state="paused", cause="by a person"
            )
        ]

    given: dict[str, Any] = {
        "routes": [Route.model_validate(each) for each in routes],
        "resources": NO_RESOURCES,
        "declared": declared,
        "statuses": states,
    }
    vars(service).update(given)
    return service


async def test_an_event_is_explained_with_partition_and_state(
    client: httpx.AsyncClient, service: FakeTopicsService
) -> None:
    answer = await client.post(PATH, headers={**EVENT, "skybridge-key": "k"}, content=b"{}")
    (journey,) = answer.json()
    (hop,) = journey["hops"]
    assert journey["accepted"]
    assert journey["key"]["why"] == "the request has it"
    assert (hop["key"], hop["partitions"]) == ("k", 2)
    assert hop["partition"] in {0, 1}
    assert hop["subscriptions"][0]["state"] == "paused"
    metadata = await service.log.metadata(["events"])
    assert {each.latest for each in metadata.topics[0].partitions} == {"0"}, "nothing was sent"


async def test_each_event_of_a_batch_is_explained_also_one_that_would_be_refused(
    client: httpx.AsyncClient,
) -> None:
    headers = {"content-type": "application/cloudevents-batch+json"}
    answer = await client.post(PATH, headers=headers, content=BATCH)
    taken, refused = answer.json()
    assert answer.status_code == 200
    assert taken["accepted"]
    assert not refused["accepted"]
    assert refused["refused"]["status"] == 422
    assert refused["refused"]["type"].endswith("no-route")


async def test_a_broken_event_is_answered_with_every_fault_as_the_events_listener_would(
    client: httpx.AsyncClient,
) -> None:
    broken = {name: text for name, text in EVENT.items() if name not in {"ce-id", "ce-type"}}
    answer = await client.post(PATH, headers=broken, content=b"{}")
    assert answer.status_code == 400
    assert {fault["at"] for fault in answer.json()["faults"]} == {"header ce-id", "header ce-type"}


async def test_a_broker_that_does_not_answer_leaves_the_partition_untold(
    client: httpx.AsyncClient, service: FakeTopicsService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> LogMetadata:
        raise BrokerUnavailable("away", broker="log")

    monkeypatch.setattr(service.log, "metadata", away)
    (journey,) = (await client.post(PATH, headers=EVENT, content=b"{}")).json()
    assert journey["hops"][0]["partitions"] is None


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [({"content-encoding": "gzip"}, b"", 415), ({}, b" " * (16 << 20) + b"  ", 413)],
)
async def test_what_cannot_be_read_is_refused(
    client: httpx.AsyncClient, headers: dict[str, str], content: bytes, status: int
) -> None:
    answer = await client.post(PATH, headers={**EVENT, **headers}, content=content)
    assert answer.status_code == status


def _many(service: FakeTopicsService, routes: int, subscriptions: int, sql: int = 8) -> None:
    reads = {"source": {"broker": "log", "topics": ["events"]}, "sink": "https://a.example/"}
    filters = [{"any": [{"sql": f"id = '{n}'"} for n in range(sql)]}] if sql else []

    async def declared() -> Sequence[Subscription]:
        return [
            Subscription.model_validate({**reads, "id": f"s{n}", "filters": filters})
            for n in range(subscriptions)
        ]

    first = [
        {"name": f"r{n}", "filters": [{"exact": {"type": f"no-{n}"}}], "to": {"broker": "log", "topic": "events"}}
        for n in range(routes - 1)
    ]  # fmt: skip
    last = {"name": "all", "to": {"broker": "log", "topic": "events"}}
    vars(service).update(
        routes=[Route.model_validate(each) for each in (*first, last)], declared=declared
    )


def _batch(events: int) -> bytes:
    each = b'{"specversion":"1.0","id":"%d","source":"/s","type":"t"}'
    return b"[%b]" % b",".join(each % n for n in range(events))


BATCHED = {"content-type": "application/cloudevents-batch+json"}


async def test_what_one_request_evaluates_is_bounded_by_events_and_filters_together(
    client: httpx.AsyncClient, service: FakeTopicsService
) -> None:
    """10,000 events of 20 routes and 10 subscriptions held the loop for a minute. One event is always explained."""
    _many(service, routes=20, subscriptions=10)
    refused = await client.post(PATH, headers=BATCHED, content=_batch(1_000))
    assert refused.status_code == 413
    assert "at a time" in refused.json()["detail"]
    assert (await client.post(PATH, headers=BATCHED, content=_batch(1_001))).status_code == 413
    _many(service, routes=1, subscriptions=UNITS // 4, sql=0)
    alone = await client.post(PATH, headers=BATCHED, content=_batch(1))
    refused = await client.post(PATH, headers=BATCHED, content=_batch(5))
    assert (alone.status_code, refused.status_code) == (200, 413)
    assert len(alone.json()[0]["hops"][0]["subscriptions"]) == UNITS // 4


async def test_the_loop_turns_between_slices_of_the_largest_request(
    client: httpx.AsyncClient, service: FakeTopicsService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an explanation takes, no step evaluates more than a slice and one subscription's filters."""
    monkeypatch.setattr(Slices, "longest", 0)
    _many(service, routes=20, subscriptions=10)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    answer = await client.post(PATH, headers=BATCHED, content=_batch(UNITS // 150))
    beside.cancel()
    assert answer.status_code == 200
    assert len(answer.json()) == UNITS // 150
    assert 0 < Slices.longest <= SLICE + 150
    assert turns > UNITS // (SLICE + 150)
