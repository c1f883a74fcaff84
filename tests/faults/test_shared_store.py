"""Several workers on one PostgreSQL store: a worker that stood still, and one that is gone with its disk.

The webhook's own account judges; each worker posts to a path of its own, so that it also says who did.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from delivery_installation import CONCURRENCY, Installation, Ledger, Service, numbered
from waiting import until
from webhook_target import Received, WebhookTarget

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.kafka,
    pytest.mark.postgres,
    pytest.mark.fault,
]

KEYS = 40
STUCK = {f"/k{number}" for number in range(8)}
IN_TIME = 240.0


class Doors:
    """Answers by the ledger's rule; ``stuck`` keys get 503. ``by``: worker to how many it brought."""

    def __init__(self, ledger: Ledger) -> None:
        self.stuck: set[str] = set()
        self.by: dict[str, int] = {}
        self._ledger = ledger
        ledger.busy = lambda request: request.header("ce-source") in self.stuck

    async def __call__(self, request: Received) -> bytes:
        name = request.path.rpartition("/")[2]
        self.by[name] = self.by.get(name, 0) + 1
        return await self._ledger(request)


@pytest.fixture
def doors(target: WebhookTarget, ledger: Ledger) -> Doors:
    target.answer = doors = Doors(ledger)
    return doors


@pytest.fixture
def dsn(postgres: str) -> str:
    return postgres


@pytest.fixture
def house(tmp_path: Path, kafka: str, dsn: str, target: WebhookTarget) -> Iterator[Installation]:
    broker = {"kind": "kafka", "bootstrap_servers": kafka, "session_timeout": "2s"}
    house = Installation(tmp_path, broker, target)
    house.store = {"kind": "postgresql", "dsn": dsn}
    house.schedule = ["20ms", "20ms", *["300ms"] * 400]
    house.hold = 2
    yield house
    house.close()


async def worker(house: Installation, target: WebhookTarget, name: str) -> Service:
    return await house.service(hook={"sink": f"{target.url}/{name}"})


def rows(dsn: str, house: Installation) -> list[tuple[str, int, int]]:
    """Of what is parked: source of its event, partition, epoch."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT event_source, partition, epoch FROM parked WHERE topic = %s", (house.topic,)
        )
        return found.fetchall()


async def parked(dsn: str, house: Installation, sources: set[str]) -> None:
    """Until there is a row of each of them."""
    async with asyncio.timeout(IN_TIME):
        while {source for source, _, _ in await asyncio.to_thread(rows, dsn, house)} != sources:
            await asyncio.sleep(0.05)


async def test_a_worker_that_stood_still_writes_nothing_stale_and_order_holds(
    house: Installation, target: WebhookTarget, ledger: Ledger, doors: Doors, dsn: str
) -> None:
    """Rule 5: stopped beyond its lease with keys parked, the other takes over; resumed, it must ask."""
    house.broker = {**house.broker, "session_timeout": "6s"}  # nothing else is to end an ownership
    doors.stuck = set(STUCK)
    one, other = await worker(house, target, "one"), await worker(house, target, "other")
    await one.until_owns(2)
    await other.until_owns(2)
    await one.publish(numbered(0, 400, KEYS))
    await parked(dsn, house, STUCK)
    await until(lambda: len(ledger.numbers) == 400 * 32 // 40, "keys that are not stuck delivered")
    async with asyncio.timeout(IN_TIME):
        while (await other.status())["lag"] != 0:  # of both: what is delivered is committed
            await asyncio.sleep(0.05)
    os.kill(one.process.pid, signal.SIGSTOP)
    await other.until_owns(4)
    await other.publish(numbered(400, 400, KEYS))
    doors.stuck.clear()
    brought = doors.by["one"]
    await until(lambda: len(ledger.numbers) >= 600, "the other drains what was parked", IN_TIME)
    assert doors.by["one"] == brought, "nobody else posts by its path"
    os.kill(one.process.pid, signal.SIGCONT)
    await one.until_owns(2)
    await other.publish(numbered(800, 400, KEYS))
    await until(lambda: len(ledger.numbers) == 1_200, "everything delivered", IN_TIME)
    assert ledger.out_of_order() == {}
    assert ledger.repeats <= CONCURRENCY, "only what was in flight"
    assert doors.by["one"] > brought, "it works again"
    async with asyncio.timeout(IN_TIME):
        while await asyncio.to_thread(rows, dsn, house):
            await asyncio.sleep(0.05)
    await one.stop()
    await other.stop()


async def lose_the_volume(
    house: Installation, target: WebhookTarget, doors: Doors, ledger: Ledger
) -> int:
    """A worker with parked keys is killed and its disk is gone; another begins anew. How many events
    never came."""
    doors.stuck = set(STUCK)
    first = await worker(house, target, "first")
    await first.publish(numbered(0, 400, KEYS))
    others = 400 * (KEYS - len(STUCK)) // KEYS
    await until(lambda: len(ledger.numbers) == others, "keys that are not stuck delivered")
    async with asyncio.timeout(IN_TIME):
        while (await first.status())["lag"] != 0:  # what is parked is settled and committed
            await asyncio.sleep(0.1)
    await first.kill()
    shutil.rmtree(first.folder)
    doors.stuck.clear()
    second = await worker(house, target, "second")
    await second.publish(numbered(400, 40, KEYS))
    await until(lambda: set(range(400, 440)) <= ledger.numbers, "what came later", IN_TIME)
    async with asyncio.timeout(IN_TIME):
        while (await second.status())["lag"] != 0 or await second.parked():
            await asyncio.sleep(0.1)
    await second.stop()
    return 440 - len(ledger.numbers)


async def test_a_worker_lost_with_its_disk_loses_nothing_on_postgresql(
    house: Installation, target: WebhookTarget, ledger: Ledger, doors: Doors
) -> None:
    assert await lose_the_volume(house, target, doors, ledger) == 0
    assert ledger.out_of_order() == {}


async def test_on_sqlite_a_lost_disk_costs_what_was_parked(
    house: Installation, target: WebhookTarget, ledger: Ledger, doors: Doors
) -> None:
    """The control, and what ``check`` and the guide of the store say."""
    house.store = {"kind": "sqlite", "path": "store.db"}
    assert await lose_the_volume(house, target, doors, ledger) == 400 * len(STUCK) // KEYS
