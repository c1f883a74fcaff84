"""Processes of one installation on one broker, and the record of what a target got from them.

``Ledger`` is the record of the target, ``Installation`` makes the processes, and ``Service`` is one
of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from configuration import configuration, route
from sending import BATCH, STRUCTURED
from service_process import ServiceProcess
from waiting import until
from webhook_target import Received, WebhookTarget, status

PATIENCE = 240.0  # seconds; every wait ends earlier, with its condition
CONCURRENCY = 16
COMMITTED_WITHIN = 1.0  # seconds; RabbitMQ's streams take half of it, other logs less
STALLED = 3  # the service may have stalled this many times as long as this process
MOST_IN_A_BATCH = 500
OK, BUSY = status(204), status(503)


def numbered(first: int, count: int, keys: int) -> list[dict[str, Any]]:
    """Return ``count`` events with consecutive numbers as ids, and with the number modulo ``keys``
    as their key.
    """
    return [
        {
            "specversion": "1.0",
            "id": str(number),
            "source": f"/k{number % keys}",
            "type": "com.example.counted",
            "partitionkey": f"k{number % keys}",
            "datacontenttype": "application/json",
            "data": {"n": number},
        }
        for number in range(first, first + count)
    ]


class Ledger:
    """The answer function of a webhook target, which records every event that it takes.

    ``busy`` decides for each request whether the answer is 503. ``takes`` is the time in seconds
    before an answer.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.numbers: set[int] = set()
        self.busy: Callable[[Received], bool] = lambda _: False
        self.takes = 0.0
        self._moments: list[float] = []
        self._late = 0.0  # seconds: the most that an answer had to wait for its turn

    async def __call__(self, request: Received) -> bytes:
        due = time.monotonic() + self.takes
        await asyncio.sleep(self.takes)
        self._late = max(self._late, time.monotonic() - due)
        if self.busy(request):
            return BUSY
        self.taken.append((request.header("ce-source"), int(request.id)))
        self.numbers.add(int(request.id))
        self._moments.append(time.monotonic())
        return OK

    def possible_repeats(self) -> int:
        """Return the largest number of deliveries that a kill at this moment may repeat: those in
        flight, and those that finished after the last commit."""
        since = time.monotonic() - COMMITTED_WITHIN - STALLED * self._late
        return CONCURRENCY + len(self._moments) - bisect(self._moments, since)

    @property
    def repeats(self) -> int:
        return len(self.taken) - len(self.numbers)

    def times(self, number: int) -> int:
        return Counter(n for _, n in self.taken)[number]

    def out_of_order(self) -> dict[str, list[int]]:
        """Return the keys whose first arrivals are not in the order of acceptance, with the
        numbers that arrived.
        """
        firsts: dict[str, list[int]] = defaultdict(list)
        for key, number in dict.fromkeys(self.taken):
            firsts[key].append(number)
        return {key: numbers for key, numbers in firsts.items() if numbers != sorted(numbers)}


class RefuseSource:
    """An answer function that refuses the events of one source until ``mended`` is set. The ledger
    answers all other requests."""

    def __init__(self, ledger: Ledger, source: str, refusal: bytes) -> None:
        self.mended = False
        self._ledger, self._source, self._refusal = ledger, source, refusal

    async def __call__(self, request: Received) -> bytes:
        if request.header("ce-source") == self._source and not self.mended:
            return self._refusal
        return await self._ledger(request)


class Service:
    """One process of the service, in its own folder."""

    def __init__(self, folder: Path, house: Installation, sinks: dict[str, Any]) -> None:
        folder.mkdir()
        self.folder = folder
        settings = self._config(house, sinks)
        self.process = ServiceProcess(settings, folder, *house.arguments)
        self.admin_port = self.process.admin_port
        self.events_url = self.process.events_url

    async def start(self) -> None:
        await asyncio.to_thread(self.process.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self.process.kill)

    async def stop(self) -> None:
        assert await asyncio.to_thread(self.process.stop) == 0

    async def post(self, content: bytes, headers: dict[str, str]) -> int:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.post(
                f"{self.events_url}/events", content=content, headers=headers
            )
            if answer.status_code != HTTPStatus.ACCEPTED:
                print(answer.status_code, answer.text)  # pytest shows it with a failure
            return answer.status_code

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        for first in range(0, len(events), MOST_IN_A_BATCH):
            batch = json.dumps(events[first : first + MOST_IN_A_BATCH]).encode()
            assert await self.post(batch, BATCH) == 202

    async def publish_until_accepted(self, events: Sequence[dict[str, Any]]) -> None:
        """Publish events one after another, each repeatedly until it is accepted."""
        async with asyncio.timeout(PATIENCE):
            for event in events:
                while await self.post(json.dumps(event).encode(), STRUCTURED) != 202:
                    await asyncio.sleep(0.2)

    async def status(self) -> dict[str, Any]:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(f"http://127.0.0.1:{self.admin_port}/status")
        [subscription] = answer.json()["subscriptions"]
        return subscription

    async def parked(self) -> int:
        """Return the count of parked messages in the store."""
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(f"http://127.0.0.1:{self.admin_port}/v1/parked/count")
        return sum(each["rows"] for each in answer.json()["counts"])

    async def until_parked(self, count: int) -> None:
        """Wait until this count of messages is parked. A row is deleted shortly after its event
        was delivered.
        """

        async def there() -> bool:
            return await self.parked() == count

        await until(there, f"{count} parked", turn=0.05)

    async def until_no_lag(self) -> None:
        """Wait until the status of the subscription reports a lag of 0."""
        await self.until_status(lambda found: found["lag"] == 0)

    async def until_owns(self, count: int) -> None:
        """Wait until this process owns ``count`` partitions."""
        await self.until_status(lambda found: len(found["partitions"]) == count)

    async def until_status(self, so: Callable[[dict[str, Any]], bool]) -> None:
        async def is_so() -> bool:
            return so(await self.status())

        await until(is_so, "the status", turn=0.02)

    def _config(self, house: Installation, sinks: dict[str, Any]) -> dict[str, Any]:
        retry = {"schedule": house.schedule, "hold": house.held_waits}
        return configuration(
            self.folder,
            installation=house.installation,
            store={"path": None, **house.store},
            brokers={"log": None, "main": house.settings},
            routes=[
                route(to={"broker": "main", **house.to}, key={"mapper": "partitionkey"}),
            ],
            subscriptions=[
                {
                    "id": name,
                    "source": {"broker": "main", "topics": [house.source]},
                    "start": "earliest",
                    "concurrency": CONCURRENCY,
                    "retry": retry,
                    **settings,
                }
                for name, settings in sinks.items()
            ],
            webhooks=dict(house.webhooks),
            timeouts={"publish": "180s", "drain": None},
        )


class Installation:
    """An installation with its own topic, whose processes are killed at the end if they still run.

    ``broker`` has the broker's settings without ``topics``. Events are published to ``to`` and read
    from ``source``, which are both ``topic`` by default.
    """

    def __init__(self, folder: Path, broker: Mapping[str, Any], target: WebhookTarget) -> None:
        self._folder = folder
        self.broker = broker
        self.installation = f"e2e-{uuid4().hex[:12]}"
        self.topic = self.source = f"{self.installation}-events"
        self.to: Mapping[str, str] = {"topic": self.topic}
        self.partitions = 4
        self.store: dict[str, Any] = {"kind": "sqlite", "path": "store.db"}  # each has its own
        self.webhooks: Mapping[str, str] = {}
        self.arguments: Sequence[str] = ()  # of ``serve``, for those that start from now on
        self.schedule = ["20ms"] * 50
        self.hold: int | None = None  # all of them
        self._sinks = {"hook": {"sink": target.url}}
        self.services: list[Service] = []

    @property
    def held_waits(self) -> int:
        """Return how many waits of the retry schedule are spent in memory before the key of an
        event parks. By default all are."""
        return len(self.schedule) if self.hold is None else self.hold

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the broker with those of topics. The embedded log creates topics
        by itself.
        """
        if self.broker["kind"] == "embedded":
            return {**self.broker, "partitions": self.partitions}
        return {**self.broker, "topics": {"create": True, "partitions": self.partitions}}

    @property
    def group(self) -> str:
        return f"skybridge.{self.installation}.hook"

    async def service(self, **sinks: Any) -> Service:
        folder = self._folder / f"service-{len(self.services)}"
        service = Service(folder, self, sinks or self._sinks)
        self.services.append(service)
        await service.start()
        return service

    def close(self) -> None:
        for service in self.services:
            if service.process.running:
                service.process.kill()


class SteadyPublisher:
    """A publisher that sends small batches one after another to the service that was set last."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.published = 0
        self.stopping = False

    def by(self, service: Service) -> None:
        self._service = service

    async def run(self) -> None:
        while not self.stopping:
            await self._service.publish(numbered(self.published, 20, keys=20))
            self.published += 20
            await asyncio.sleep(0.02)

    async def until_more(self, ledger: Ledger, count: int) -> None:
        goal = len(ledger.numbers) + count
        await until(lambda: len(ledger.numbers) >= goal, f"{count} more delivered")


@contextlib.asynccontextmanager
async def steady_publisher(service: Service) -> AsyncIterator[SteadyPublisher]:
    publisher = SteadyPublisher(service)
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        publisher.stopping = True
        await task
