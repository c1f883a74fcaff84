"""``/v1/subscriptions/{id}/events``: what passes the filters, live, cut and taken up again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from app.api.http.start_points import StartPoint
from app.api.subscriptions import event_stream
from app.api.subscriptions.event_stream import EventStream, _compiled, resume_point
from app.api.topics.follow import TopicTail, follow
from app.bindings.record import Record
from app.errors import PositionOutOfRange
from app.model.message import Partition
from pull_service import VERBS, FakePullService
from worker_doubles import an_event

FOREIGN = Record(None, (), b"x")
OPAQUE = Record(b"k", (("content-type", b"application/cloudevents+cbor"),), b"\xa0")
Block = dict[str, str]


@pytest.fixture
async def service() -> FakePullService:
    service = FakePullService()
    await service.log.create_topic("events", 2)
    return service


def put(service: FakePullService, place: int, *records: Record, topic: str = "events") -> None:
    stored = service.log.partitions[Partition(topic, place)]
    stored += [(record, service.log.now_ms) for record in records]


async def streamed(client: httpx.AsyncClient, last: str = "", **query: str) -> list[Block]:
    """Every block to the end, the first one left out, as its fields."""
    answer = await client.get(
        f"{VERBS}/events",
        params={"follow": "false", "start": "earliest", **query},
        headers={"last-event-id": last} if last else {},
    )
    assert answer.status_code == 200, answer.text
    blocks = [block for block in answer.text.split("\n\n") if block]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks[1:]]


def ids(blocks: list[Block]) -> list[str]:
    return [json.loads(block["data"])["id"] for block in blocks]


async def test_what_passes_the_filters_comes_as_events(service, client):
    service.settings = {"filters": [{"exact": {"type": "b"}}]}
    put(service, 0, an_event(1, type="a"), an_event(2, type="b"))
    put(service, 1, an_event(3, type="b"))
    blocks = await streamed(client)
    assert ids(blocks) == ["2", "3"]
    assert json.loads(blocks[0]["data"])["specversion"] == "1.0"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_data_that_was_written_in_lines_comes_whole(service, client, end):
    """Data goes out as it came in (core 1.3), and a stream of events ends a field at each line end."""
    event = an_event(1, datacontenttype="application/json")
    put(service, 0, replace(event, body=f'{{{end} "total": 7,{end}{end} "data": 1{end}}}'.encode()))
    (block,) = await streamed(client)
    assert json.loads(block["data"])["data"] == {"total": 7, "data": 1}


async def test_it_goes_on_exactly_behind_what_came_last(service, client):
    """Also behind what was filtered out in between; of several topics, whatever their names."""
    await service.log.create_topic("a=b;c", 1)
    service.settings = {
        "source": {"broker": "log", "topics": ["events", "a=b;c"]},
        "filters": [{"exact": {"type": "t"}}],
    }
    put(service, 0, an_event(1), an_event(2, type="other"), an_event(3))
    put(service, 1, an_event(4))
    put(service, 0, an_event(5), topic="a=b;c")
    whole = await streamed(client)
    assert ids(whole) == ["1", "3", "4", "5"]
    for cut, block in enumerate(whole, start=1):
        assert ids(await streamed(client, block["id"])) == ids(whole)[cut:]


async def test_every_record_is_explained_with_the_verdict_of_each_filter(service, client):
    """Filtered events leave no other trace."""
    service.settings = {
        "filters": [
            {"any": [{"exact": {"type": "b"}}, {"exact": {"subject": "s"}}]},
            {"sql": "INT(priority) > 3"},
        ]
    }
    events = [an_event(1, type="a"), an_event(2, type="b", priority="5"), an_event(3, type="b")]
    put(service, 0, *events, FOREIGN)
    blocks = await streamed(client, explain="true")
    assert {block["event"] for block in blocks} == {"verdict"}
    told = [json.loads(block["data"]) for block in blocks]
    verdicts = [each["verdict"] for each in told]
    assert verdicts == ["filtered", "wanted", "filter_error", "no-event"]
    assert [each["position"] for each in told] == ["0", "1", "2", "3"]
    first, second, third, fourth = told
    assert first["event"] == {"id": "1", "source": "/t", "type": "a"}
    assert [each["passes"] for each in first["filters"]] == [False, False]
    assert [each["passes"] for each in first["filters"][0]["inner"]] == [False, False]
    assert second["lane"] == "key 'k'"
    assert third["filters"][1]["because"] == "the event has no priority"
    assert (fourth["event"], "on_foreign: dead_letter" in fourth["fault"]) == (None, True)
    ends = [block["id"] for block in blocks]
    rest = await streamed(client, ends[0], explain="true")
    assert [json.loads(block["data"])["position"] for block in rest] == ["1", "2", "3"]


async def test_what_is_no_event_is_shown_under_another_name(service, client):
    """Whoever listens for messages alone never meets it; on_foreign: skip leaves it out for all."""
    put(service, 0, FOREIGN, OPAQUE, an_event(1))
    names = [block.get("event", "message") for block in await streamed(client)]
    assert names == ["record", "record", "message"]
    service.settings = {"on_foreign": "skip"}
    assert len(await streamed(client)) == 2
    service.settings = {"on_foreign": "wrap"}
    assert [block.get("event") for block in await streamed(client)] == [None, "record", None]


async def test_what_retention_took_is_told(service, client):
    """Not passed over in silence."""
    put(service, 0, an_event(1), an_event(2), an_event(3))
    last = (await streamed(client))[0]["id"]
    service.log.earliest[Partition("events", 0)] = 2
    fake = service.log.read

    async def read(partition: Partition, start: str, until: str | None = None) -> Any:
        if int(start) < service.log.earliest[partition]:
            raise PositionOutOfRange("gone", earliest="2")
        async for each in fake(partition, start, until):
            yield each

    service.log.read = read
    gap, *rest = await streamed(client, last)
    assert gap["event"] == "gap"
    assert json.loads(gap["data"]) == {"partition": 0, "from": ">0", "to": "2"}
    assert ids(rest) == ["3"]


async def test_an_id_of_another_stream_is_refused(client):
    """Going on somewhere would leave something out."""
    answer = await client.get(f"{VERBS}/events", headers={"last-event-id": "0@1"})
    assert (answer.status_code, answer.json()["type"]) == (
        400,
        "urn:skybridge:problem:bad-position",
    )


async def test_a_log_that_gives_away_what_is_read_is_refused(service, client):
    """A queue of RabbitMQ: looking would take."""
    service.log.capabilities = replace(service.log.capabilities, replayable=False)
    answer = await client.get(f"{VERBS}/events")
    assert (answer.status_code, "pull" in answer.json()["detail"]) == (409, True)


async def test_any_subscription_can_be_looked_on(service, client):
    put(service, 0, an_event(1))
    answer = await client.get(
        "/v1/subscriptions/hook/events", params={"follow": "false", "start": "earliest"}
    )
    assert '"id":"1"' in answer.text


def a_stream(service: FakePullService, subscription: Any) -> tuple[EventStream, list[TopicTail]]:
    start = {0: StartPoint("0"), 1: StartPoint("0")}
    tails = [TopicTail(service.log, "events", start, asyncio.Event())]  # type: ignore[arg-type]
    return EventStream(service, subscription, tails, _compiled(subscription.filters)), tails  # type: ignore[arg-type]


async def test_a_reader_that_is_slow_slows_the_reading(service):
    """No more than the message that is written is held for it."""
    put(service, 0, *(an_event(n) for n in range(1_000)))
    subscription, _ = await service.declared()
    stream, tails = a_stream(service, subscription)
    lines = stream.lines(follow(tails, asyncio.Event()))
    for _ in range(4):
        await anext(lines)
    await asyncio.sleep(0.05)
    assert tails[0].places[0] == StartPoint("2", after=True)
    await lines.aclose()


async def test_a_stream_that_wants_nothing_gives_signs_of_life_with_its_place(service, monkeypatch):
    """Proxies close what is silent, and nobody should read the same again after a cut."""
    monkeypatch.setattr(event_stream, "HEARTBEAT_EVERY", 0.0)
    service.settings = {"filters": [{"exact": {"type": "never"}}]}
    put(service, 0, *(an_event(n) for n in range(3)))
    subscription, _ = await service.declared()
    stream, tails = a_stream(service, subscription)
    lines = stream.lines(follow(tails, asyncio.Event()))
    await anext(lines)
    told = (await anext(lines)).decode()
    assert told.startswith(": ")
    assert f"id: {resume_point(tails)}\n\n" in told
    assert "data" not in told
    await lines.aclose()
