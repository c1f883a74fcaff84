"""``/v1/topics``: Metadata, Fetch and Offset of the protocol guide, through ASGI."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from app.bindings.record import Record
from app.model.message import Partition
from app.model.metadata import LogMetadata, PartitionMetadata, TopicMetadata
from app.model.start import EARLIEST
from topics_service import EVENT, GROUP, TOPIC, FakeTopicsService


def put(service: FakeTopicsService, number: int, *texts: str) -> None:
    for text in texts:
        place = Partition("events", number)
        service.log.partitions[place].append((Record(None, (), text.encode()), service.log.now_ms))
        service.log.now_ms += 1000


def texts(page: Any) -> list[str]:
    """Bodies of records that are no events, in the raw view."""
    return [message["record"]["body"] for message in page["messages"]]


async def peeked(client: httpx.AsyncClient, **query: Any) -> Any:
    answer = await client.get(f"{TOPIC}/records", params={"raw": "true", **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_metadata_shows_a_partition_under_election_without_a_leader(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """spec.md 9: leader -1 means that an election is under way; its ends are not known then."""

    async def metadata(*_: Any) -> LogMetadata:
        electing = PartitionMetadata(0, None, (1, 2), (2,), "", "")
        return LogMetadata("log", (TopicMetadata("events", (electing,)),))

    service.log.metadata = metadata  # type: ignore[method-assign]
    (partition,) = (await client.get(TOPIC)).json()["partitions"]
    assert partition == {
        "number": 0, "leader": None, "replicas": [1, 2], "isr": [2], "earliest": None, "latest": None,
    }  # fmt: skip
    page = await client.get(f"{TOPIC}/records")
    assert (page.status_code, page.headers["retry-after"]) == (503, "1")


async def test_logs_beside_the_brokers_are_no_brokers(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """A relaxed route publishes through a log of its own; its topics must not be listed twice."""
    assert [each["broker"] for each in (await client.get("/v1/topics")).json()] == ["log"]
    assert (await client.get("/v1/topics/log%23acks=1/events")).status_code == 404


async def test_a_topic_may_have_slashes_in_its_name(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Pulsar's full names are tenant/namespace/topic."""
    await service.log.create_topic("public/default/orders", 1)
    path = "/v1/topics/log/public/default/orders"
    assert (await client.get(path)).json()["name"] == "public/default/orders"
    assert (await client.get(f"{path}/offsets")).json()["topic"] == "public/default/orders"
    assert (await client.get(f"{path}/records")).json()["messages"] == []
    assert (await client.post(f"{path}/records", headers=EVENT)).status_code == 201


@pytest.mark.parametrize("what", ["", "/records", "/tail", "/offsets"])
async def test_an_unknown_topic_is_404_naming_broker_and_topic(
    client: httpx.AsyncClient, what: str
) -> None:
    """Whoever mistyped one of them must see which."""
    answer = await client.get(f"/v1/topics/log/nope{what}")
    assert answer.status_code == 404
    problem = answer.json()
    assert problem["type"] == "urn:skybridge:problem:unknown-topic"
    assert "broker log has no topic nope" in problem["detail"]


@pytest.mark.parametrize("what", ["/records", "/tail", "/offsets"])
async def test_an_unknown_partition_is_404(client: httpx.AsyncClient, what: str) -> None:
    """An empty answer would look like an empty partition."""
    answer = await client.get(f"{TOPIC}{what}", params={"partition": 9})
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:skybridge:problem:unknown-partition"


async def test_the_raw_record_is_told_byte_for_byte(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Headers in order, with repeats and nulls; base64 where it is no UTF-8; no value is not empty."""
    headers = (("b", b"1"), ("a", None), ("b", b"\xff"))
    place = Partition("events", 0)
    service.log.partitions[place] += [
        (Record(b"\xfe", headers, b"\xff\x00"), 1), (Record(None, (), None), 2),
        (Record(None, (), b""), 3),
    ]  # fmt: skip
    first, none, empty = (await peeked(client, partition=0))["messages"]
    assert first["record"] == {
        "headers": [
            {"name": "b", "value": "1"},
            {"name": "a", "value": None},
            {"name": "b", "value_base64": "/w=="},
        ],
        "body_base64": "/wA=",
        "content_type": None,
        "message_id": None,
        "time_ms": None,
    }
    assert first["key_base64"] == "/g=="
    assert (none["record"]["body"], empty["record"]["body"]) == (None, "")


@pytest.mark.parametrize(
    ("begin", "found"),
    [
        ("earliest", ["a0", "a1", "a2", "b0", "b1"]),
        ("latest", []),
        ("latest-1", ["a2", "b1"]),
        ("latest-99", ["a0", "a1", "a2", "b0", "b1"]),
        ("2023-11-14T22:13:22Z", ["a2", "b0", "b1"]),
        ("2023-11-14T23:13:22+01:00", ["a2", "b0", "b1"]),
        ("2099-01-01T00:00:00Z", []),
        ("0@1,1@1", ["a1", "a2", "b1"]),
        ("0>1", ["a2", "b0", "b1"]),
    ],
)
async def test_a_page_begins_where_it_is_told(
    service: FakeTopicsService, client: httpx.AsyncClient, begin: str, found: list[str]
) -> None:
    """Fetch from a position, an end, a number of records before it, or a time."""
    put(service, 0, "a0", "a1", "a2")
    put(service, 1, "b0", "b1")
    assert texts(await peeked(client, **{"from": begin})) == found


async def test_a_bare_position_needs_the_partition_that_it_belongs_to(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """The same number in another partition is another record."""
    put(service, 1, "b0", "b1")
    assert texts(await peeked(client, **{"from": "1", "partition": 1})) == ["b1"]
    answer = await client.get(f"{TOPIC}/records", params={"from": "1"})
    assert (answer.status_code, answer.json()["type"]) == (
        400, "urn:skybridge:problem:bad-position",
    )  # fmt: skip


@pytest.mark.parametrize("seconds", ["1e-250", "0.5", "0"])
async def test_a_page_is_given_time_to_be_read(client: httpx.AsyncClient, seconds: str) -> None:
    """In less than a second a busy machine reads nothing, and the broker would be blamed for it."""
    answer = await client.get(f"{TOPIC}/records", params={"max_wait": seconds})
    assert answer.status_code == 422
    assert answer.json()["faults"][0]["at"] == "query.max_wait"


async def test_pages_follow_each_other_by_next(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Everything once, over all partitions."""
    put(service, 0, "a0", "a1", "a2")
    put(service, 1, "b0", "b1")
    seen, begin, complete = [], "earliest", False
    while not complete:
        page = await peeked(client, **{"from": begin, "limit": 2})
        seen += texts(page)
        begin, complete = page["next"], page["complete"]
    assert seen == ["a0", "a1", "a2", "b0", "b1"]


def put_events(service: FakeTopicsService, number: int, *named: tuple[str, str, str]) -> None:
    """Each by id, type and subject; among them a record that is no event."""
    for id_, type_, subject in named:
        attributes = {"specversion": "1.0", "id": id_, "source": "/shop", "type": type_}
        headers = [*attributes.items(), *([("subject", subject)] if subject else [])]
        wire = tuple((f"ce_{name}", text.encode()) for name, text in headers)
        place = Partition("events", number)
        service.log.partitions[place].append((Record(None, wire, b"{}"), service.log.now_ms))
    put(service, number, "no event")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"type": "order.created"}, ["1", "3"]),
        ({"type": "order.*"}, ["1", "2", "3"]),
        ({"type": "order.*", "subject": "order-7*"}, ["1", "3"]),
        ({"id": "2"}, ["2"]),
        ({"source": "/shop"}, ["1", "2", "3", "4"]),
        ({"source": "/sho"}, []),
    ],
)
async def test_records_are_chosen_by_the_attributes_of_their_events(
    service: FakeTopicsService, client: httpx.AsyncClient, query: dict[str, str], found: list[str]
) -> None:
    """A search by hand, without a subscription. Records that are no events have no attributes."""
    put_events(service, 0, ("1", "order.created", "order-7"), ("2", "order.paid", ""))
    put_events(service, 1, ("3", "order.created", "order-71"), ("4", "refund", "order-7"))
    page = (await client.get(f"{TOPIC}/records", params=query)).json()
    assert [each["event"]["id"] for each in page["messages"]] == found
    assert (page["complete"], page["looked_at"]) == (True, 6)


async def test_a_search_goes_on_behind_the_last_record_that_it_looked_at(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Also behind those that it passed over: nothing twice, nothing left out."""
    put_events(service, 0, *((str(n), "odd" if n % 2 else "even", "") for n in range(6)))
    seen, looked_at, begin, complete = [], 0, "earliest", False
    while not complete:
        query = {"from": begin, "limit": "1", "type": "odd"}
        page = (await client.get(f"{TOPIC}/records", params=query)).json()
        seen += [each["event"]["id"] for each in page["messages"]]
        looked_at += page["looked_at"]
        begin, complete = page["next"], page["complete"]
    assert (seen, looked_at) == (["1", "3", "5"], 7)


async def test_offsets_by_time_and_the_lag_of_our_groups(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Offset: earliest, latest, by time; and where our subscriptions are."""
    consumer = await service.log.subscribe(GROUP, ["events"], EARLIEST)
    begun = service.log.now_ms
    put(service, 0, "a0", "a1", "a2")
    asked = {"time": str(begun + 1000)}
    found = (await client.get(f"{TOPIC}/offsets", params=asked)).json()
    assert found["time_ms"] == begun + 1000
    assert [(each["earliest"], each["latest"], each["at_time"]) for each in found["partitions"]] == [
        ("0", "3", "1"), ("0", "0", "0"),
    ]  # fmt: skip
    assert found["groups"][0] == {
        "group": GROUP, "subscription": "billing", "partition": 0, "committed": "0", "lag": 3,
    }  # fmt: skip
    await consumer.close()


async def test_offsets_of_any_group_can_be_asked_for(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Also one that is not ours: it is what else reads the topic."""
    consumer = await service.log.subscribe("another", ["events"], EARLIEST)
    query = {"group": "another", "partition": 1}
    found = (await client.get(f"{TOPIC}/offsets", params=query)).json()
    (group,) = found["groups"]
    assert (group["group"], group["subscription"], group["partition"]) == ("another", None, 1)
    await consumer.close()


@pytest.mark.parametrize(
    "time", ["2026-01-01T00:00:00", "9" * 15, "9" * 5_000, "noon", "-1"], ids=range(5)
)
async def test_a_time_without_a_zone_or_a_meaning_is_refused(
    client: httpx.AsyncClient, time: str
) -> None:
    """It would mean another moment on another machine, or none at all."""
    answer = await client.get(f"{TOPIC}/offsets", params={"time": time})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:skybridge:problem:bad-time")


@pytest.mark.parametrize("time", ["1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00+23:59"])
async def test_a_time_before_1970_is_the_beginning(
    service: FakeTopicsService,
    client: httpx.AsyncClient,
    time: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka takes -1 for the latest position."""
    asked: list[int] = []

    async def position_at(_: Partition, time_ms: int) -> str:
        asked.append(time_ms)
        return "0"

    monkeypatch.setattr(service.log, "position_at", position_at)
    assert (await client.get(f"{TOPIC}/offsets", params={"time": time})).status_code == 200
    assert (await client.get(f"{TOPIC}/records", params={"from": time})).status_code == 200
    assert asked == [0] * 4


@pytest.mark.parametrize("what", ["records", "tail"])
async def test_a_log_without_a_past_says_what_can_be_done_instead(
    service: FakeTopicsService, client: httpx.AsyncClient, what: str
) -> None:
    """Reading a quorum queue takes from it: that is refused by its declared capability."""
    service.log.capabilities = msgspec.structs.replace(service.log.capabilities, replayable=False)
    answer = await client.get(f"{TOPIC}/{what}")
    assert (answer.status_code, answer.json()["type"]) == (501, "urn:skybridge:problem:not-capable")
    assert "subscribe to it" in answer.json()["detail"]
    assert (await client.get(f"{TOPIC}/offsets")).status_code == 200
