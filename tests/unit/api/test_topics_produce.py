"""``POST /v1/topics/…/records``: Produce of the protocol guide, and what a broker refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from app.api.http.problems import status_of
from app.errors import BoundReached, BrokerError, BrokerRefused, BrokerUnavailable, PublishUnknown
from app.model.message import Partition
from app.model.metadata import LogMetadata
from app.model.spool import spool_topic
from topics_service import EVENT, TOPIC, FakeTopicsService


def failing(service: FakeTopicsService, error: BrokerError) -> None:
    async def metadata(*_: Any) -> LogMetadata:
        raise error

    service.log.metadata = metadata  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BrokerRefused("no", kind="unknown-topic"), 404, "unknown-topic"),
        (BrokerRefused("no", kind="unroutable"), 404, "unroutable"),
        (BrokerRefused("no", kind="not-authorised"), 403, "not-authorised"),
        (BrokerRefused("no", kind="record-too-large"), 413, "record-too-large"),
        (BrokerRefused("no", kind="rejected"), 422, "rejected"),
        (BrokerRefused("no", kind="unwritable"), 422, "unwritable"),
        (BrokerRefused("no", kind="not-capable"), 501, "not-capable"),
        (BrokerRefused("no"), 500, "broker-refused"),
        (BrokerUnavailable("no leader"), 503, "broker-unavailable"),
        (PublishUnknown("no answer"), 503, "publish-unknown"),
        (BoundReached("full"), 503, "bound-reached"),
    ],
)
async def test_what_a_broker_refuses_is_told_over_http(
    service: FakeTopicsService,
    client: httpx.AsyncClient,
    error: BrokerError,
    status: int,
    code: str,
) -> None:
    """spec.md 9: one table for reading and publishing, with the broker's own words."""
    service.log.refusals.append(error)
    published = await client.post(f"{TOPIC}/records", headers=EVENT)
    failing(service, error)
    asked = await client.get(TOPIC)
    for answer in (published, asked):
        assert (answer.status_code, answer.json()["type"]) == (
            status, f"urn:skybridge:problem:{code}",
        )  # fmt: skip
        assert answer.json()["detail"] == str(error)
        assert ("retry-after" in answer.headers) == (status == 503)
    assert (status_of(error), error.problem) == (status, code)


async def test_retry_after_is_the_brokers_own_in_whole_seconds(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """A broker that says when is worth listening to."""
    failing(service, BrokerUnavailable("away", retry_after=2.5))
    assert (await client.get(TOPIC)).headers["retry-after"] == "3"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (EVENT, b'{"n": 1.10}'),
        (
            {"content-type": "application/cloudevents+json"},
            b'{"specversion":"1.0","id":"7","source":"/s","type":"t","data":{"n": 1.10}}',
        ),
        (
            {"content-type": "application/cloudevents-batch+json"},
            b'[{"specversion":"1.0","id":"7","source":"/s","type":"t","data":{"n": 1.10}}]',
        ),
    ],
)
async def test_an_event_of_any_mode_is_published_and_its_receipt_finds_it(
    service: FakeTopicsService, client: httpx.AsyncClient, headers: dict[str, str], body: bytes
) -> None:
    """Produce and Fetch meet: the position of the receipt is where it is read, its data unchanged."""
    receipt = await client.post(
        f"{TOPIC}/records", headers={**headers, "skybridge-key": "order-7"}, content=body
    )
    assert receipt.status_code == 201, receipt.text
    place = receipt.json()
    answer = await client.get(
        f"{TOPIC}/records", params={"partition": place["partition"], "from": place["position"]}
    )
    assert '"data":{"n": 1.10}' in answer.text
    (message,) = answer.json()["messages"]
    assert (message["key"], message["mode"], message["event"]["id"]) == ("order-7", "binary", "7")


async def test_a_key_of_any_bytes_and_another_mode_are_kept(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """K7: a key is bytes; the content mode is the caller's."""
    receipt = await client.post(
        f"{TOPIC}/records",
        params={"content_mode": "structured"},
        headers=[
            *((n.encode(), v.encode()) for n, v in EVENT.items()),
            (b"skybridge-key", b"k\xff"),
        ],
    )
    place = Partition("events", receipt.json()["partition"])
    ((record, _),) = service.log.partitions[place]
    assert record.key == b"k\xff"
    content_type = dict(record.headers)["content-type"] or b""
    assert content_type.startswith(b"application/cloudevents+json")


async def test_every_fault_of_an_event_is_listed(client: httpx.AsyncClient) -> None:
    """As at /events."""
    answer = await client.post(f"{TOPIC}/records", headers={"ce-specversion": "1.0", "ce-id": "1"})
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["type"] == "urn:skybridge:problem:invalid-event"
    assert {fault["at"] for fault in problem["faults"]} == {"header ce-source", "header ce-type"}


async def test_a_batch_of_two_is_refused_whole(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """One event is one receipt; batches have their own way in."""
    two = b'[{"specversion":"1.0","id":"%d","source":"/s","type":"t"}]'
    body = b"[" + (two % 1)[1:-1] + b"," + (two % 2)[1:-1] + b"]"
    answer = await client.post(
        f"{TOPIC}/records",
        headers={"content-type": "application/cloudevents-batch+json"},
        content=body,
    )
    assert (answer.status_code, answer.json()["type"]) == (
        400, "urn:skybridge:problem:not-one-event",
    )  # fmt: skip
    assert not any(service.log.partitions.values())


async def test_a_coded_body_is_refused_not_stored(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """Stored as it came it would be no JSON any more."""
    answer = await client.post(
        f"{TOPIC}/records", headers={**EVENT, "content-encoding": "gzip"}, content=b"\x1f\x8b"
    )
    assert answer.status_code == 415
    assert not any(service.log.partitions.values())


async def test_a_body_that_no_log_could_hold_is_not_read_to_its_end(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """The listener's memory is not the sender's (rule 8)."""
    service.log.capabilities = msgspec.structs.replace(service.log.capabilities, max_record=1000)
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken < 100:
            taken += 1
            yield b"x" * 500

    answer = await client.post(f"{TOPIC}/records", headers=EVENT, content=endless())
    assert answer.status_code == 413
    assert taken < 10


async def test_a_spool_is_written_by_the_service_alone(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """What somebody else puts there says not where it goes, and becomes a dead letter."""
    await service.log.create_topic(spool_topic("far"), 1)
    answer = await client.post(f"/v1/topics/log/{spool_topic('far')}/records", headers=EVENT)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:skybridge:problem:not-authorised")  # fmt: skip
    assert service.log.partitions[Partition(spool_topic("far"), 0)] == []


async def test_publishing_makes_no_topic(
    service: FakeTopicsService, client: httpx.AsyncClient
) -> None:
    """A mistyped name must not become a topic, not even where the log would make one."""
    answer = await client.post("/v1/topics/log/evnets/records", headers=EVENT)
    assert answer.status_code == 404
    assert service.log.of("evnets") == []


async def test_the_example_in_the_description_is_an_event_that_is_taken(
    client: httpx.AsyncClient,
) -> None:
    """An example that does not work teaches the wrong thing."""
    described = (await client.get("/openapi.json")).json()
    operation = described["paths"]["/v1/topics/{broker}/{topic}/records"]["post"]
    example = operation["requestBody"]["content"]["application/cloudevents+json"]["example"]
    answer = await client.post(
        f"{TOPIC}/records",
        headers={"content-type": "application/cloudevents+json"},
        content=json.dumps(example),
    )
    assert answer.status_code == 201
    named = {each["name"] for each in operation["parameters"]}
    assert {"Skybridge-Key", "content_mode"} <= named
    offsets = described["paths"]["/v1/topics/{broker}/{topic}/offsets"]["get"]["parameters"]
    (time,) = (each for each in offsets if each["name"] == "time")
    for text in time["schema"]["examples"]:
        assert (await client.get(f"{TOPIC}/offsets", params={"time": text})).status_code == 200
