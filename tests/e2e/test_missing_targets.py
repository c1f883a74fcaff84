"""What is not there at the start: readiness and ``check --connect`` say why, and it heals by itself."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import aio_pika
import httpx
import pytest

import kafka_harness
import pulsar_harness
from app.brokers import rabbitmq
from child_service import run, running_command
from configuration import configuration, route, written
from sending import event_headers

pytestmark = [pytest.mark.nightly, pytest.mark.fault]

WITHIN = 240.0  # seconds: targets are asked for every three


class MissingTarget(NamedTuple):
    """A broker's settings, a target on it that is not there yet, and how it comes to be."""

    broker: dict[str, Any]
    to: dict[str, str]
    words: str
    make: Callable[[], Awaitable[None]]


@pytest.fixture
def topic() -> str:
    return f"missing-{uuid4().hex[:12]}"


async def nothing() -> None:
    """It is there."""


async def made(log: Any, topic: str) -> None:
    await log.start()
    try:
        await log.create_topic(topic, 2)
    finally:
        await log.stop()


def on_kafka(address: str, topic: str) -> MissingTarget:
    log = kafka_harness.open_calm_log(name="other", bootstrap_servers=address)
    broker = {"kind": "kafka", "bootstrap_servers": address}
    words = "there is no such topic, and none is created"
    return MissingTarget(broker, {"topic": topic}, words, lambda: made(log, topic))


def on_rabbitmq(address: str, topic: str) -> MissingTarget:
    log = rabbitmq.open_log(name="other", addresses=address)
    broker = {"kind": "rabbitmq", "addresses": address}
    return MissingTarget(
        broker, {"topic": topic}, f"has no exchange {topic}", lambda: made(log, topic)
    )


def at_exchange(address: str, topic: str) -> MissingTarget:
    async def make() -> None:
        async with await aio_pika.connect(f"amqp://guest:guest@{address}/") as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(topic, durable=True)
            exchange = await channel.declare_exchange(topic, "topic", durable=True)
            await queue.bind(exchange, "#")

    broker = {"kind": "rabbitmq", "addresses": address}
    to = {"exchange": topic, "routing_key": "a.b"}
    return MissingTarget(broker, to, f"has no exchange {topic}", make)


def on_pulsar(addresses: tuple[str, str], topic: str) -> MissingTarget:
    service_url, admin_url = addresses
    log = pulsar_harness.open_calm_log(name="other", service_url=service_url, admin_url=admin_url)
    broker = {"kind": "pulsar", "service_url": service_url, "admin_url": admin_url}
    words = "there is no such topic, and none is created"
    return MissingTarget(broker, {"topic": topic}, words, lambda: made(log, topic))


async def heals(folder: Path, place: MissingTarget) -> None:
    """Not ready with the cause, said by check too; ready when the target is there; then 202."""
    file = configured(folder, place)
    async with service(folder, file) as (client, said):
        answer = await ready(client, said["admin"], 503)
        assert place.words in answer
        code, out, _ = await run(folder, "check", str(file), "--connect", "--json")
        (finding,) = (json.loads(line) for line in out.splitlines() if place.words in line)
        assert (code, finding["level"], finding["setting"]) == (1, "error", "routes[0].to")
        await place.make()
        await ready(client, said["admin"], 200)
        answer = await client.post(said["events"], headers=event_headers("1"))
        assert answer.status_code == 202


@asynccontextmanager
async def service(folder: Path, file: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    async with (
        running_command(folder, "serve", "--config", str(file), "--role", "gateway") as child,
        httpx.AsyncClient(trust_env=False, timeout=WITHIN) as client,
    ):
        yield client, child.announced
        assert await child.stop() == 0


def configured(folder: Path, place: MissingTarget, **more: Any) -> Path:
    settings = configuration(
        folder,
        brokers={"log": None, "main": place.broker},
        routes=[route(to={"broker": "main", **place.to})],
        timeouts={"publish": None, "drain": None},
        **more,
    )
    return written(settings, folder)


async def ready(client: httpx.AsyncClient, admin: str, status: int) -> str:
    """The answer of ``/readyz`` when it has this status, and, if it is not ready, names the broker."""
    deadline = time.monotonic() + WITHIN
    while True:
        answer = await client.get(f"{admin}/readyz")
        if answer.status_code == status and (status == 200 or "main" in answer.text):
            return answer.text
        assert time.monotonic() < deadline, answer.text
        await asyncio.sleep(0.1)


@pytest.mark.kafka
async def test_a_missing_topic_of_kafka(tmp_path: Path, kafka: str, topic: str) -> None:
    """Rule 10, with topics.create: false."""
    await heals(tmp_path, on_kafka(kafka, topic))


@pytest.mark.rabbitmq
async def test_a_missing_topic_of_rabbitmq(tmp_path: Path, rabbitmq: str, topic: str) -> None:
    """Rule 10: no exchange, no queues."""
    await heals(tmp_path, on_rabbitmq(rabbitmq, topic))


@pytest.mark.rabbitmq
async def test_a_missing_exchange(tmp_path: Path, rabbitmq: str, topic: str) -> None:
    """Rule 10: one that others make."""
    await heals(tmp_path, at_exchange(rabbitmq, topic))


@pytest.mark.pulsar
async def test_a_missing_topic_of_pulsar(
    tmp_path: Path, pulsar: tuple[str, str], topic: str
) -> None:
    """Rule 10, with topics.create: false."""
    await heals(tmp_path, on_pulsar(pulsar, topic))


@pytest.mark.rabbitmq
async def test_a_wrong_password_is_told_in_the_brokers_words_and_ends_nothing(
    tmp_path: Path, rabbitmq: str, topic: str
) -> None:
    """The service runs on and says so: no crash loop."""
    place = on_rabbitmq(rabbitmq, topic)
    place.broker["security"] = {"username": "guest", "password": "canary-12"}
    file = configured(tmp_path, place)
    async with service(tmp_path, file) as (client, said):
        answer = await ready(client, said["admin"], 503)
    code, out, _ = await run(tmp_path, "check", str(file), "--connect", "--json")
    for text in (answer, out):
        assert "ACCESS_REFUSED" in text or "login" in text
        assert "canary-12" not in text
    assert code == 1


@pytest.mark.rabbitmq
async def test_check_warns_of_a_queue_of_others_that_drops_what_comes_back_too_often(
    tmp_path: Path, rabbitmq: str, topic: str
) -> None:
    """A delivery limit breaks "at least once", and nobody would see it happen."""
    async with await aio_pika.connect(f"amqp://guest:guest@{rabbitmq}/") as connection:
        channel = await connection.channel()
        limited = {
            "x-queue-type": "quorum",
            "x-single-active-consumer": True,
            "x-delivery-limit": 3,
        }
        await channel.declare_queue(topic, durable=True, arguments=limited)
    place = MissingTarget(
        {"kind": "rabbitmq", "addresses": rabbitmq}, {"topic": f"queue:{topic}"}, "", nothing
    )
    source = {"broker": "main", "topics": [f"queue:{topic}"]}
    reader = {"id": "s", "source": source, "sink": "https://example.org/"}
    file = configured(tmp_path, place, subscriptions=[reader])
    code, out, _ = await run(tmp_path, "check", str(file), "--connect", "--json")
    found = [json.loads(line) for line in out.splitlines() if "already exists" in line]
    assert [each["level"] for each in found] == ["warning"]
    assert found[0]["setting"] == "subscriptions[0].source.topics[0]"
    assert code == 0
