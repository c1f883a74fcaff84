"""Two processes whose clocks differ, on one RabbitMQ and one PostgreSQL: order per key knows no clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import shifted_clock
from delivery_installation import PATIENCE, Installation, Ledger, Service, numbered
from postgres_server import fresh_database
from waiting import until
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.rabbitmq, pytest.mark.postgres, pytest.mark.fault]

KEYS, STUCK = 4, "/k3"
MINUTE = 60


@pytest.fixture
def house(
    tmp_path: Path, rabbitmq: str, postgres: str, target: WebhookTarget
) -> Iterator[Installation]:
    house = Installation(tmp_path, {"kind": "rabbitmq", "addresses": rabbitmq}, target)
    house.store = {"kind": "postgresql", "dsn": fresh_database(postgres)}
    house.schedule, house.hold = ["300ms"] * 2_000, 0
    yield house
    house.close()


async def parked(service: Service, count: int) -> None:
    """Until so many events of the key are rows and settled; one that was settled late is there twice."""
    async with asyncio.timeout(PATIENCE):
        while await service.parked() < count:
            await asyncio.sleep(0.05)
    await service.until_no_lag()


@pytest.mark.parametrize(
    ("first", "stepped", "second"),
    [
        pytest.param(MINUTE, MINUTE, 0, id="ahead", marks=pytest.mark.nightly),
        pytest.param(-MINUTE, -MINUTE, 0, id="behind", marks=pytest.mark.nightly),
        pytest.param(0, -MINUTE, -MINUTE, id="stepping back"),
    ],
)
async def test_a_key_that_a_process_parked_comes_in_order_by_any_clock_of_the_next(
    house: Installation,
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: int,
    stepped: int,
    second: int,
) -> None:
    """Rule 5: the worker that parked it dies, later events of the key come to another one."""
    stuck = True
    ledger.busy = lambda request: stuck and request.header("ce-source") == STUCK
    clock = tmp_path / "clock"
    clock.write_text(str(first))
    monkeypatch.setenv(shifted_clock.VARIABLE, str(clock))
    one = await house.service()
    await one.publish(numbered(0, 20, KEYS))
    await parked(one, 5)
    clock.write_text(str(stepped))
    await one.publish(numbered(20, 20, KEYS))
    await parked(one, 10)
    await one.kill()
    clock.write_text(str(second))
    other = await house.service()
    await other.publish(numbered(40, 20, KEYS))
    await parked(other, 15)
    await other.kill()
    clock.write_text(str(max(first, second)))  # so that nothing waits for its time
    stuck = False
    await other.start()
    await until(lambda: len(ledger.numbers) == 60, "everything delivered")
    assert ledger.out_of_order() == {}
    await other.stop()
