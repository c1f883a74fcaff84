"""Subscriptions that share the membership of one Kafka topic: a kill, two workers and moves lose nothing and keep the
order of keys. The judge is the webhook's own account."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

from configuration import Settings, configuration, route, subscription
from service_process import ServiceProcess
from waiting import until
from webhook_target import Received, WebhookTarget, status

pytestmark = [pytest.mark.kafka, pytest.mark.fault]

PATIENCE = 240.0  # seconds


class Load(NamedTuple):
    subscriptions: int
    events: int
    keys: int
    kills: int


SHORT = Load(subscriptions=5, events=200, keys=10, kills=1)
FULL = Load(subscriptions=200, events=20_000, keys=100, kills=10)


class Account:
    """What each subscription received, by key. The path of a request names its subscription."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.received: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.count = 0

    async def __call__(self, request: Received) -> bytes:
        number = int(request.id)
        self.received[request.path.rpartition("/")[2]][number % self.load.keys].append(number)
        self.count += 1
        return status(204)

    def has(self, deliveries: int) -> bool:
        return self.count >= deliveries

    def wanted(self, name: str) -> set[int]:
        """Return the events of a subscription: the first wants all, each other one those of one tenant."""
        n, tenants = int(name.removeprefix("s")), self.load.subscriptions
        return {e for e in range(self.load.events) if n == 0 or e % tenants == n}

    @property
    def lost(self) -> int:
        return sum(len(self.wanted(name) - self.had(name)) for name in self.names)

    @property
    def repeats(self) -> int:
        return self.count - sum(len(self.had(name)) for name in self.names)

    @property
    def names(self) -> list[str]:
        return [f"s{n}" for n in range(self.load.subscriptions)]

    def had(self, name: str) -> set[int]:
        return {number for key in self.received[name].values() for number in key}

    def in_order(self) -> bool:
        """Return True if the first deliveries of each key are in the order of the events."""
        return all(
            (first := [*dict.fromkeys(numbers)]) == sorted(first)
            for keys in self.received.values()
            for numbers in keys.values()
        )


def settings_of(
    folder: Path, kafka: str, topic: str, url: str, load: Load, sharing: str
) -> Settings:
    broker = {
        "kind": "kafka",
        "bootstrap_servers": kafka,
        "session_timeout": "6s",
        "topics": {"create": True, "partitions": 4},
    }
    subscriptions = [
        subscription(
            f"s{n}",
            f"{url}/s{n}",
            topic,
            broker="main",
            sharing=sharing,
            filters=[{"exact": {"tenant": str(n)}}] if n else [],
        )
        for n in range(load.subscriptions)
    ]
    routes = [route(topic, broker="main", key={"mapper": "attribute", "attribute": "subject"})]
    return configuration(
        folder, brokers={"log": None, "main": broker}, routes=routes, subscriptions=subscriptions
    )


async def send(service: ServiceProcess, load: Load, numbers: Sequence[int]) -> None:
    """Send events in their order, as batches."""
    for first in range(0, len(numbers), 100):
        batch = [
            {
                "specversion": "1.0",
                "id": str(n),
                "source": "/s",
                "type": "com.example.order",
                "subject": str(n % load.keys),
                "tenant": str(n % load.subscriptions),
                "data": {},
            }
            for n in numbers[first : first + 100]
        ]
        kind = {"content-type": "application/cloudevents-batch+json"}
        port = service.events_port
        answer = await asyncio.to_thread(
            service.ask, "POST", "/events", json.dumps(batch), kind, port=port
        )
        assert answer[0] == 202, answer


async def complete(account: Account) -> None:
    await until(lambda: not account.lost, "all events of all subscriptions", within=PATIENCE)


def lag(service: ServiceProcess, name: str) -> int | None:
    lag: int | None = service.get(f"/v1/subscriptions/{name}/status")["health"]["lag"]
    return lag


async def until_read(service: ServiceProcess, names: Sequence[str]) -> None:
    """Wait until the service shows no lag."""
    for name in names:
        while await asyncio.to_thread(lag, service, name) != 0:
            await asyncio.sleep(0.05)


async def kill_while_delivering(kafka: str, folder: Path, load: Load) -> Account:
    account = Account(load)
    target = WebhookTarget(account)
    await target.start()
    topic = f"t-{uuid4().hex[:12]}"
    settings = settings_of(folder, kafka, topic, target.url, load, "topic")
    service = ServiceProcess(settings, folder)
    with service.ended():
        await asyncio.to_thread(service.start)
        each = load.events // (load.kills + 1)
        for kill in range(load.kills + 1):
            end = load.events if kill == load.kills else (kill + 1) * each
            before = account.count
            await send(service, load, range(kill * each, end))
            if kill < load.kills:
                goal = before + each // 2
                await until(partial(account.has, goal), "deliveries", within=PATIENCE)
                await asyncio.to_thread(service.kill)
                await asyncio.to_thread(service.start)
        await complete(account)
        await until_read(service, account.names)
        before = account.count
        await asyncio.to_thread(service.kill)
        await asyncio.to_thread(service.start)
        await until_read(service, account.names)
        assert account.count == before, "what was stored is not delivered again"
    await target.stop()
    return account


async def test_a_kill_loses_nothing(kafka: str, tmp_path: Path) -> None:
    """A worker is killed while it delivers. Every subscription gets its events in the order of their keys. A kill
    when all positions are stored repeats nothing."""
    account = await kill_while_delivering(kafka, tmp_path, SHORT)
    assert account.in_order()


@pytest.mark.nightly
async def test_many_kills_lose_nothing(kafka: str, tmp_path: Path) -> None:
    """The same with two hundred subscriptions and ten kills."""
    account = await kill_while_delivering(kafka, tmp_path, FULL)
    assert account.in_order()


@pytest.mark.nightly
async def test_moves_lose_and_repeat_nothing(kafka: str, tmp_path: Path) -> None:
    """Subscriptions move into the shared membership and back while events are sent: nothing is lost, nothing is
    delivered twice, and keys keep their order."""
    load = SHORT
    account = Account(load)
    target = WebhookTarget(account)
    await target.start()
    topic = f"t-{uuid4().hex[:12]}"

    def settings(sharing: str) -> Settings:
        return settings_of(tmp_path, kafka, topic, target.url, load, sharing)

    service = ServiceProcess(settings("none"), tmp_path)
    with service.ended():
        await asyncio.to_thread(service.start)
        third = load.events // 3
        for step, sharing in enumerate(("none", "topic", "none")):
            end = load.events if step == 2 else (step + 1) * third
            sending = asyncio.create_task(send(service, load, range(step * third, end)))
            if step:
                service.settings = {**settings(sharing), "server": service.settings["server"]}
                service.write()
                answer = await asyncio.to_thread(service.ask, "POST", "/v1/config:reload")
                assert answer[0] == 200, answer
            await sending
        await complete(account)
        await until_read(service, account.names)
        assert account.in_order()
        assert account.repeats == 0
    await target.stop()
