"""GitHub's 329 example payloads, signed and posted as GitHub does, through a service to its log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.bindings import kafka
from app.cli.feed import SECRET, Feed, github_feed
from app.errors import SetupError
from app.event.validate import faults_of
from raw_http import RawConnection, event, request
from service import Service
from skipping import skip_or_fail

COUNT = 329
PARTITIONS = 8
SERVERS = Path(__file__).parents[2] / ".servers"
Start = Callable[[dict[str, Any]], Awaitable[Service]]


@pytest.fixture(scope="module")
def feed() -> Feed:
    environ = {"SKYBRIDGE_CACHE": str(SERVERS), **os.environ}
    try:
        return github_feed(environ, "2026-11-21T00:00:00Z")
    except SetupError as missing:
        skip_or_fail(missing)


def settings(**intake: Any) -> dict[str, Any]:
    return {
        "routes": [{
            "name": "github", "to": {"broker": "log", "topic": "github"},
            "key": {"mapper": "partitionkey"},
        }],
        "intakes": [{
            "name": "github", "preset": "github", "route": "github",
            "secret": "the new one", "previous_secret": SECRET, **intake,
        }],
    }  # fmt: skip


async def post_all(feed: Feed, service: Service) -> list[tuple[int, bool]]:
    """Status, and whether it was a duplicate, of each."""
    found = []
    async with await RawConnection.open(service.events_port) as peer:
        for webhook in feed.webhooks:
            await peer.send(request("/in/github", webhook.body, headers=webhook.headers))
            answer = await peer.answer()
            found.append((answer.status, "skybridge-duplicate" in answer.headers))
    return found


async def test_every_payload_becomes_the_event_that_the_adapter_makes_of_it(
    feed: Feed, started: Start
) -> None:
    """Events of an organisation, which have no repository, included."""
    service = await started(settings(max_age="0s"))
    assert await post_all(feed, service) == [(202, False)] * COUNT
    async with asyncio.timeout(60):
        records = await service.records("github", PARTITIONS)
    expected = {event.id: event for event in feed.events}
    assert len(records) == len(expected) == COUNT
    without = 0
    for record in records:
        found = kafka.decode(record).event
        wanted = expected[found.id]
        assert not faults_of(found.attributes, str)
        assert found.data == wanted.data
        same = {name: text for name, text in found.attributes.items() if name != "time"}
        assert same == {name: text for name, text in wanted.attributes.items() if name != "time"}
        without += "partitionkey" not in found.attributes
    assert without > 20


async def test_the_same_events_again_are_duplicates(feed: Feed, started: Start) -> None:
    service = await started(settings())
    first = await post_all(feed, service)
    assert (
        first == [(202, False)] * COUNT
    )  # five are the very bytes of another one, with an id of their own
    assert await post_all(feed, service) == [(202, True)] * COUNT


async def test_where_only_producers_may_send_an_intake_verifies_its_own(
    feed: Feed, started: Start
) -> None:
    """A publisher has no key of a producer, and a stranger has nothing to do at ``/events``."""
    access = {"events": {"access": "producers"}}
    service = await started(settings() | {"server": access})
    webhook = feed.webhooks[0]
    async with await RawConnection.open(service.events_port) as peer:
        await peer.send(request("/in/github", webhook.body, headers=webhook.headers))
        assert (await peer.answer()).status == 202
        await peer.send(event(1))
        assert (await peer.answer()).status == 401
