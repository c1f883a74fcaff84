"""Processes whose clocks are an hour apart, on one PostgreSQL: they take the time of day from its server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import shifted_clock
from delivery_installation import PATIENCE, Installation, Ledger, Service, numbered
from postgres_server import fresh_database
from pull_processes import PullServiceProcess, token_of
from waiting import until
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

KEYS, STUCK = 4, "/k3"
HOUR = 3600


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


@pytest.mark.rabbitmq
@pytest.mark.parametrize(
    ("first", "stepped", "second"),
    [
        pytest.param(HOUR, HOUR, 0, id="ahead", marks=pytest.mark.nightly),
        pytest.param(-HOUR, -HOUR, 0, id="behind", marks=pytest.mark.nightly),
        pytest.param(0, -HOUR, -HOUR, id="stepping back"),
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
    stuck = False
    await other.start()
    await until(lambda: len(ledger.numbers) == 60, "everything delivered")
    assert ledger.out_of_order() == {}
    await other.stop()


@pytest.mark.parametrize("off", [HOUR, pytest.param(-HOUR, marks=pytest.mark.nightly)])
async def test_a_pull_lock_ends_at_its_time_by_the_clock_of_every_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: str, off: int
) -> None:
    store = {"kind": "postgresql", "dsn": await asyncio.to_thread(fresh_database, postgres)}
    clock = tmp_path / "clock"
    clock.write_text(str(off))
    worker = PullServiceProcess(tmp_path / "worker", {"lock": "10m"}, store)
    other = PullServiceProcess(tmp_path / "other", {"lock": "10m"}, store, "gateway")
    async with contextlib.AsyncExitStack() as services:
        services.push_async_callback(worker.close)
        services.push_async_callback(other.close)
        await worker.start()
        monkeypatch.setenv(shifted_clock.VARIABLE, str(clock))
        await other.start()
        await worker.publish(numbered(0, 2, keys=2))
        await worker.until_status(waiting=2)
        (mine,) = await worker.receive(1)
        (its,) = await other.receive(1)
        assert mine["event"]["id"] != its["event"]["id"]
        assert [await each.receive() for each in (worker, other)] == [[], []]
        for service, received in ((other, mine), (worker, its)):
            answer = await service.ask("acknowledge", {"tokens": [token_of(received)]})
            assert answer["succeeded"] == [token_of(received)]


@pytest.mark.rabbitmq
@pytest.mark.nightly
@pytest.mark.parametrize("off", [HOUR, -HOUR])
async def test_a_request_to_try_now_reaches_the_worker_from_any_gateway(
    house: Installation,
    ledger: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    off: int,
) -> None:
    """A request that is older than a minute is void."""
    stuck = True
    ledger.busy = lambda request: stuck and request.header("ce-source") == STUCK
    house.schedule = ["24h"] * 2
    worker = await house.service()
    await worker.publish(numbered(0, 20, KEYS))
    await parked(worker, 5)
    clock = tmp_path / "clock"
    clock.write_text(str(off))
    monkeypatch.setenv(shifted_clock.VARIABLE, str(clock))
    house.arguments = ("--role", "gateway")
    gateway = await house.service()
    stuck = False
    url = f"http://127.0.0.1:{gateway.admin_port}/v1/subscriptions/hook:retry"
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        assert (await client.post(url)).status_code == 200
    await until(lambda: len(ledger.numbers) == 20, "everything delivered")
    assert ledger.out_of_order() == {}
