"""The process that delivers is killed again and again, from each broker: nothing lost, order per key kept,
no more repeats than rule 2 allows (reliability R4). The judge is the webhook's own account.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from app.routing.partitions import partition_of
from delivery_installation import CONCURRENCY, PATIENCE, Installation, Ledger, Service, numbered
from waiting import until
from webhook_target import Received, WebhookTarget

pytestmark = [pytest.mark.nightly, pytest.mark.fault]

SEED_OF_BUSY = 7  # every seventh request is answered 503: a kill also meets keys that wait


class Load(NamedTuple):
    events: int
    keys: int
    kills: int


SHORT = Load(events=600, keys=50, kills=1)
FULL = Load(events=20_000, keys=500, kills=20)


def housed(
    broker: str, folder: Path, target: WebhookTarget, request: pytest.FixtureRequest
) -> Installation:
    match broker:
        case "embedded":
            path = str(folder / "log")
            return Installation(folder, {"kind": "embedded", "path": path}, target)
        case "kafka":
            servers = request.getfixturevalue("kafka")
            settings = {"kind": "kafka", "bootstrap_servers": servers, "session_timeout": "6s"}
            return Installation(folder, settings, target)
        case "rabbitmq":
            address = request.getfixturevalue("rabbitmq")
            return Installation(folder, {"kind": "rabbitmq", "addresses": address}, target)
        case _:
            service, admin = request.getfixturevalue("pulsar")
            settings = {"kind": "pulsar", "service_url": service, "admin_url": admin}
            return Installation(folder, settings, target)


AT_LENGTH = ("rabbitmq", "pulsar")  # short forms: the kills of tests/e2e/test_delivery_*.py
BROKERS = [
    "embedded",
    pytest.param("kafka", marks=pytest.mark.kafka),
    *(
        pytest.param(name, marks=[getattr(pytest.mark, name), pytest.mark.nightly])
        for name in AT_LENGTH
    ),
]


@pytest.fixture(params=BROKERS)
def house(
    request: pytest.FixtureRequest, tmp_path: Path, target: WebhookTarget
) -> Iterator[Installation]:
    house = housed(request.param, tmp_path, target, request)
    yield house
    house.close()


class Gate:
    """Lets the target take ``most`` events and holds who brings more, so that a kill meets a service that
    delivers, however slow the machine. A gate that is shut takes nothing, so the broker's position moves no
    more. It shuts only when at most half of ``most`` is beyond that position: else a key that fell behind
    while it was answered busy would keep the position back for good, and nearly all could come again.
    Who was held when ``most`` grew is dead, and gets no answer."""

    def __init__(self, ledger: Ledger, load: Load, partitions: int) -> None:
        self.most = 0
        self.held = 0
        self._ledger = ledger
        self._orders: list[list[int]] = [[] for _ in range(partitions)]  # of each partition
        for number in range(load.events):
            key = b"k%d" % (number % load.keys)
            self._orders[partition_of(key, partitions)].append(number)
        self._positions = [0] * partitions

    @property
    def finished(self) -> int:
        """How many the broker has to know as finished at least, once it is shut."""
        return len(self._ledger.numbers) - (self.most - self.most // 2)

    def grow(self, most: int) -> None:
        self.most, self.held = most, 0

    async def __call__(self, request: Received) -> bytes | None:
        most = self.most
        if self._is_shut():
            self.held += 1
            while self.most == most:
                await asyncio.sleep(0.01)
            return None
        return await self._ledger(request)

    def _is_shut(self) -> bool:
        numbers = self._ledger.numbers
        for partition, order in enumerate(self._orders):
            at = self._positions[partition]
            while at < len(order) and order[at] in numbers:
                at += 1
            self._positions[partition] = at
        return len(numbers) >= self.most and sum(self._positions) >= self.finished


async def committed(service: Service, events: int, goal: int) -> int:
    """How many the broker knows as finished, when they are at least ``goal``: no kill repeats them."""
    async with asyncio.timeout(PATIENCE):
        while True:
            lag = (await service.status())["lag"]
            if lag is not None and events - lag >= goal:
                return events - lag
            await asyncio.sleep(0.02)


async def kill_while_delivering(
    house: Installation, target: WebhookTarget, ledger: Ledger, load: Load
) -> None:
    requests = 0
    arrived = lambda: len(ledger.numbers)  # noqa: E731

    def busy(_: object) -> bool:
        nonlocal requests
        requests += 1
        return requests % SEED_OF_BUSY == 0

    ledger.busy = busy
    target.answer = gate = Gate(ledger, load, house.partitions)
    service = await house.service()
    share = (load.events + 1) / (load.kills + 1)  # of each round; the last one holds nobody
    gate.grow(round(share))
    await service.publish(numbered(0, load.events, load.keys))
    may_repeat = 0
    for number in range(1, load.kills + 1):
        await until(lambda: gate.held > 0, f"held at {gate.most}", moved=arrived)
        finished = await committed(service, load.events, gate.finished)
        await service.kill()
        may_repeat += len(ledger.numbers) + CONCURRENCY - finished
        gate.grow(round(share * (number + 1)))
        await service.start()
    await until(lambda: arrived() == load.events, "everything delivered", moved=arrived)
    assert ledger.out_of_order() == {}
    print(f"{load.kills} kills, {ledger.repeats} repeats of at most {may_repeat}")
    assert ledger.repeats <= may_repeat
    await service.stop()


async def test_kills_while_delivering_lose_nothing_and_repeat_what_was_at_stake(
    house: Installation, target: WebhookTarget, ledger: Ledger
) -> None:
    await kill_while_delivering(house, target, ledger, SHORT)


@pytest.mark.nightly
@pytest.mark.timeout(0)  # each wait ends when nothing moves
async def test_twenty_kills_in_twenty_thousand_deliveries(
    house: Installation, target: WebhookTarget, ledger: Ledger
) -> None:
    await kill_while_delivering(house, target, ledger, FULL)
