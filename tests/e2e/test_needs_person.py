"""Each state that needs a person, on a real service: every place names it, and its cure cures it.

The waits of the verdicts are set to 0 here, because ``unit/delivery/test_verdicts`` tests them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.bindings.record import Record
from app.cli import exits
from app.delivery import lag_trend, service_verdicts, subscription_verdicts
from app.worker.dispatch import Dispatcher
from child_service import run
from configuration import subscription, written
from service import Service
from waiting import until
from webhook_target import Received, WebhookTarget, status

Started = Callable[[dict[str, Any]], Awaitable[Service]]
Needs = list[tuple[str, str]]
QUICK = {"schedule": ["10ms"] * 200, "hold": 200}
SUBJECT = "subscription billing"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_verdicts, "STEADY", 0.0)


@pytest.fixture
async def target() -> AsyncIterator[WebhookTarget]:
    target = WebhookTarget()
    await target.start()
    yield target
    await target.stop()


async def needs(service: Service) -> Needs:
    """Return what needs a person. Every place of the API must agree."""
    attention = (await service.get("/status"))["attention"]
    listed = {each["id"]: each["health"] for each in await service.get("/v1/subscriptions")}
    for name, health in listed.items():
        own = (await service.get(f"/v1/subscriptions/{name}/status"))["health"]
        names = [each["verdict"] for each in own["attention"]]
        subject = f"subscription {name}"
        assert [each["verdict"] for each in health["attention"]] == names
        found = [each["verdict"] for each in attention if each["subject"] == subject]
        assert sorted(found) == sorted(each for each in names if each != "broker-away")
    return [(each["verdict"], each["subject"]) for each in attention]


async def until_needs(service: Service, *expected: tuple[str, str]) -> list[dict[str, Any]]:
    """Wait until exactly these verdicts are shown, and return them."""

    async def shown() -> bool:
        try:
            return await needs(service) == list(expected)
        except AssertionError:  # the state changed between two requests
            return False

    await until(shown, f"{expected}")
    found: list[dict[str, Any]] = (await service.get("/status"))["attention"]
    return found


async def causes(service: Service, role: str = "worker") -> str:
    """Return the causes of a role that is ready in spite of them."""
    found = (await service.get("/readyz"))["roles"][role]
    assert found["ready"]
    return "\n".join(found["causes"])


async def cure(service: Service, folder: Path, command: str, *more: str) -> None:
    """Run the printed command."""
    code, _, errors = await run(folder, *command.split()[1:], *more, "--server", service.admin_url)
    assert code == exits.OK, errors


async def screen(service: Service, folder: Path) -> tuple[int, str]:
    code, said, _ = await run(folder, "status", "--interval", "0", "--server", service.admin_url)
    return code, said


async def test_a_target_that_fails(started: Started, target: WebhookTarget, tmp_path: Path) -> None:
    """The overview said "nothing needs attention" of a target that had answered 500 for five minutes."""
    target.answer = lambda _: status(500)
    service = await started({"subscriptions": [subscription("billing", target.url, retry=QUICK)]})
    for number in range(9):
        await service.send(str(number), partitionkey=str(number))
    (found,) = await until_needs(service, ("endpoint-fails", SUBJECT))
    assert "500" in found["detail"]
    assert found["next"] == "skybridge retry billing"
    assert "subscription billing: the target fails" in await causes(service)
    code, said = await screen(service, tmp_path)
    assert (code, said.splitlines()[0]) == (exits.FAILED, "NEEDS A PERSON")
    assert "cure: repair the target, then try again at once" in said
    target.answer = lambda _: status(204)
    await until_needs(service)


async def test_a_target_that_refuses_every_event(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    target.answer = lambda _: status(415)
    service = await started({"subscriptions": [subscription("billing", target.url)]})
    for number in range(4):
        await service.send(str(number))
    *_, letters = await until_needs(service, ("endpoint-fails", SUBJECT), ("dead-letters", SUBJECT))
    target.answer = lambda _: status(204)
    await cure(service, tmp_path, letters["next"], "--yes")
    await until_needs(service)


async def test_a_key_that_is_refused(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    """It was "running" and grey."""
    target.answer = lambda one: status(500 if one.id == "bad" else 204)
    retry = {"schedule": ["10ms", "1h"], "hold": 1}
    billing = subscription("billing", target.url, retry=retry, order_by="partitionkey")
    service = await started({"subscriptions": [billing]})
    await service.send("bad", partitionkey="bad")
    await service.send("behind", partitionkey="bad")
    await service.send("good", partitionkey="good")
    (found,) = await until_needs(service, ("parked-keys", SUBJECT))
    assert "of 1 key" in found["detail"]
    assert found["next"] == "skybridge retry billing"
    target.answer = lambda _: status(204)
    await cure(service, tmp_path, found["next"])
    await until_needs(service)


async def test_records_that_are_no_events(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    """A redrive of them fails again, so it is not their cure."""
    service = await started({"subscriptions": [subscription("billing", target.url)]})
    await service.send("1")
    await service.logs["log"].submit("events", [Record(None, (("x", b"y"),), b"no event")])
    (found,) = await until_needs(service, ("dead-letters", SUBJECT))
    assert "discard" in found["cure"]
    await cure(service, tmp_path, found["next"], "--yes")
    await until_needs(service)


async def test_dead_letters_of_a_deleted_subscription(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    target.answer = lambda _: status(415)
    service = await started({})
    async with httpx.AsyncClient(base_url=service.admin_url, timeout=120) as admin:
        document = subscription("billing", target.url)
        assert (await admin.post("/v1/subscriptions", json=document)).status_code == 201
        await service.send("1")
        await until_needs(service, ("dead-letters", SUBJECT))
        await admin.delete("/v1/subscriptions/billing")
    (found,) = await until_needs(service, ("dead-letters", SUBJECT))
    assert "deleted subscription" in found["detail"]
    assert "dead letters of a deleted subscription" in await causes(service)
    await cure(service, tmp_path, found["next"], "--yes")
    await until_needs(service)


async def test_a_subscription_that_an_operator_paused(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    """It is shown, because it ends only when a person remembers it. But it is no failure."""
    service = await started({"subscriptions": [subscription("billing", target.url)]})
    await cure(service, tmp_path, "skybridge subscriptions pause billing --cause migration")
    (found,) = await until_needs(service, ("paused", SUBJECT))
    assert (await screen(service, tmp_path))[0] == exits.OK
    await cure(service, tmp_path, found["next"])
    await until_needs(service)


async def test_a_disabled_subscription(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    target.answer = lambda _: status(410)
    service = await started({"subscriptions": [subscription("billing", target.url)]})
    await service.send("1")
    (found,) = await until_needs(service, ("disabled", SUBJECT))
    assert "subscription billing is disabled: status-410" in await causes(service)
    target.answer = lambda _: status(204)
    await cure(service, tmp_path, found["next"])
    await until_needs(service)


async def test_a_full_pull_queue(started: Started, tmp_path: Path) -> None:
    """Its events counted as no lag, and its cure was to look at attempts, which it has none of."""
    queue = {"pull": {"max_waiting": 2}}
    service = await started({"subscriptions": [subscription("billing", queue)]})
    for number in range(5):
        await service.send(str(number))
    (found,) = await until_needs(service, ("queue-full", SUBJECT))

    async def counted() -> bool:
        (shown,) = await service.get("/v1/subscriptions")
        return (shown["health"]["lag"], shown["health"]["queue"]["waiting"]) == (5, 2)

    await until(counted, "a lag of all events that no consumer has finished")
    assert "its pull queue is full" in await causes(service)
    await cure(service, tmp_path, found["next"], "--no-follow")
    await until_needs(service)


async def test_a_pull_queue_that_nobody_reads(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service = await started({"subscriptions": [subscription("billing", {"pull": {}})]})
    await service.send("1")
    monkeypatch.setattr(subscription_verdicts, "LATE", 0.0)
    (found,) = await until_needs(service, ("unread-queue", SUBJECT))
    await cure(service, tmp_path, found["next"], "--no-follow")
    await until_needs(service)


async def test_lag_that_grows_and_events_that_are_late(
    started: Started, target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = asyncio.Event()

    async def slowly(_: Received) -> bytes:
        await let_go.wait()
        return status(204)

    target.answer = slowly
    service = await started({"subscriptions": [subscription("billing", target.url, timeout="10m")]})
    await service.send("0")
    monkeypatch.setattr(subscription_verdicts, "LATE", 0.0)
    await until_needs(service, ("late-events", SUBJECT))
    monkeypatch.setattr(lag_trend, "SPAN", 0.1)
    numbers = itertools.count(1)

    async def grows() -> bool:
        await service.send(str(next(numbers)))
        found = (await service.get("/status"))["attention"]
        return [each["verdict"] for each in found] == ["lag-grows"]

    await until(grows, "a lag that grows")
    let_go.set()
    await until_needs(service)


async def test_a_subscription_that_restarts(
    started: Started, target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(_: Dispatcher) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Dispatcher, "run", dies)
    service = await started({"subscriptions": [subscription("billing", target.url)]})
    (found,) = await until_needs(service, ("restarting", SUBJECT))
    assert "a bug" in found["detail"]


async def test_a_subscription_that_cannot_run(
    started: Started, target: WebhookTarget, tmp_path: Path
) -> None:
    other = {"other": {"kind": "embedded", "path": str(tmp_path / "other")}}
    before = await started({"brokers": other})
    async with httpx.AsyncClient(base_url=before.admin_url, timeout=120) as admin:
        document = subscription("billing", target.url, broker="other")
        assert (await admin.post("/v1/subscriptions", json=document)).status_code == 201
    await before.stop()
    service = await started({})
    (found,) = await until_needs(service, ("cannot-run", SUBJECT))
    assert "other" in found["detail"]


async def test_a_broker_that_is_away_and_its_spool(started: Started, target: WebhookTarget) -> None:
    """Each of its subscriptions shows it, but the overview once."""
    away = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:1"}
    route = {
        "name": "all",
        "to": {"broker": "away", "topic": "t"},
        "spool": {"broker": "log", "max": "1MiB"},
    }
    names = ("billing", "audit")
    service = await started(
        {
            "brokers": {"away": away},
            "routes": [route],
            "subscriptions": [subscription(name, target.url, "t", broker="away") for name in names],
        }
    )
    await until_needs(service, ("broker-away", "broker away"))
    for each in await service.get("/v1/subscriptions"):
        assert [one["verdict"] for one in each["health"]["attention"]] == ["broker-away"]
    await service.send("1")
    await until_needs(service, ("broker-away", "broker away"), ("spool-filling", "route all"))
    assert "1 event waits in the spool" in await causes(service, "gateway")


async def test_a_nearly_full_disk(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    service = await started({})
    monkeypatch.setattr(service_verdicts, "NEARLY_FULL", 1.1)
    found = (await service.get("/status"))["attention"]
    assert {each["verdict"] for each in found} == {"disk"}


async def test_a_reload_that_is_refused_and_one_that_silences_a_producer(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = ["the-key-of-the-shop-1", "the-key-of-the-shop-2"]
    producers = [
        {"name": "shop", "keys": [keys[0]]},
    ]
    service = await started({"producers": producers})
    settings = json.loads(service.file.read_text())
    headers = {"authorization": f"Bearer {keys[0]}", "ce-specversion": "1.0", "ce-id": "1"}
    headers |= {"ce-source": "/s", "ce-type": "t"}
    async with httpx.AsyncClient(base_url=service.events_url, timeout=120) as sender:
        assert (await sender.post("/events", headers=headers)).status_code == 202
        producers[0]["keys"] = [keys[1]]
        written(settings | {"producers": producers}, tmp_path)
        assert (await service.reload()).outcome == "ok"
        assert (await sender.post("/events", headers=headers)).status_code == 401
    monkeypatch.setattr(service_verdicts, "SILENT", 0.0)
    await until_needs(service, ("silent-producer", "producer shop"))
    service.file.write_text("version: 2\n")
    assert (await service.reload()).outcome == "refused"
    await until_needs(
        service, ("reload-refused", "configuration"), ("silent-producer", "producer shop")
    )
