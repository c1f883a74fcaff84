"""``may.keys``: a producer writes the record keys that it may, whichever way a key is made."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.access.rights import Rights
from app.access.who import ProducerDirectory
from app.bindings.record import Record
from app.gateway.door import Authenticator
from app.interfaces.clock import SystemClock
from app.kafka_listener.sasl import SaslUsers
from app.kafka_listener.wire import ErrorCode
from app.model.message import Partition
from app.model.producer import May, Producer
from app.telemetry import Counters
from kafka_batches import batch
from kafka_listening import framed, kafka_listening
from kafka_login import MECHANISMS, log_in, produce_request
from listening import listening, publishing
from producer_listener import bearer, event_attributes
from raw_http import RawAnswer, RawConnection, request
from scripted_log import ScriptedLog

OURS, FREE = "the-key-of-the-shop-0", "the-key-of-the-till-0"
PASSWORD = "the password of the shop"
MAY = {"keys": ["shop-*", "all"]}
ROUTES: list[dict[str, Any]] = [
    {"name": name, "filters": [{"exact": {"type": f"t.{name}"}}], "to": {"broker": "log", "topic": name}, "key": key}
    for name, key in {
        "request": {"mapper": "from_request"},
        "partitionkey": {"mapper": "partitionkey"},
        "attribute": {"mapper": "attribute", "attribute": "subject"},
        "template": {"mapper": "template", "template": "{subject}"},
        "pointer": {"mapper": "pointer", "pointer": "/key"},
        "hash": {"mapper": "hash", "attributes": ["subject"]},
        "none": {"mapper": "none"},
    }.items()
]  # fmt: skip
TWO = {"name": "two", "filters": [{"exact": {"type": "t.two"}}], "to": [{"broker": "log", "topic": t} for t in ("a", "b")], "key": {"mapper": "pointer", "pointer": "/key"}}  # fmt: skip
ROUTES.append(TWO)
WAYS = ("request", "query", "partitionkey", "attribute", "template", "pointer", "two")


class House:
    def __init__(self) -> None:
        self.log: Any = ScriptedLog(at_once=True)
        self.counters = Counters()
        listed = [
            {"name": "shop", "keys": [OURS], "may": MAY},
            {"name": "till", "keys": [FREE]},
        ]
        made = ProducerDirectory([Producer.model_validate(each) for each in listed])
        of: Any = lambda _: None  # noqa: E731
        self.door = Authenticator(made, of, SystemClock(), is_open=False)
        self.publisher = publishing(ROUTES, self.log, self.counters)
        self.port = 0

    async def send(self, raw: bytes) -> RawAnswer:
        async with await RawConnection.open(self.port) as peer:
            await peer.send(raw)
            return await peer.answer()


@asynccontextmanager
async def opened() -> AsyncIterator[House]:
    house = House()
    async with listening(house.publisher, counters=house.counters, door=house.door) as server:
        house.port = server.port
        yield house


def event(way: str, key: str, *, credential: str = OURS, mode: str = "binary") -> bytes:
    """An event whose record key is made this way, and is ``key``."""
    kind = "request" if way == "query" else way
    named = {"specversion": "1.0", "id": "1", "source": "/s", "type": f"t.{kind}"}
    extra = {"partitionkey": "partitionkey"}.get(way, "subject")
    if way in {"partitionkey", "attribute", "template", "hash"}:
        named[extra] = key
    target = f"/events?key={key}" if way == "query" else "/events"
    headers = [*bearer(credential), *([("skybridge-key", key)] if way == "request" else [])]
    data = {"key": key}
    if mode == "binary":
        headers += [(f"ce-{name}", text) for name, text in named.items()]
        headers.append(("content-type", "application/json"))
        return request(target, json.dumps(data).encode(), headers=headers)
    document: Any = {**named, "datacontenttype": "application/json", "data": data}
    kinds = "application/cloudevents+json"
    if mode == "batch":
        document, kinds = [document, document], "application/cloudevents-batch+json"
    return request(
        target, json.dumps(document).encode(), headers=[*headers, ("content-type", kinds)]
    )


def faults(answer: RawAnswer) -> list[str]:
    return [each["code"] for each in json.loads(answer.body)["faults"]]


@pytest.mark.parametrize("mode", ["binary", "structured", "batch"])
@pytest.mark.parametrize("way", WAYS)
async def test_the_final_key_counts_whichever_way_it_was_made(way: str, mode: str) -> None:
    """A key of another producer would hold up its events."""
    async with opened() as house:
        for key in ("shop-1", "shop-", "all"):
            assert (await house.send(event(way, key, mode=mode))).status == 202
        sent = len(house.log.submits)
        for key in ("till-1", "shop", "all-1", "%C3%A9" if way == "query" else "x"):
            answer = await house.send(event(way, key, mode=mode))
            assert (answer.status, set(faults(answer))) == (403, {"key-not-allowed"})
            assert len(faults(answer)) == (2 if mode == "batch" else 1)
        assert len(house.log.submits) == sent
        assert (await house.send(event(way, "till-1", credential=FREE, mode=mode))).status == 202


async def test_without_a_key_an_event_is_always_allowed() -> None:
    """It holds up no other."""
    async with opened() as house:
        assert (await house.send(event("none", "till-1"))).status == 202
        named = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t.request"}
        plain = [*bearer(OURS), *[(f"ce-{name}", text) for name, text in named.items()]]
        assert (await house.send(request("/events", headers=plain))).status == 202


async def test_a_digest_is_a_key_like_any_other() -> None:
    async with opened() as house:
        answer = await house.send(event("hash", "shop-1"))
        assert (answer.status, faults(answer)) == (403, ["key-not-allowed"])


async def test_a_refusal_is_counted_and_names_the_key() -> None:
    async with opened() as house:
        answer = await house.send(event("request", "till-1"))
        assert "may not write record key 'till-1'" in json.loads(answer.body)["detail"]
        assert house.counters.values()["producer_refusals"]["shop", "not-allowed"] == 1


def test_keys_that_are_no_text() -> None:
    limits = Rights("shop", May(keys=("shop-*", "é")))
    allowed = {
        b"shop-\xff": True,
        "é".encode(): True,
        b"\xff": False,
        b"\xe9": False,
        b"": False,
        None: True,
    }
    assert {key: not limits.faults_of_key(key) for key in allowed} == allowed
    assert limits.limited
    assert not limits.limits_events


def logins(may: dict[str, Any]) -> SaslUsers:
    listed = {"name": "shop", "kafka": {"password": PASSWORD, "write": ["orders"]}, "may": may}
    made = ProducerDirectory([Producer.model_validate(listed)])
    return SaslUsers({"shop": PASSWORD}, MECHANISMS, made.kafka)


def record(key: bytes | None, *, source: str | None = "/s") -> Record:
    """``source``: None for a record that is no event."""
    if source is None:
        return Record(key, (), b"{}")
    return Record(
        key,
        tuple(
            (f"ce_{name}", text.encode()) for name, text in event_attributes(source=source).items()
        ),
        b"{}",
    )


@pytest.mark.parametrize("compressed", [0, 1])
async def test_the_keys_of_a_kafka_client_are_held_against_it_too(
    tmp_path: Path, compressed: int
) -> None:
    """Each batch is refused whole; a record need not be an event where keys alone are limited."""
    async with kafka_listening(tmp_path, logins=logins(MAY), denial=0.0) as kafka:
        await kafka.engine.create_topic("orders")
        client = await kafka.connect()
        assert await log_in(client, "PLAIN", "shop", PASSWORD) is ErrorCode.none
        good = [record(b"shop-1"), record(None), record(b"all", source=None)]
        for records, fault in (
            (good, None),
            ([*good, record(b"till-1")], 3),
            ([record(b"", source=None)], 0),
        ):
            answer = await client.call(produce_request(batch(records, compressed), "orders"))
            part = answer.responses[0].partition_responses[0]
            code = ErrorCode.none if fault is None else ErrorCode.invalid_record
            assert part.error_code is code
            assert [each.batch_index for each in part.record_errors] == (
                [] if fault is None else [fault]
            )
        assert kafka.engine.partition(Partition("orders", 0)).next_offset == len(good)
        await client.send(framed(produce_request(batch([record(b"till-1")]), "orders", acks=0)))
        assert await client.take() == b""
        assert kafka.engine.partition(Partition("orders", 0)).next_offset == len(good)
        await client.close()


async def test_sources_and_keys_of_a_kafka_client_are_both_named(tmp_path: Path) -> None:
    async with kafka_listening(
        tmp_path, logins=logins({**MAY, "sources": ["/s"]}), denial=0.0
    ) as kafka:
        await kafka.engine.create_topic("orders")
        client = await kafka.connect()
        await log_in(client, "PLAIN", "shop", PASSWORD)
        answer = await client.call(produce_request(batch([record(b"x", source="/x")]), "orders"))
        (error,) = answer.responses[0].partition_responses[0].record_errors
        assert "record key 'x'" in error.batch_index_error_message
        assert "source '/x'" in error.batch_index_error_message
        await client.close()
