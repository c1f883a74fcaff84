"""Services whose subscriptions share the membership of one Kafka topic, and the account of the webhook that they call."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from configuration import Settings, configuration, route, subscription
from service_process import ServiceProcess
from waiting import until
from webhook_target import Received, status


class Load(NamedTuple):
    """The load of a test, and how many times it kills a process.

    Without a kill the sessions are long, so that a machine that stalls ends none."""

    subscriptions: int
    events: int
    keys: int
    kills: int


class Account:
    """An account of the events that each subscription received, by key. The path of a request names its subscription."""

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
        return set(range(n, self.load.events, tenants if n else 1))

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
    folder: Path, kafka: str, topic: str, url: str, load: Load, sharing: str, **more: Any
) -> Settings:
    """Return the settings of a service. ``more`` are changes, as ``configuration`` takes them."""
    broker = {
        "kind": "kafka",
        "bootstrap_servers": kafka,
        "session_timeout": "6s" if load.kills else "60s",
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
        folder,
        brokers={"log": None, "main": broker},
        routes=routes,
        subscriptions=subscriptions,
        **more,
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
    await until(
        lambda: not account.lost, "all events of all subscriptions", moved=lambda: account.count
    )


def lag(service: ServiceProcess, name: str) -> int | None:
    lag: int | None = service.get(f"/v1/subscriptions/{name}/status")["health"]["lag"]
    return lag


async def until_read(service: ServiceProcess, names: Sequence[str]) -> None:
    """Wait until the service shows no lag."""
    for name in names:
        while await asyncio.to_thread(lag, service, name) != 0:
            await asyncio.sleep(0.05)
