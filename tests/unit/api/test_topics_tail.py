"""``/v1/topics/…/tail``: live reading, cut and taken up again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import pytest

from admin_app import admin_app
from app.api.topics import records
from app.api.topics.follow import TopicTail
from app.bindings.record import Record
from app.errors import BrokerUnavailable
from app.gateway.server import HttpServer
from app.model.message import Partition
from app.model.metadata import LogMetadata
from topics_service import EVENT, TOPIC, FakeTopicsService


def put(service: FakeTopicsService, number: int, *texts: str) -> None:
    for text in texts:
        place = Partition("events", number)
        service.log.partitions[place].append((Record(None, (), text.encode()), service.log.now_ms))
        service.log.now_ms += 1000


async def streamed(client: httpx.AsyncClient, **more: Any) -> list[dict[str, str]]:
    """Every block of a tail to the end, as its fields."""
    query = {"follow": "false", "from": "earliest", "raw": "true", **more.pop("query", {})}
    answer = await client.get(f"{TOPIC}/tail", params=query, **more)
    assert answer.status_code == 200, answer.text
    return [
        dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        for block in answer.text.split("\n\n")
        if block
    ]


async def test_a_tail_goes_on_behind_the_last_event_id(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """What a browser does by itself when it lost the stream."""
    put(service, 0, "a0", "a1")
    put(service, 1, "b0")
    whole = await streamed(client)
    assert "data" not in whole[0]  # where it begins, before anything has come
    ids = [block["id"] for block in whole[1:]]
    for cut, last in enumerate(ids, start=1):
        rest = await streamed(client, headers={"last-event-id": last})
        bodies = [json.loads(block["data"])["record"]["body"] for block in rest[1:]]
        assert bodies == ["a0", "a1", "b0"][cut:]


async def test_an_id_of_another_stream_is_refused(client: httpx.AsyncClient) -> None:
    """To begin at the end instead would leave out what came meanwhile."""
    answer = await client.get(f"{TOPIC}/tail?follow=false", headers={"last-event-id": "17"})
    assert (answer.status_code, answer.json()["type"]) == (
        400,
        "urn:skybridge:problem:bad-position",
    )


async def test_a_tail_shows_only_wanted_events_and_the_place_of_the_others(
    service: FakeTopicsService, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that loses the stream among much that it does not want goes on behind that."""
    for type_ in ("order", "refund", "refund"):
        await client.post(
            f"{TOPIC}/records", headers={**EVENT, "ce-type": type_, "skybridge-key": "k"}
        )
    shown = await streamed(client, query={"type": "order"})
    assert [json.loads(each["data"])["event"]["type"] for each in shown[1:]] == ["order"]
    monkeypatch.setattr(records, "HEARTBEAT_EVERY", 0.0)
    begin, order, *others = await streamed(client, query={"type": "order"})
    assert ["data" in each for each in (begin, order, *others)] == [False, True, False, False]
    assert others[1]["id"] == (await streamed(client))[-1]["id"]


async def test_data_that_was_written_in_lines_comes_whole(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """A field of a server-sent event ends at the first line end, and JSON has them between tokens."""
    document = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{\r\n "a":\n\n1}}'
    record = Record(None, (("content-type", b"application/cloudevents+json"),), document)
    service.log.partitions[Partition("events", 0)].append((record, service.log.now_ms))
    (_, block) = await streamed(client)
    assert json.loads(block["data"])["event"]["data"] == {"a": 1}


async def test_a_tail_of_a_position_outside_the_log_is_refused_before_it_begins(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Rule 10: nothing is guessed; 200 and then nothing would be."""
    from app.errors import PositionOutOfRange

    async def outside(*_: Any) -> AsyncIterator[Any]:
        raise PositionOutOfRange("events/0 holds positions 0 to 2, not 77")
        yield

    service.log.read = outside  # type: ignore[assignment]
    answer = await client.get(f"{TOPIC}/tail", params={"from": "0@77"})
    assert answer.status_code == 416
    assert "not 77" in answer.json()["detail"]


async def test_a_broker_that_goes_away_ends_a_tail_with_the_problem(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """A stream that only stops would look like the end of the topic."""
    metadata = service.log.metadata
    asked = 0

    async def going(*arguments: Any) -> LogMetadata:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise BrokerUnavailable("the broker went away")
        return await metadata(*arguments)

    service.log.metadata = going  # type: ignore[method-assign]
    last = (await streamed(client))[-1]
    assert last["event"] == "problem"
    assert json.loads(last["data"])["detail"] == "the broker went away"


async def test_a_tail_is_left_behind_by_nobody(service: FakeTopicsService) -> None:
    """A client that goes ends its stream: else each closed browser would ask the broker for ever."""
    app = admin_app(service)
    server = HttpServer(app)
    closed = asyncio.Event()
    metadata = service.log.metadata
    looks = 0

    async def counted(*arguments: Any) -> LogMetadata:
        nonlocal looks
        looks += 1
        return await metadata(*arguments)

    events = TopicTail.items

    async def watched(tail: TopicTail) -> AsyncGenerator[Any, None]:
        try:
            async for item in events(tail):
                yield item
        finally:
            closed.set()

    service.log.metadata = counted  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TopicTail, "items", watched)
        await server.start()
        try:
            async with (
                httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=120) as client,
                client.stream("GET", f"{TOPIC}/tail") as answer,
            ):
                assert answer.status_code == 200
                assert not closed.is_set()
            async with asyncio.timeout(60):
                await closed.wait()
        finally:
            await server.stop()
    assert looks
