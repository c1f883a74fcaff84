"""Many endpoints that fail at random: every accepted event is delivered, waits, or was given up with its cause
(reliability R5). The account is the endpoints' own, against what the API tells.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from configuration import configuration, route, subscription
from sending import BATCH
from service_process import ServiceProcess
from waiting import PATIENCE, until
from webhook_target import Received, WebhookTarget, status

pytestmark = [pytest.mark.nightly, pytest.mark.fault]

KEYS = 20  # of each endpoint
PATIENT = (
    10  # every tenth endpoint has a schedule that is long enough for events to wait at the end
)
HOPELESS = {
    0,
    1,
}  # early ones: at the end each of their attempts would be a probe after a longer pause
SHORT_WAITS = ["50ms", "100ms", "200ms", "300ms", "500ms"]
FIRST_WAITS = ["50ms", "100ms"]
LONG_WAITS = [*FIRST_WAITS, *["24h"] * 50]  # each time it is enabled, one is not waited out
TIMEOUT = 1.0


class Load(NamedTuple):
    endpoints: int
    events: int


SHORT = Load(endpoints=5, events=250)
FULL = Load(endpoints=50, events=20_000)


class Endpoints:
    """30 % 500, 5 % time-outs, 5 % closed connections, 2 % 429 with Retry-After, 1 % 410, else 204; and
    one event of an impatient endpoint and one of the patient one get nothing but 500, so that something is
    given up and something waits for certain.
    """

    def __init__(self, load: Load) -> None:
        self._dice = random.Random(load.events)
        self.taken: list[tuple[str, int]] = []
        self.answers: Counter[str] = Counter()

    async def __call__(self, request: Received) -> bytes | None:
        roll = self._dice.random()
        if roll < 0.30 or int(request.id) in HOPELESS:
            return self._answer("500", status(500))
        if roll < 0.35:
            await asyncio.sleep(TIMEOUT * 1.5)
            return self._answer("late", None)
        if roll < 0.40:
            return self._answer("closed", None)
        if roll < 0.42:
            return self._answer("429", status(429, "Retry-After: 1"))
        if roll < 0.43:
            return self._answer("410", status(410))
        self.taken.append((request.header("ce-source"), int(request.id)))
        return self._answer("204", status(204))

    def _answer(self, name: str, answer: bytes | None) -> bytes | None:
        self.answers[name] += 1
        return answer

    def out_of_order(self) -> list[str]:
        newest: dict[str, int] = {}
        broken = []
        for source, number in dict.fromkeys(self.taken):
            if number < newest.get(source, -1):
                broken.append(f"{source}: {number} after {newest[source]}")
            newest[source] = number
        return broken


def settings(folder: Path, load: Load, url: str) -> dict[str, Any]:
    return configuration(
        folder,
        installation="random",
        store={"attempts": {"keep": "all"}},  # also what was heard to be taken
        brokers={"log": {"partitions": 4}},
        routes=[route(key={"mapper": "partitionkey"})],
        subscriptions=[
            subscription(
                f"endpoint-{number}",
                f"{url}/{number}",
                filters=[{"exact": {"type": f"com.example.t{number}"}}],
                timeout=f"{TIMEOUT:g}s",
                retry={"schedule": SHORT_WAITS if number % PATIENT else LONG_WAITS, "hold": 2},
            )
            for number in range(load.endpoints)
        ],
        timeouts={"store": None, "publish": None, "drain": None},
    )


def made(first: int, load: Load) -> list[dict[str, Any]]:
    """Event ``n`` is for endpoint ``n`` modulo their number; its source is its key."""
    found = []
    for number in range(first, min(first + 500, load.events)):
        endpoint = number % load.endpoints
        key = f"e{endpoint}-k{number // load.endpoints % KEYS}"
        found.append(
            {
                "specversion": "1.0",
                "id": str(number),
                "source": f"/{key}",
                "type": f"com.example.t{endpoint}",
                "partitionkey": key,
                "data": {"n": number},
            }
        )
    return found


class Operator:
    """Asks the API, and enables what a 410 has disabled."""

    def __init__(self, admin: str) -> None:
        self._client = httpx.AsyncClient(base_url=admin, trust_env=False, timeout=PATIENCE)
        self.enabled = 0

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Asked again as long as the answer is 503: a store on a busy machine may be slow to answer."""
        while (answer := await self._client.request(method, path, **more)).status_code == 503:
            await asyncio.sleep(0.2)
        assert answer.is_success, answer.text
        return answer

    async def subscriptions(self) -> list[dict[str, Any]]:
        return (await self.ask("GET", "/status")).json()["subscriptions"]

    async def enable_for_ever(self) -> None:
        while True:
            for each in await self.subscriptions():
                if each["state"] == "disabled":
                    await self.ask("POST", f"/v1/subscriptions/{each['id']}:resume")
                    self.enabled += 1
            await asyncio.sleep(0.2)

    async def pages(self, path: str, member: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        following: str | None = f"{path}?limit=1000"
        while following is not None:
            page = (await self.ask("GET", following)).json()
            found += page[member]
            following = page["next"]
        return found

    async def heard(self, event_id: int) -> int:
        """Return how many attempts of this event the service heard to be taken."""
        asked = {"event_id": str(event_id), "limit": "1000"}
        answer = (await self.ask("GET", "/v1/attempts", params=asked)).json()
        return sum(each["status"] == 204 for each in answer["attempts"])

    async def close(self) -> None:
        await self._client.aclose()


async def account(load: Load, target: WebhookTarget, folder: Path) -> None:
    target.answer = endpoints = Endpoints(load)
    process = ServiceProcess(settings(folder, load, target.url), folder)
    with process.ended():
        await asyncio.to_thread(process.start)
        await judge(load, endpoints, process)


async def judge(load: Load, endpoints: Endpoints, process: ServiceProcess) -> None:
    operator = Operator(process.admin_url)
    enabling = asyncio.create_task(operator.enable_for_ever())
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for first in range(0, load.events, 500):
            batch = json.dumps(made(first, load)).encode()
            url = f"{process.events_url}/events"
            posted = await client.post(url, content=batch, headers=BATCH)
            assert posted.status_code == 202, posted.text

    async def over() -> bool:
        assert not enabling.done(), enabling.exception()
        return await settled(operator, load)

    try:
        await until(over, "settled", turn=1.0, moved=lambda: len(set(endpoints.taken)))
    except TimeoutError:
        pytest.fail(f"nothing moves: {json.dumps(await operator.subscriptions())}")
    finally:
        enabling.cancel()
    letters = await operator.pages("/v1/dead-letters", "dead_letters")
    waiting = await operator.pages("/v1/parked", "parked")
    delivered = {number for _, number in endpoints.taken}
    dead = {int(each["message"]["event"]["id"]) for each in letters}
    parked = {int(each["event"]["id"]) for each in waiting}
    heard = await heard_and_not_believed(operator, endpoints, dead | parked)
    await operator.close()
    causes = Counter(each["cause"] for each in letters)
    print(f"{len(delivered)} delivered, {len(parked)} wait, {dict(causes)}; {endpoints.answers}")
    assert delivered | dead | parked == set(range(load.events)), "lost"
    assert not dead & parked
    assert set(causes) <= {"schedule-exhausted"}
    assert all(number % load.endpoints % PATIENT == 0 for number in parked)
    assert parked, "the account has something of each kind"
    assert causes
    assert endpoints.out_of_order() == []
    assert heard == {}, (
        "sent again, given up or kept although the service had heard that it was taken"
    )
    assert operator.enabled > 0
    assert await asyncio.to_thread(process.stop) == 0


async def heard_and_not_believed(
    operator: Operator, endpoints: Endpoints, unfinished: set[int]
) -> dict[int, int]:
    """Return the events that went on although the service had heard that they were taken, with how often too many.

    An endpoint may take an event more than once all the same: a 204 that comes after the time-out is not heard, and
    on a kept connection that ended without an answer the client repeats the request within one attempt.
    """
    found = {}
    for number, times in Counter(number for _, number in endpoints.taken).items():
        allowed = 0 if number in unfinished else 1
        if times > allowed and (heard := await operator.heard(number)) > allowed:
            found[number] = heard - allowed
    return found


async def settled(operator: Operator, load: Load) -> bool:
    """Nothing is left in the log or in hand, and what is parked waits for a day."""
    fare = await operator.subscriptions()
    if any(each["lag"] != 0 or each["held"] for each in fare):
        return False
    waiting = await operator.pages("/v1/parked", "parked")
    return all(int(each["event"]["id"]) % load.endpoints % PATIENT == 0 for each in waiting) and (
        no_head_is_due(waiting)
    )


def no_head_is_due(waiting: list[dict[str, Any]]) -> bool:
    """The oldest of each key waits for its last attempt, hours from now."""
    heads: dict[str, dict[str, Any]] = {}
    for each in waiting:
        kept = heads.setdefault(each["event"]["source"], each)
        if int(each["position"]) < int(kept["position"]):
            heads[each["event"]["source"]] = each
    return all(each["attempts"] > len(FIRST_WAITS) for each in heads.values())


async def test_endpoints_that_fail_at_random_lose_nothing(
    target: WebhookTarget, tmp_path: Path
) -> None:
    await account(SHORT, target, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(0)  # its wait ends when nothing moves
async def test_fifty_endpoints_that_fail_at_random_lose_none_of_twenty_thousand(
    target: WebhookTarget, tmp_path: Path
) -> None:
    await account(FULL, target, tmp_path)
