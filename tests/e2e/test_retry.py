"""An operator mends a target and tries what waits now (``:retry``), instead of after minutes or hours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from configuration import configuration, route, subscription
from service import Service, running
from waiting import until
from webhook_target import Received, WebhookTarget, status

OK, DOWN = status(204), status(500)
LONG = {"schedule": ["1ms", "24h"], "hold": 1}  # the second wait is hours, whatever the jitter


class Target(WebhookTarget):
    """A webhook that refuses the events whose key is in ``broken``."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.refusal = DOWN
        super().__init__(self._judge)

    def _judge(self, request: Received) -> bytes:
        return self.refusal if self._key(request) in self.broken else OK

    def tries(self, id_: str) -> int:
        return self.ids.count(id_)

    def delivered(self) -> dict[str, list[str]]:
        """Return the ids of the delivered events by key, in their order."""
        found = defaultdict(list)
        for request in self.received:
            if self._key(request) not in self.broken:
                found[self._key(request)].append(request.id)
        return found

    @staticmethod
    def _key(request: Received) -> str:
        return request.header("ce-partitionkey")


class House:
    """A service whose subscription ``hook`` delivers to the target."""

    def __init__(self, service: Service, target: Target) -> None:
        self.service = service
        self.target = target

    async def send(self, key: str, *ids: str) -> None:
        for id_ in ids:
            await self.service.send(id_, partitionkey=key)

    async def post(self, verb: str, **body: Any) -> tuple[int, Any]:
        path = f"{self.service.admin_url}/v1/subscriptions/hook:{verb}"
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            answer = await client.post(path, json=body) if body else await client.post(path)
        return answer.status_code, answer.json()

    async def parked(self) -> dict[str, Any]:
        """Return the parked keys by key."""
        return {each["key"]: each for each in (await self.service.get("/v1/parked/keys"))["keys"]}

    async def health(self) -> Any:
        return (await self.service.get("/v1/subscriptions/hook/status"))["health"]

    async def park(self, *keys: str) -> dict[str, Any]:
        """Let these keys park, each with two events, while other keys are delivered."""
        self.target.broken |= {*keys}
        for number in range(20):
            await self.send(f"good-{number}", f"good-{number}")
        for key in keys:
            await self.send(key, f"{key}.1", f"{key}.2")
        return await until(lambda: self._all_parked(keys), f"parked keys {keys}")

    async def _all_parked(self, keys: tuple[str, ...]) -> dict[str, Any] | None:
        parked = await self.parked()
        rows = {key: parked[key]["rows"] for key in keys if key in parked}
        return parked if rows == dict.fromkeys(keys, 2) else None


def house_settings(folder: Path, target: Target, **more: Any) -> dict[str, Any]:
    hook = subscription("hook", target.url, retry=LONG, concurrency=4, **more)
    return configuration(
        folder,
        brokers={"log": {"partitions": 2}},
        routes=[route(key={"mapper": "partitionkey"})],
        subscriptions=[hook],
    )


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    made = Target()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def house(tmp_path, target) -> AsyncIterator[House]:
    async with running(house_settings(tmp_path, target), tmp_path) as service:
        yield House(service, target)


async def test_a_mended_target_gets_what_waits_for_it_at_once(house, target):
    await house.park("a", "b", "c")
    target.broken.clear()
    assert await house.post("retry") == (200, {"keys": 3, "probe": False, "retry_after": None})
    await until(lambda: {*target.delivered()} >= {"a", "b", "c"}, "the parked keys")
    await until(house_is_empty(house), "no parked key")
    for key in "abc":
        assert target.delivered()[key][-2:] == [f"{key}.1", f"{key}.2"]


async def test_one_key_or_the_key_of_one_event_is_tried_alone(house, target):
    await house.park("a", "b", "c")
    target.broken.clear()
    assert (await house.post("retry", key="a"))[1]["keys"] == 1
    await until(lambda: "a.2" in target.ids, "the key")
    assert (await house.post("retry", event="b.2"))[1]["keys"] == 1  # it waits behind b.1
    await until(lambda: "b.2" in target.ids, "the key of the event")
    await until(lambda: only_parked(house, "c"), "the other key, which still waits")


async def test_a_try_that_fails_takes_no_step_and_restores_the_earlier_time(house, target):
    """The next failure on schedule would be a dead letter."""
    before = (await house.park("a"))["a"]
    for pressed in range(1, 11):
        tries = target.tries("a.1")
        assert (await house.post("retry"))[1]["keys"] == 1
        await until(lambda tries=tries: target.tries("a.1") > tries, "the requested try")
        after = await until(
            lambda pressed=pressed: tried(house, "a", before["attempts"] + pressed), "its result"
        )
        assert abs(after["due_ms"] - before["due_ms"]) < 1_000
    assert await house.service.letters() == {}
    assert "a.2" not in target.ids
    target.broken.clear()
    await house.post("retry")
    await until(house_is_empty(house), "no parked key")


async def test_a_retry_after_yields_to_force_alone(house, target):
    target.broken, target.refusal = {"a", "b"}, status(503, "Retry-After: 3600")
    await house.send("a", "a.1")
    await until(lambda: is_paused(house), "the pause that the target asked for")
    await house.send("b", "b.1")
    code, answer = await house.post("retry")
    assert (code, answer["probe"]) == (200, False)
    assert 3_500 < answer["retry_after"] <= 3_600
    target.refusal = DOWN
    assert (await house.post("retry", force=True))[1]["probe"] is True
    await until(lambda: target.tries("a.1") + target.tries("b.1") == 2, "the forced probe")
    paused = await until(lambda: is_paused(house, longer_than=3_000), "the earlier pause")
    assert paused <= 3_600
    target.broken.clear()
    await house.post("retry", force=True)
    await until(lambda: {*target.ids[-2:]} == {"a.1", "b.1"}, "both events, of two keys")
    await until(lambda: is_state(house, "running"), "flowing deliveries")


async def test_a_pause_by_an_operator_is_shown_as_one_although_the_target_fails(house, target):
    """The cure was `retry`, which a paused subscription refuses, and the next probe was announced."""
    target.broken, target.refusal = {"a"}, status(503, "Retry-After: 3600")
    await house.send("a", "a.1")
    await until(lambda: is_paused(house), "the pause by the target")
    assert (await house.post("pause"))[0] == 200
    health = await house.health()
    assert (health["state"], health["paused_for"]) == ("paused", None)
    (verdict,) = (each for each in health["attention"] if each["verdict"] == "paused")
    assert (verdict["severity"], verdict["next"]) == (
        "notice",
        "skybridge subscriptions resume hook",
    )
    assert (await house.post("resume"))[0] == 200
    await until(lambda: is_paused(house), "the pause by the target, which goes on")


async def test_a_lane_that_waits_in_memory_is_tried(tmp_path, target):
    settings = house_settings(tmp_path, target)
    settings["subscriptions"][0]["retry"] = {"schedule": ["24h", "24h"], "hold": 2}
    async with running(settings, tmp_path) as service:
        house = House(service, target)
        target.broken = {"a"}
        await house.send("a", "a.1", "a.2")
        await until(lambda: is_waiting(house, 1), "the wait in memory")
        for tries in range(2, 6):
            assert (await house.post("retry", event="a.1"))[1]["keys"] == 1
            await until(lambda tries=tries: target.tries("a.1") == tries, "the requested try")
            await until(lambda: is_waiting(house, 1), "the wait in memory")
        assert await service.letters() == {}
        target.broken.clear()
        await house.post("retry", key="a")
        await until(lambda: target.ids[-2:] == ["a.1", "a.2"], "both events")


async def test_a_redriven_letter_that_waits_is_tried(house, target):
    target.broken, target.refusal = {"a"}, status(415)
    await house.send("a", "a.1")
    await until(house.service.letters, "the dead letter")
    target.refusal = DOWN
    url = f"{house.service.admin_url}/v1/dead-letters:redrive"
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(url, json={"subscription": "hook", "dry_run": False})
        assert answer.json()["redriven"] == 1
    await until(lambda: tried(house, "a", 2), "the wait of the redriven letter")
    for attempts in range(3, 6):
        assert (await house.post("retry"))[1]["keys"] == 1
        await until(lambda attempts=attempts: tried(house, "a", attempts), "the requested try")
    assert await house.service.letters() == {}
    target.broken.clear()
    await house.post("retry", event="a.1")
    await until(house_is_empty(house), "no parked key")


async def test_a_stopped_subscription_is_refused_with_its_cure(house, target):
    await house.post("pause")
    code, problem = await house.post("retry")
    assert (code, problem["type"]) == (409, "urn:skybridge:problem:paused")
    assert "/v1/subscriptions/hook:resume" in problem["detail"]
    await house.post("resume")
    target.broken, target.refusal = {"a"}, status(410)
    await house.send("a", "a.1")
    await until(lambda: is_state(house, "disabled"), "the answer 410")
    code, problem = await house.post("retry", force=True)
    assert (code, problem["type"]) == (409, "urn:skybridge:problem:disabled")
    assert ":resume" in problem["detail"]


async def test_a_key_or_event_that_does_not_wait_is_not_found(house):
    for body in ({"key": "nobody"}, {"event": "none"}):
        code, problem = await house.post("retry", **body)
        assert (code, problem["type"]) == (404, "urn:skybridge:problem:not-waiting")
    assert await house.post("retry") == (200, {"keys": 0, "probe": False, "retry_after": None})


async def test_a_test_event_that_arrives_offers_the_retry_and_status_names_it(house, target):
    await house.park("a")
    target.answer = lambda _: OK
    assert (await house.post("test"))[1]["next"] == "skybridge retry hook"
    await house.post("retry")
    await until(house_is_empty(house), "no parked key")
    assert (await house.post("test"))[1]["next"] == ""


def house_is_empty(house: House):
    async def empty() -> bool:
        return not await house.parked()

    return empty


async def only_parked(house: House, key: str) -> bool:
    return [*await house.parked()] == [key]


async def tried(house: House, key: str, attempts: int) -> Any:
    parked = (await house.parked()).get(key)
    return parked if parked is not None and parked["attempts"] == attempts else None


async def is_paused(house: House, longer_than: float = 0.0) -> float | None:
    paused = (await house.health())["paused_for"]
    return paused if paused is not None and paused > longer_than else None


async def is_waiting(house: House, lanes: int) -> bool:
    return (await house.health())["waiting"] == lanes


async def is_state(house: House, state: str) -> bool:
    return (await house.health())["state"] == state
