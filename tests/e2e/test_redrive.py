"""Dead letters from the refusal to the delivery: the service as a process, its target on a real socket, the
verbs as a person types them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.cli import exits
from child_service import run
from configuration import configuration, route, subscription
from delivery_installation import numbered
from sending import BATCH
from service_process import ServiceProcess
from waiting import until
from webhook_target import Received, WebhookTarget, status

PATIENCE = 240.0  # a bound: every wait ends with its condition
KEYS = 10
CONCURRENCY = 16
OK = status(204)


class Account:
    """The target's own. ``refuse``: the status it answers to an event by its number; 204 for None."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.refuse: Callable[[int], int | None] = lambda _: None
        self.takes = 0.0

    async def __call__(self, request: Received) -> bytes:
        number = int(request.id)
        await asyncio.sleep(self.takes)
        if (refused := self.refuse(number)) is not None:
            return status(refused, body=b"not like this")
        assert json.loads(request.body) == {"n": number}
        self.taken.append((request.header("ce-source"), number))
        return OK

    @property
    def numbers(self) -> list[int]:
        return [number for _, number in self.taken]

    def by_key(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for key, number in self.taken:
            found[key].append(number)
        return found


class House:
    """One service in a folder; its target; its verbs."""

    def __init__(self, folder: Path, target: WebhookTarget, **retry: Any) -> None:
        self.folder = folder
        hook = subscription(
            "hook",
            target.url,
            handshake="ask",
            concurrency=CONCURRENCY,
            retry={"schedule": ["10ms", "10ms"], **retry},
            dead_letter={"broker": "log", "topic": "dead"},
        )
        settings = configuration(
            folder,
            installation="letters",
            store={"attempts": {"keep": "failures"}},
            brokers={"log": {"partitions": 4}},
            routes=[route(key={"mapper": "partitionkey", "missing": "reject"})],
            subscriptions=[hook],
            operator_events={"broker": "log", "topic": "operations"},
            timeouts={"webhook_connect": "60s", "drain": None},
        )
        self.process = ServiceProcess(settings, folder)
        self._events = f"{self.process.events_url}/events"
        self.admin = self.process.admin_url

    async def start(self) -> None:
        await asyncio.to_thread(self.process.start)

    async def kill(self) -> None:
        await asyncio.to_thread(self.process.kill)

    async def publish(self, first: int, count: int) -> None:
        batch = json.dumps(numbered(first, count, KEYS))
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.post(self._events, content=batch, headers=BATCH)
        assert answer.status_code == 202, answer.text

    async def get(self, path: str) -> Any:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get(f"{self.admin}{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def text(self, path: str) -> str:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            return (await client.get(f"{self.admin}{path}")).text

    async def process_ended(self) -> int:
        return await asyncio.to_thread(self.process.stop)

    async def post(self, path: str, body: Any = None) -> Any:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = await client.post(f"{self.admin}{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def cli(self, *words: str) -> str:
        code, out, err = await run(self.folder, *words, "--server", self.admin)
        assert code == exits.OK, err
        return out

    async def counts(self) -> dict[str, int]:
        found = (await self.get("/v1/dead-letters/count"))["counts"]
        return {one["cause"]: one["count"] for one in found}

    async def is_committed(self) -> bool:
        """Whether the log brings back nothing after a kill: positions are committed a moment after the letters."""
        found = await self.get("/v1/topics/log/events/offsets")
        return {each["lag"] for each in found["groups"]} == {0}

    async def redriven_rows(self) -> int:
        return sum(one["redriven"] for one in (await self.get("/v1/parked/count"))["counts"])

    async def operator_events(self) -> list[tuple[str, dict[str, Any]]]:
        page = await self.get("/v1/topics/log/operations/records?limit=1000")
        events = [message["event"] for message in page["messages"]]
        return [
            (event["type"].rpartition(".")[2], event["data"])
            for event in events
            if ".audit." not in event["type"]  # each look of this test is one
        ]


@pytest.fixture
def account(target: WebhookTarget) -> Account:
    target.answer = account = Account()
    return account


@pytest.fixture
async def house(tmp_path: Path, target: WebhookTarget) -> AsyncIterator[House]:
    house = House(tmp_path, target)
    await house.start()
    yield house
    if house.process.running:
        await house.kill()


async def letters_of(house: House, account: Account, total: int) -> list[int]:
    """Publishes, and waits until each event is delivered or a dead letter; the letters' numbers, in the
    order they were given up."""
    await house.publish(0, total)

    async def all_done() -> bool:
        dead = sum((await house.counts()).values())
        return dead + len(set(account.numbers)) == total

    await until(all_done, "each delivered or dead")
    page = await house.get("/v1/dead-letters?limit=1000")
    return [int(one["message"]["event"]["id"]) for one in reversed(page["dead_letters"])]


def refusing(number: int) -> int | None:
    """Every second for good, and every seventh until its schedule is used up."""
    if number % 2:
        return 415
    return 409 if number % 7 == 0 else None


async def test_a_mended_target_gets_every_letter_once_in_order_by_the_same_subscription(
    house: House, account: Account
) -> None:
    """The whole way, with its copies and its words to operators: same id, same data, order per key of the
    letters, nothing twice; then nothing is left anywhere (issue 6, 3)."""
    total = 300
    account.refuse = refusing
    dead = await letters_of(house, account, total)
    expected = {number for number in range(total) if refusing(number)}
    assert set(dead) == expected
    causes = Counter(str(refusing(number)) for number in expected)
    assert await house.counts() == {
        "status-415": causes["415"],
        "schedule-exhausted": causes["409"],
    }
    copies = await house.get("/v1/topics/log/dead/records?limit=1000&max_bytes=16000000")
    assert sorted(int(one["event"]["id"]) for one in copies["messages"]) == sorted(expected)

    account.refuse = lambda _: None
    account.taken.clear()
    out = await house.cli(
        "dead-letters", "redrive", "-s", "hook", "--rate", "500", "--yes", "--json"
    )
    assert json.loads(out) == {"redriven": len(expected), "left": 0, "dead_again": 0}
    assert Counter(account.numbers) == Counter(expected)
    for key, numbers in account.by_key().items():
        assert numbers == [number for number in dead if f"/k{number % KEYS}" == key]
    assert await house.counts() == {}
    assert (await house.get("/v1/parked"))["parked"] == []
    await _counts_add_up(house, len(expected))


@pytest.mark.nightly
async def test_an_unreachable_target_makes_no_dead_letter_of_a_single_key(
    house: House, account: Account, target: WebhookTarget
) -> None:
    """The schedule of this house lasts for 20 ms; a closed port uses nothing of it."""
    await target.stop()
    numbers = [number * KEYS for number in range(4)]
    for number in numbers:
        await house.publish(number, 1)

    async def unsent() -> list[Any]:
        return list((await house.get("/v1/attempts?outcome=unsent&limit=100"))["attempts"])

    async def tried_thrice() -> bool:
        return len(await unsent()) >= 3

    await until(tried_thrice, "three attempts that were not sent")
    (status,) = (await house.get("/status"))["subscriptions"]
    assert status["state"] == "paused"
    assert "the target cannot be reached: connect" in status["cause"]
    assert await house.counts() == {}
    await target.start()
    await until(lambda: len(account.taken) == len(numbers), "each is delivered")
    assert account.numbers == numbers
    assert await house.counts() == {}
    assert {each["number"] for each in await unsent()} == {1}


@pytest.mark.parametrize("commands", [1, pytest.param(2, marks=pytest.mark.nightly)])
async def test_letters_of_a_key_keep_their_order_through_a_retry(
    house: House, account: Account, commands: int
) -> None:
    """The first of each key is answered 503 once; the second command comes while it waits."""
    total = 4 * KEYS
    account.refuse = lambda _: 415
    await letters_of(house, account, total)
    letters = (await house.get("/v1/dead-letters?limit=1000"))["dead_letters"]
    ids = sorted(letter["id"] for letter in letters)
    tried: Counter[int] = Counter()

    def refuse(number: int) -> int | None:
        tried[number] += 1
        return 503 if number < KEYS and tried[number] == 1 else None

    account.refuse = refuse
    half = total // commands
    for first in range(0, total, half):
        chosen = {"subscription": "hook", "id": ids[first : first + half]}
        found = await house.post("/v1/dead-letters:redrive", {**chosen, "dry_run": False})
        assert found["redriven"] == half
    await until(lambda: len(account.taken) == total, "each is delivered")
    assert len(account.by_key()) == KEYS
    for numbers in account.by_key().values():
        assert numbers == sorted(numbers)


async def _counts_add_up(house: House, dead: int) -> None:
    async def told() -> bool:
        events = await house.operator_events()
        return dead == sum(data["count"] for kind, data in events if kind == "dead_lettered")

    await until(told, "operators told of each dead letter")
    events = await house.operator_events()
    assert len(events) < dead / 10, "a word a letter is a storm"


@pytest.mark.nightly
async def test_letters_of_parked_keys_have_their_copies_and_are_redriven(
    tmp_path: Path, target: WebhookTarget, account: Account
) -> None:
    """A row that becomes a letter has no log to come from again: its copy is there first (rule 2), and a
    redrive finds it like any other."""
    house = House(tmp_path, target, hold=0)
    await house.start()
    try:
        account.refuse = lambda number: 409 if number % 3 == 0 else None
        dead = await letters_of(house, account, 60)
        assert set(dead) == {number for number in range(60) if number % 3 == 0}
        metrics = await house.text("/metrics")
        assert "skybridge_parked_total{" in metrics
        copies = await house.get("/v1/topics/log/dead/records?limit=1000")
        assert sorted(int(one["event"]["id"]) for one in copies["messages"]) == sorted(dead)
        account.refuse = lambda _: None
        said = json.loads(await house.cli("dead-letters", "redrive", "--yes", "--json"))
        assert said == {"redriven": len(dead), "left": 0, "dead_again": 0}
        assert Counter(account.numbers) == Counter(range(60))
        assert await house.process_ended() == 0
    finally:
        if house.process.running:
            await house.kill()


@pytest.mark.nightly
async def test_a_rate_is_kept(house: House, account: Account) -> None:
    """A target that just came back is not run over."""
    account.refuse = lambda _: 415
    dead = await letters_of(house, account, 40)
    account.refuse = lambda _: None
    begun = time.monotonic()
    await house.cli("dead-letters", "redrive", "--rate", "20", "--yes")
    assert time.monotonic() - begun > 0.9 * (len(dead) - 1) / 20
    assert Counter(account.numbers) == Counter(dead)


async def test_what_fails_again_is_a_letter_again(house: House, account: Account) -> None:
    """Nothing is lost by a redrive that came too early; live events of the same keys go on."""
    account.refuse = lambda _: 415
    dead = await letters_of(house, account, 100)
    account.refuse = lambda number: 415 if number < 100 and number % 4 == 0 else None
    out = await house.cli("dead-letters", "redrive", "--yes", "--json")
    await house.publish(100, 50)
    again = [number for number in dead if number % 4 == 0]
    said = json.loads(out)
    assert (said["redriven"], said["left"], said["dead_again"]) == (100, 0, len(again))
    await until(lambda: len(account.taken) == 150 - len(again), "the others delivered")
    assert await house.counts() == {"status-415": len(again)}
    page = await house.get("/v1/dead-letters?limit=1000")
    assert {int(one["message"]["event"]["id"]) for one in page["dead_letters"]} == set(again)


def rows_left(house: House) -> int:
    """How many rows a killed service has left in its store."""
    with contextlib.closing(sqlite3.connect(house.folder / "store.db")) as store:
        [(count,)] = store.execute("SELECT count(*) FROM parked WHERE redriven").fetchall()
    return int(count)


@pytest.mark.nightly
async def test_a_redrive_survives_the_kill_of_its_worker(house: House, account: Account) -> None:
    """SIGKILL, twice, while letters are on their way: lost 0, order per key kept, repeats only of what was
    in flight, and of what was delivered and had its row still (rule 2: a row goes after its delivery). How
    many those are is the disk's to say."""
    account.refuse = lambda _: 415
    dead = await letters_of(house, account, 200)
    await until(house.is_committed, "committed")
    account.refuse, account.takes = (lambda _: None), 0.005
    answer = await house.post("/v1/dead-letters:redrive", {"dry_run": False, "rate": 200})
    assert answer["redriven"] == len(dead)
    at_stake = 0
    for goal in (50, 100):
        await until(lambda goal=goal: len(set(account.numbers)) >= goal, f"{goal} delivered")
        await house.kill()
        undelivered = len(dead) - len(set(account.numbers))
        at_stake += CONCURRENCY + rows_left(house) - undelivered
        await house.start()
    await until(lambda: set(account.numbers) == set(dead), "all delivered")

    async def none_left() -> bool:
        return await house.redriven_rows() == 0

    await until(none_left, "no row left")
    assert len(account.numbers) - len(dead) <= at_stake
    for key, numbers in account.by_key().items():
        firsts = list(dict.fromkeys(numbers))
        assert firsts == [number for number in dead if f"/k{number % KEYS}" == key]
    assert await house.counts() == {}


async def test_letters_of_a_disabled_subscription_wait_until_it_is_resumed(
    house: House, account: Account
) -> None:
    """410: its event is unfinished and no dead letter; letters that are redriven meanwhile wait with it,
    and operators are told both times (W5)."""
    account.refuse = lambda number: 410 if number == 40 else 415
    await letters_of(house, account, 40)
    await house.publish(40, 1)

    async def disabled() -> bool:
        (one,) = (await house.get("/status"))["subscriptions"]
        return one["state"] == "disabled"

    await until(disabled, "disabled")
    said = json.loads(await house.cli("dead-letters", "redrive", "--yes", "--json"))
    assert (said["redriven"], said["left"]) == (40, 40)
    assert account.numbers == []
    account.refuse = lambda _: None
    await house.post("/v1/subscriptions/hook:resume")
    await until(lambda: set(account.numbers) == set(range(41)), "all delivered")
    assert Counter(account.numbers) == Counter(range(41))

    async def told() -> bool:
        kinds = [kind for kind, _ in await house.operator_events()]
        return {"disabled", "enabled"} <= set(kinds)

    await until(told, "operators told")


async def test_attempts_outlive_the_process_and_hold_no_data(
    house: House, account: Account
) -> None:
    """Why did it not arrive, asked after a restart; the log of attempts names the event and no more."""
    account.refuse = lambda number: 409 if number == 7 else None
    await letters_of(house, account, 10)

    async def stored() -> bool:
        out = await house.cli("attempts", "--event", "7", "--json")
        return len(out.splitlines()) == 3

    await until(stored, "three attempts")
    assert await house.process_ended() == 0
    await house.start()
    lines = [json.loads(line) for line in (await house.cli("attempts", "--json")).splitlines()]
    tried = [
        (one["number"], one["outcome"], one["status"]) for one in lines if one["event"]["id"] == "7"
    ]
    assert sorted(tried) == [(1, "retry", 409), (2, "retry", 409), (3, "dead-letter", 409)]
    assert len([one for one in lines if one["outcome"] == "delivered"]) == 1
    assert '"n":' not in json.dumps(lines)
    (letter,) = (await house.get("/v1/dead-letters"))["dead_letters"]
    history = (await house.get(f"/v1/dead-letters/{letter['id']}"))["history"]
    assert [one["number"] for one in history] == [3, 2, 1]
