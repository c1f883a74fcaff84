"""Many subscriptions of one embedded log in a real process, some slow, some failing, killed
twice: each gets all that it wants, in the order of its keys, and nothing else.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from delivery_installation import BUSY, OK, PATIENCE, Installation, Service, numbered
from waiting import until
from webhook_target import Received, WebhookTarget

pytestmark = [pytest.mark.nightly, pytest.mark.fault]

SHORT, MANY = 30, 300
KINDS = 12
KEYS = 20
EVENTS = 120  # of each of the three parts
FAILING = frozenset({"exact-1", "prefix-13"})


def kind(number: int) -> str:
    return f"com.example.k{number % KINDS}"


def events(first: int) -> list[dict[str, Any]]:
    return [{**event, "type": kind(int(event["id"]))} for event in numbered(first, EVENTS, KEYS)]


def rule(number: int) -> tuple[str, dict[str, Any]]:
    """The name and the filter of a subscription: 26 of them want something."""
    if number < KINDS:
        return f"exact-{number}", {"exact": {"type": kind(number)}}
    if number < 2 * KINDS:
        return f"prefix-{number}", {"prefix": {"type": kind(number)}}
    if number < 2 * KINDS + 2:
        return f"source-{number}", {"suffix": {"source": "7"}}
    return f"never-{number}", {"exact": {"type": f"never.{number}"}}


def wants(number: int, event: int) -> bool:
    if number < KINDS:
        return event % KINDS == number
    if number < 2 * KINDS:  # k1 is a prefix of k10 and k11
        return kind(event).startswith(kind(number))
    return number < 2 * KINDS + 2 and f"/k{event % KEYS}".endswith("7")


class Account:
    """What each subscription was given, by the path it is called under, with the key of each."""

    def __init__(self) -> None:
        self.dice = random.Random(5)
        self.taken: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.total = 0

    def __call__(self, request: Received) -> bytes:
        name = request.path.rpartition("/")[2]
        if name in FAILING and self.dice.random() < 0.3:
            return BUSY
        self.taken[name].append((request.header("ce-source"), int(request.id)))
        self.total += 1
        return OK

    def different(self, name: str) -> set[int]:
        return {number for _, number in self.taken[name]}

    def out_of_order(self, name: str) -> bool:
        firsts: dict[str, list[int]] = defaultdict(list)
        for key, number in dict.fromkeys(self.taken[name]):
            firsts[key].append(number)
        return any(numbers != sorted(numbers) for numbers in firsts.values())


@pytest.fixture
def account(target: WebhookTarget) -> Account:
    target.answer = account = Account()
    return account


@pytest.fixture
def house(tmp_path: Path, target: WebhookTarget) -> Iterator[Installation]:
    house = Installation(tmp_path, {"kind": "embedded", "path": "log"}, target)
    yield house
    house.close()


async def subscriptions(service: Service) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
        answer = await client.get(f"http://127.0.0.1:{service.admin_port}/status")
    found: list[dict[str, Any]] = answer.json()["subscriptions"]
    return found


async def all_run(service: Service, many: int) -> None:
    """Wait until all subscriptions run and own partitions."""
    count = 0

    async def running() -> bool:
        nonlocal count
        found = await subscriptions(service)
        count = sum(one["state"] == "running" and len(one["partitions"]) > 0 for one in found)
        return count == many

    await until(running, f"{many} running", turn=0.1, moved=lambda: count)


@pytest.mark.parametrize("many", [SHORT, pytest.param(MANY, marks=pytest.mark.nightly)])
async def test_two_kills_lose_nothing_of_any_of_them(
    house: Installation, target: WebhookTarget, account: Account, many: int
) -> None:
    """They share one reading; a kill must find each where it was (rules 2 and 3)."""
    named = [rule(number) for number in range(many)]
    expected: dict[str, set[int]] = {
        name: {event for event in range(3 * EVENTS) if wants(number, event)}
        for number, (name, _) in enumerate(named)
    }
    sinks = {
        name: {"sink": f"{target.url}/{name}", "filters": [filter_]} for name, filter_ in named
    }
    service = await house.service(**sinks)
    await all_run(service, many)
    for part in range(3):
        before = account.total
        await service.publish(events(part * EVENTS))
        if part < 2:
            await until(lambda before=before: account.total > before + EVENTS, "a part of it")
            await service.kill()
            await service.start()

    def missing() -> dict[str, set[int]]:
        gaps = {name: wanted - account.different(name) for name, wanted in expected.items()}
        return {name: gap for name, gap in gaps.items() if gap}

    await until(lambda: not missing(), "everything delivered", moved=lambda: account.total)
    for name, wanted in expected.items():
        assert account.different(name) == wanted
        assert not account.out_of_order(name)
    repeats = Counter({name: len(taken) for name, taken in account.taken.items()})
    repeats.subtract({name: len(wanted) for name, wanted in expected.items()})
    assert sum(repeats.values()) < account.total / 2, "what a commit has covered does not repeat"
    await service.stop()
    total = account.total
    await service.start()
    await all_run(service, many)
    assert account.total == total, "nothing repeats after an orderly end"
    await service.stop()
