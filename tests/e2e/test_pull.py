"""Consumers that fetch their events from a real service, which is killed, full, and not alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from delivery_installation import numbered
from postgres_server import fresh_database
from pull_processes import (
    PATIENCE,
    ConsumerRecord,
    PullServiceProcess,
    RandomConsumer,
    id_of,
    token_of,
)

Start = Callable[..., Any]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    services: list[PullServiceProcess] = []

    async def started(**settings: Any) -> PullServiceProcess:
        service = PullServiceProcess(tmp_path / f"service-{len(services)}", **settings)
        services.append(service)
        await service.start()
        return service

    yield started
    for service in services:
        await service.close()


async def letters(service: PullServiceProcess) -> list[dict[str, Any]]:
    answer = await service.http.get(f"{service.admin}/v1/dead-letters", params={"limit": 1000})
    found = answer.json()
    return found if isinstance(found, list) else found["dead_letters"]


async def account_of(consumers: list[PullServiceProcess], events: int) -> ConsumerRecord:
    account = ConsumerRecord()
    async with asyncio.timeout(PATIENCE * 2):
        await asyncio.gather(
            *(
                RandomConsumer(each, account, seed).run(events)
                for seed, each in enumerate(consumers)
            )
        )
    return account


@pytest.mark.nightly
async def test_many_consumers_share_the_work(start: Start) -> None:
    """No event is in two hands, nor two of a key; each key is finished in its order; and all that was
    accepted was acknowledged, is a dead letter, or waits."""
    service = await start(pull={"lock": "60s", "max_deliveries": 100})
    await service.publish(numbered(0, 200, keys=12))
    account = await account_of([service] * 4, 200)
    assert (account.twice, account.keys_twice) == ([], [])
    assert all(numbers == sorted(numbers) for numbers in account.order.values())
    dead = await letters(service)
    assert account.finished["acknowledge"] + len(dead) == 200
    assert {each["cause"] for each in dead} == {"rejected"}
    assert await service.receive() == []


async def taken(service: PullServiceProcess, count: int) -> list[dict[str, Any]]:
    """So many, however many answers it takes."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            found += await service.receive(count - len(found), wait=5)
    return found


async def test_a_kill_between_receive_and_acknowledge_loses_nothing(start: Start) -> None:
    """Locks and counts are in the store: they outlive the process that gave them."""
    service = await start(pull={"lock": "10m"})
    await service.publish(numbered(0, 3, keys=3))
    one, two, three = await taken(service, 3)
    await service.kill()
    await service.start()
    await service.until_status(state="running", lag=3)  # all three are in the queue, locked
    assert (await service.ask("acknowledge", {"tokens": [token_of(one)]}))["succeeded"]
    assert await service.receive() == []
    assert (await service.ask("release", {"tokens": [token_of(two)]}))["succeeded"]
    (again,) = await taken(service, 1)
    assert id_of(again) == id_of(two)
    assert again["broker_properties"]["delivery_count"] == 2
    lost = await service.ask("acknowledge", {"tokens": [token_of(two), token_of(three)]})
    assert [each["code"] for each in lost["failed"]] == ["lock-lost"]
    assert lost["succeeded"] == [token_of(three)]


async def test_a_lock_that_ran_out_hands_the_event_to_the_next(start: Start) -> None:
    """With its count; and the rest of its key waits behind it all the while."""
    service = await start(pull={"lock": "1s", "max_deliveries": 2})
    await service.publish(numbered(0, 2, keys=1))
    for count in (1, 2):
        (received,) = await taken(service, 1)
        assert (id_of(received), received["broker_properties"]["delivery_count"]) == (0, count)
    (received,) = await taken(service, 1)
    assert id_of(received) == 1
    (letter,) = await letters(service)
    assert (letter["cause"], letter["attempts"]) == ("max-deliveries", 2)


async def test_who_waits_is_served_at_once(start: Start) -> None:
    """Not at the next look."""
    service = await start(pull={})
    waiting = asyncio.create_task(service.receive(wait=30))
    await asyncio.sleep(0)
    await service.publish(numbered(0, 1, keys=1))
    assert [id_of(each) for each in await asyncio.wait_for(waiting, PATIENCE)] == [0]


async def test_whoever_hung_up_is_given_nothing(start: Start) -> None:
    """An event would be locked for nobody."""
    service = await start(pull={})
    with contextlib.suppress(Exception):
        await asyncio.wait_for(service.receive(wait=30), 1)
    await service.publish(numbered(0, 1, keys=1))
    (received,) = await taken(service, 1)
    assert received["broker_properties"]["delivery_count"] == 1


async def test_at_the_bound_the_log_is_the_buffer(start: Start) -> None:
    """No more than max_waiting are copied; as they leave, the others follow."""
    service = await start(pull={"max_waiting": 10})
    await service.publish(numbered(0, 50, keys=50))
    await service.until_status(waiting=10, state="paused", lag=50)
    found: list[int] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < 50:
            page = await service.receive(7, wait=5)
            assert len(page) <= 10
            found += map(id_of, page)
            await service.ask("acknowledge", {"tokens": [token_of(each) for each in page]})
    assert sorted(found) == list(range(50))


async def test_a_waiting_consumer_does_not_hold_up_a_stop(start: Start) -> None:
    """Rule 11: requests that wait, and streams, end when the service leaves."""
    service = await start(pull={})
    waiting = asyncio.create_task(service.receive(wait=60))
    stream = asyncio.create_task(service.http.get(f"{service.verbs}/events"))
    await service.until_status(state="running")
    assert await asyncio.to_thread(service.process.stop) == 0
    assert await asyncio.wait_for(waiting, PATIENCE) == []
    assert (await asyncio.wait_for(stream, PATIENCE)).text.startswith("retry:")


async def watched(service: PullServiceProcess, events: int, last: str) -> tuple[list[str], str]:
    """So many events of the stream, and the id of the last of them."""
    seen: list[str] = []
    url, headers = f"{service.verbs}/events?start=earliest", {"last-event-id": last}
    async with (
        asyncio.timeout(PATIENCE),
        service.http.stream("GET", url, headers=headers if last else {}) as answer,
    ):
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                last = line[4:]
            elif line.startswith("data: "):
                seen.append(line)
            if len(seen) == events:
                break
    return seen, last


@pytest.mark.nightly
async def test_a_stream_goes_on_behind_what_came_last(start: Start) -> None:
    """Exactly, over a kill of the service; nobody's position moves by it."""
    service = await start(pull={})
    await service.publish(numbered(0, 30, keys=5))
    seen, last = await watched(service, 12, "")
    await service.kill()
    await service.start()
    more, _ = await watched(service, 18, last)
    assert len({*seen, *more}) == len(seen) + len(more) == 30
    await service.until_status(waiting=30)
    assert len(await service.receive(wait=5)) == 5


@pytest.mark.rabbitmq
async def test_what_lies_in_a_queue_is_pulled(start: Start, rabbitmq: str) -> None:
    """Its messages have no lasting places: what a kill leaves unacknowledged comes again, and is handed
    out again behind what was there. Nothing is lost, and first deliveries keep the order of their key."""
    topics = {"create": True, "partitions": 2}
    broker = {"kind": "rabbitmq", "addresses": rabbitmq, "topics": topics}
    service = await start(pull={"lock": "10m", "max_waiting": 40}, broker=broker)
    await service.publish(numbered(0, 120, keys=6))
    found: list[int] = []
    async with asyncio.timeout(PATIENCE * 2):
        while len(set(found)) < 120:
            for received in await service.receive(wait=5):
                found.append(id_of(received))
                await service.ask("acknowledge", {"tokens": [token_of(received)]})
            if 50 < len(set(found)) < 60:
                await service.kill()
                await service.start()
    for key in range(6):
        firsts = [number for number in dict.fromkeys(found) if number % 6 == key]
        assert firsts == sorted(firsts)


@pytest.mark.postgres
@pytest.mark.nightly
async def test_two_processes_share_one_store(start: Start, postgres: str) -> None:
    """What one of them offered the other hands out; no event is in two hands. Nothing of it is in the
    memory of a process: the one that handed out may be gone when it is acknowledged."""
    store = {"kind": "postgresql", "dsn": await asyncio.to_thread(fresh_database, postgres)}
    pull = {"lock": "60s", "max_deliveries": 100}
    worker = await start(pull=pull, store=store)
    other = await start(pull=pull, store=store, role="gateway")
    await worker.publish(numbered(0, 120, keys=12))
    (first,) = await taken(other, 1)
    assert (await worker.ask("release", {"tokens": [token_of(first)]}))["succeeded"]
    account = await account_of([worker, other] * 2, 120)
    assert (account.twice, account.keys_twice) == ([], [])
    assert all(numbers == sorted(numbers) for numbers in account.order.values())
    assert account.finished["acknowledge"] + len(await letters(worker)) == 120
