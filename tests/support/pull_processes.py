"""Service processes with the pull subscription ``billing``, and consumers that record what they
receive."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from configuration import configuration, route, subscription
from sending import BATCH
from service_process import ServiceProcess
from waiting import until

PATIENCE = 240.0  # seconds: only a bound, because every wait ends with its condition
SUBSCRIPTION = "billing"


class PullServiceProcess:
    """A service process with one pull subscription, on an embedded log or another broker.

    Args:
        folder: The folder of the process.
        pull: The settings of the pull queue.
        store: The store of the configuration. The default is SQLite.
        role: The role that the process runs. "" means both.
        broker: The settings of the broker, if not an embedded log.
        settings: More settings of the subscription.
    """

    def __init__(
        self,
        folder: Path,
        pull: dict[str, Any],
        store: dict[str, Any] | None = None,
        role: str = "",
        broker: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        folder.mkdir()
        installation = f"e2e-{uuid4().hex[:12]}"
        topic = f"{installation}-events" if broker else "events"
        whole = configuration(
            folder,
            installation=installation,
            store={"path": None, **store} if store else {},
            brokers={"log": {"path": None, **broker} if broker else {}},
            routes=[route(topic, key={"mapper": "partitionkey"})],
            subscriptions=[subscription(SUBSCRIPTION, {"pull": pull}, topic, **settings)],
        )
        self.process = ServiceProcess(whole, folder, *(("--role", role) if role else ()))
        self.admin = self.process.admin_url
        self.verbs = f"{self.admin}/v1/subscriptions/{SUBSCRIPTION}"
        self._events = f"{self.process.events_url}/events"
        self.http = httpx.AsyncClient(trust_env=False, timeout=PATIENCE + 65)

    async def start(self) -> None:
        await asyncio.to_thread(self.process.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self.process.kill)

    async def close(self) -> None:
        await self.http.aclose()
        if self.process.running:
            await self.kill()

    async def publish(self, events: Sequence[dict[str, Any]]) -> None:
        answer = await self.http.post(self._events, content=json.dumps(events), headers=BATCH)
        assert answer.status_code == 202, answer.text

    async def receive(self, most: int = 100, wait: float = 0) -> list[dict[str, Any]]:
        answer = await self.ask("receive", {"max_events": most, "max_wait": wait})
        return answer["events"]

    async def ask(self, verb: str, body: dict[str, Any]) -> Any:
        answer = await self.http.post(f"{self.verbs}:{verb}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def status(self) -> dict[str, Any]:
        answer = await self.http.get(f"{self.admin}/status")
        [subscription] = answer.json()["subscriptions"]
        return subscription

    async def until_status(self, **wanted: Any) -> None:
        async def is_so() -> bool:
            return wanted.items() <= (await self.status()).items()

        await until(is_so, f"status {wanted}", turn=0.05)


def id_of(received: dict[str, Any]) -> int:
    return int(received["event"]["id"])


def token_of(received: dict[str, Any]) -> str:
    return received["broker_properties"]["lock_token"]


class ConsumerRecord:
    """A record of what all consumers did.

    Attributes:
        held: The key of each event that a consumer holds now, by its number.
        twice: Events that two consumers held at the same time.
        keys_twice: Keys of which two events were held at the same time.
        order: By key, the numbers of events in the order in which they were finished.
        finished: The count of finished events by verb.
    """

    def __init__(self) -> None:
        self.held: dict[int, str] = {}
        self.twice: list[int] = []
        self.keys_twice: list[str] = []
        self.order: defaultdict[str, list[int]] = defaultdict(list)
        self.finished: Counter[str] = Counter()

    def received(self, received: dict[str, Any]) -> None:
        number, key = id_of(received), received["event"]["source"]
        if number in self.held:
            self.twice.append(number)
        if key in self.held.values():
            self.keys_twice.append(key)
        self.held[number] = key

    def answered(self, received: dict[str, Any], verb: str) -> None:
        number, key = id_of(received), received["event"]["source"]
        del self.held[number]
        if verb != "release":
            self.finished[verb] += 1
            self.order[key].append(number)


class RandomConsumer:
    """A consumer that acknowledges most events, releases some and rejects some, at random."""

    def __init__(self, service: PullServiceProcess, account: ConsumerRecord, seed: int) -> None:
        self._service = service
        self._account = account
        self._random = random.Random(seed)

    async def run(self, finished: int) -> None:
        """Receive and answer until all consumers together have finished so many events."""
        while self._account.finished.total() < finished:
            for received in await self._page():
                await self._deal(received)

    async def _page(self) -> list[dict[str, Any]]:
        page = await self._service.receive(self._random.randint(1, 8), wait=1)
        for received in page:
            self._account.received(received)
        return page

    async def _deal(self, received: dict[str, Any]) -> None:
        verb = self._random.choices(["acknowledge", "release", "reject"], [8, 1, 1])[0]
        self._account.answered(
            received, verb
        )  # recorded before the request, because another consumer may then receive the event
        fates = await self._service.ask(verb, {"tokens": [token_of(received)]})
        assert fates["failed"] == []
