"""Two workers share the membership of one Kafka topic, with their positions in one PostgreSQL (ADR 0055): kills, a store
that is away, moves and growth lose nothing. The judge is the webhook's own account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from kafka_librdkafka import add_partitions
from postgres_server import PostgresServer, fresh_database
from service_process import ServiceProcess
from sharing_service import Account, Load, send, settings_of, until_read
from waiting import until
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.fault]

SHORT = Load(subscriptions=5, events=200, keys=10, kills=1)
FULL = Load(subscriptions=200, events=20_000, keys=100, kills=10)
MOVES = Load(subscriptions=5, events=200, keys=10, kills=0)
AWAY = 30.0  # seconds
PARTITIONS = 4


class Workers:
    """Two workers of one installation, and the account of the webhook that they call.

    Attributes:
        account: What the webhook received.
        topic: The topic that all subscriptions read.
        pair: The workers. Both accept events.
    """

    def __init__(self, folder: Path, kafka: str, dsn: str, load: Load) -> None:
        self.account = Account(load)
        self.topic = f"t-{uuid4().hex[:12]}"
        self.pair: list[ServiceProcess] = []
        self._target = WebhookTarget(self.account)
        self._folder, self._kafka, self._dsn, self._load = folder, kafka, dsn, load
        self._installation = f"i-{uuid4().hex[:12]}"

    async def start(self) -> None:
        await self._target.start()
        for name in ("one", "other"):
            folder = self._folder / name
            folder.mkdir()
            self.pair.append(ServiceProcess(self._settings(folder, "topic"), folder))
            await asyncio.to_thread(self.pair[-1].start)
        await self.until_shared()

    async def end(self) -> None:
        for each in self.pair:
            with each.ended():
                """Kill it if it still runs."""
        await self._target.stop()

    async def publish(self, first: int, end: int) -> None:
        """Send events through a worker that runs."""
        running = next(each for each in self.pair if each.running)
        await send(running, self._load, range(first, end))

    async def deliver_some(self, first: int, end: int) -> None:
        """Send events, and wait until as many deliveries as half of them were received."""
        goal = self.account.count + (end - first) // 2
        await self.publish(first, end)
        await until(partial(self.account.has, goal), "deliveries", moved=lambda: self.account.count)

    async def until_complete(self, end: int) -> None:
        """Wait until all subscriptions have received their events before ``end``."""
        wanted = sum(e < end for name in self.account.names for e in self.account.wanted(name))
        await until(
            lambda: sum(len(self.account.had(name)) for name in self.account.names) >= wanted,
            f"all events before {end}",
            moved=lambda: self.account.count,
        )

    async def kill(self, number: int) -> None:
        await asyncio.to_thread(self.pair[number].kill)

    async def start_again(self, number: int) -> None:
        await asyncio.to_thread(self.pair[number].start)

    async def move(self, number: int, sharing: str) -> None:
        """Reload one worker with another value of ``sharing``."""
        worker = self.pair[number]
        settings = self._settings(worker.folder, sharing)
        worker.settings = {**settings, "server": worker.settings["server"]}
        worker.write()
        answer = await asyncio.to_thread(worker.ask, "POST", "/v1/config:reload")
        assert answer[0] == 200, answer

    async def until_shared(self) -> None:
        """Wait until each worker owns half of the partitions."""
        for number in range(len(self.pair)):
            await self.until_owns(number, PARTITIONS // 2)

    async def until_owns(self, number: int, *counts: int) -> None:
        """Wait until a worker owns one of these numbers of partitions."""

        async def owns() -> bool:
            return await asyncio.to_thread(self._owned, number) in counts

        await until(owns, f"one of {counts} partitions", turn=0.1)

    def _owned(self, number: int) -> int:
        subscriptions = self.pair[number].get("/status")["subscriptions"]
        return len(next(each for each in subscriptions if each["id"] == "s0")["partitions"])

    def _settings(self, folder: Path, sharing: str) -> dict[str, object]:
        store = {"path": None, "kind": "postgresql", "dsn": self._dsn}
        return settings_of(
            *(folder, self._kafka, self.topic, self._target.url, self._load, sharing),
            installation=self._installation,
            store=store,
        )


@asynccontextmanager
async def workers(folder: Path, kafka: str, dsn: str, load: Load) -> AsyncIterator[Workers]:
    made = Workers(folder, kafka, fresh_database(dsn), load)
    try:
        await made.start()
        yield made
    finally:
        await made.end()


async def kill_one_after_the_other(pair: Workers, load: Load) -> None:
    """Kill the workers in turn, each while both deliver."""
    each = load.events // (load.kills + 1)
    for kill in range(load.kills):
        await pair.deliver_some(kill * each, (kill + 1) * each)
        await pair.kill(kill % 2)
        await pair.start_again(kill % 2)
    await pair.publish(load.kills * each, load.events)
    await pair.until_complete(load.events)
    assert pair.account.in_order()


async def test_the_kill_of_a_worker_loses_nothing(
    kafka: str, postgres: str, tmp_path: Path
) -> None:
    """Reliability R4: the other worker takes over, and the order of keys holds."""
    async with workers(tmp_path, kafka, postgres, SHORT) as pair:
        await kill_one_after_the_other(pair, SHORT)


@pytest.mark.nightly
async def test_many_kills_of_workers_lose_nothing(
    kafka: str, postgres: str, tmp_path: Path
) -> None:
    async with workers(tmp_path, kafka, postgres, FULL) as pair:
        await kill_one_after_the_other(pair, FULL)


@pytest.mark.nightly
async def test_a_store_that_is_away_loses_nothing(
    kafka: str, own_postgres: PostgresServer, tmp_path: Path
) -> None:
    """Deliveries go on meanwhile, and positions are stored later. One worker is killed in this time, so the other one
    takes its partitions over as soon as the store is back."""
    load = SHORT
    async with workers(tmp_path, kafka, own_postgres.dsn, load) as pair:
        await pair.deliver_some(0, load.events // 2)
        await asyncio.to_thread(own_postgres.kill)
        await pair.publish(load.events // 2, load.events)
        await pair.kill(1)
        await asyncio.sleep(AWAY)
        await asyncio.to_thread(own_postgres.restart)
        await pair.until_complete(load.events)
        await pair.start_again(1)
        await until_read(pair.pair[0], pair.account.names)
        assert pair.account.in_order()


@pytest.mark.nightly
async def test_workers_that_move_one_after_the_other_repeat_nothing(
    kafka: str, postgres: str, tmp_path: Path
) -> None:
    """While the first worker has moved its subscriptions to groups of their own, the second one gets the whole shared
    group. It must not begin there again: the positions are gone."""
    load = MOVES
    async with workers(tmp_path, kafka, postgres, load) as pair:
        await pair.publish(0, load.events // 2)
        await pair.until_complete(load.events // 2)
        await until_read(pair.pair[0], pair.account.names)
        await pair.move(0, "none")
        await pair.until_owns(1, 0, PARTITIONS)
        await pair.until_owns(0, PARTITIONS)
        await pair.publish(load.events // 2, load.events)
        await pair.until_complete(load.events)
        await pair.move(1, "none")
        await pair.until_shared()
        assert pair.account.repeats == 0
        assert pair.account.in_order()


@pytest.mark.nightly
async def test_partitions_that_are_added_lose_nothing(
    kafka: str, postgres: str, tmp_path: Path
) -> None:
    """The order of keys does not hold then, because their partitions change."""
    load = SHORT
    async with workers(tmp_path, kafka, postgres, load) as pair:
        await pair.publish(0, load.events // 2)
        await asyncio.to_thread(add_partitions, kafka, pair.topic, 2 * PARTITIONS)
        await pair.publish(load.events // 2, load.events)
        await pair.until_complete(load.events)
