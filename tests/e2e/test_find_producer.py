"""Which producer sent an event: what a record proves, and what it only claims."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import Consumer, Producer
from typer.testing import CliRunner

from app.cli.commands import app
from free_ports import free_ports
from sending import event_headers
from service import Service

KEY, PASSWORD = "the-key-of-the-shop-0", "a-password-of-eighteen"
ROUTED = [("Skybridge-Route", b"orders"), ("skybridge-intake", b"github")]
FORGED = [("skybridge-producer", b"shop"), ("Skybridge-Producer", b"shop"), *ROUTED]
Start = Callable[[dict[str, Any]], Awaitable[Service]]


def settings(tmp_path: Any, port: int, **listener: Any) -> dict[str, Any]:
    kafka = {"password": PASSWORD, "write": ["orders"], "read": ["*"], "groups": ["*"]}
    plain = {"sasl": {"mechanisms": ["PLAIN"]} | listener}
    log = {"kind": "embedded", "path": str(tmp_path / "log")}
    return {
        "server": {"events": {"access": "producers"}},
        "brokers": {"log": log | {"kafka_listener": {"listen": f"127.0.0.1:{port}"} | plain}},
        "producers": [{"name": "shop", "keys": [KEY]}, {"name": "scanner", "kafka": kafka}],
        "routes": [{"name": "orders", "to": {"broker": "log", "topic": "orders"}}],
    }


def login(port: int, user: str | None) -> dict[str, Any]:
    servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
    if user is None:
        return servers
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    return servers | sasl | {"sasl.username": user, "sasl.password": PASSWORD}


def produce(port: int, user: str | None, event_id: str, headers: Any, **more: Any) -> None:
    refused: list[Any] = []
    client = Producer(login(port, user) | {"message.timeout.ms": 60_000} | more)
    attributes = {"specversion": "1.0", "id": event_id, "source": "/s", "type": "t"}
    event = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
    for _ in range(2):
        client.produce(
            "orders",
            b"1",
            headers=[*event, *headers],
            on_delivery=lambda error, _: refused.append(error),
        )
    client.flush(60)
    assert refused == [None, None]


def stored(port: int, user: str | None, count: int) -> list[Any]:
    group = {"group.id": "reader", "auto.offset.reset": "earliest"}
    client = Consumer(login(port, user) | group)
    client.subscribe(["orders"])
    found: list[Any] = []
    while len(found) < count:
        found += client.consume(count - len(found), timeout=1)
    client.close()
    return [each.headers() for each in found]


async def post(service: Service, event_id: str, key: str = KEY) -> None:
    headers = event_headers(event_id) | {
        "authorization": f"Bearer {key}",
        "skybridge-producer": "scanner",
    }
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        answer = await http.post(f"{service.events_url}/events", headers=headers)
    assert answer.status_code == 202, answer.text


async def sender(service: Service, event_id: str) -> tuple[str | None, bool]:
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        answer = await http.get(f"{service.admin_url}/v1/events", params={"id": event_id})
    (found,) = answer.json()["events"]
    return found["producer"], found["producer_claimed"]


@pytest.mark.parametrize("codec", ["none", "gzip"])
async def test_a_kafka_user_cannot_pass_for_another_producer(
    started: Start, tmp_path: Any, codec: str
) -> None:
    (port,) = free_ports(1)
    service = await started(settings(tmp_path, port))
    await post(service, "by-http")
    more = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 100}
    await asyncio.to_thread(lambda: produce(port, "scanner", "forged", FORGED, **more))
    await asyncio.to_thread(lambda: produce(port, "scanner", "plain", [("other", b"1")], **more))
    assert await sender(service, "by-http") == ("shop", False)
    assert await sender(service, "forged") == ("scanner", False)
    assert await sender(service, "plain") == ("scanner", False)
    records = await asyncio.to_thread(stored, port, "scanner", 5)
    names = [[v for n, v in record if n.lower() == "skybridge-producer"] for record in records]
    assert sorted(names) == [[b"scanner"]] * 4 + [[b"shop"]]
    assert any(("other", b"1") in record for record in records)
    assert not any({*ROUTED} & {*record} for record in records)


async def test_records_of_a_user_with_every_right_stay_as_they_are_and_prove_nothing(
    started: Start, tmp_path: Any
) -> None:
    (port,) = free_ports(1)
    service = await started(settings(tmp_path, port, users={"copier": PASSWORD}))
    await asyncio.to_thread(produce, port, "copier", "copied", FORGED)
    assert await sender(service, "copied") == ("shop", True)
    records = await asyncio.to_thread(stored, port, "copier", 2)
    assert [record[-len(FORGED) :] for record in records] == [FORGED] * 2


async def test_where_nobody_logs_in_the_record_only_claims_it(
    started: Start, tmp_path: Any
) -> None:
    (port,) = free_ports(1)
    whole = settings(tmp_path, port)
    whole["brokers"]["log"]["kafka_listener"] = f"127.0.0.1:{port}"
    whole["producers"] = [{"name": "shop", "keys": [KEY]}]
    service = await started(whole)
    await asyncio.to_thread(produce, port, None, "open", FORGED)
    assert await sender(service, "open") == ("shop", True)
    said = await asyncio.to_thread(
        lambda: CliRunner().invoke(app, ["find", "open", "--server", service.admin_url])
    )
    assert "came from shop (claimed by the record)" in said.stdout


async def test_an_open_events_listener_takes_no_name_from_a_sender(started: Start) -> None:
    service = await started(
        {"routes": [{"name": "orders", "to": {"broker": "log", "topic": "orders"}}]}
    )
    await post(service, "open")
    assert await sender(service, "open") == (None, False)


@pytest.mark.kafka
async def test_what_any_client_of_a_broker_may_write_is_only_claimed(
    started: Start, tmp_path: Any, kafka: str
) -> None:
    topic = f"orders-{uuid4().hex}"
    service = await started(
        {
            "server": {"events": {"access": "producers"}},
            "brokers": {
                "log": {"kind": "embedded", "path": str(tmp_path / "log")},
                "main": {"kind": "kafka", "bootstrap_servers": kafka, "topics": {"create": True}},
            },
            "producers": [{"name": "shop", "keys": [KEY]}],
            "routes": [{"name": "orders", "to": {"broker": "main", "topic": topic}}],
        }
    )
    await post(service, "by-kafka")
    assert await sender(service, "by-kafka") == ("shop", True)
