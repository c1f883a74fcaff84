"""A real service reports to a channel what needs a person, and that nothing does any more."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.store import open_shared_store
from configuration import configuration, merged, subscription, written
from postgres_server import fresh_database
from service import Service, running
from service_process import ServiceProcess
from store_samples import ALL, a_letter
from waiting import until
from webhook_target import WebhookTarget, status

QUICK = {"every": "2s", "when": ["endpoint-fails", "dead-letters", "broker-away"]}
TAKEN = status(200, body=b"ok")


@pytest.fixture
async def target() -> AsyncIterator[WebhookTarget]:
    """The target of the subscription."""
    made = WebhookTarget()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def channel() -> AsyncIterator[WebhookTarget]:
    """The channel, which answers as Slack does."""
    made = WebhookTarget(lambda _: TAKEN)
    await made.start()
    yield made
    await made.stop()


def settings(
    folder: Path, target: WebhookTarget, channel: WebhookTarget, **changes: Any
) -> dict[str, Any]:
    to = {"preset": "slack", "url": f"{channel.url}-of-slack"}
    hook = subscription("billing", target.url, retry={"schedule": ["10ms"] * 3 + ["1h"], "hold": 3})
    usual = configuration(folder, subscriptions=[hook], alerts=[{"name": "ops", "to": to, **QUICK}])
    return merged(usual, changes)


def texts(channel: WebhookTarget) -> list[str]:
    return [json.loads(each.body)["text"] for each in channel.received]


async def post(service: Service, path: str, **given: Any) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        return await client.post(f"{service.admin_url}{path}", **given)


async def test_a_failing_target_is_reported_and_its_recovery_too(
    target: WebhookTarget, channel: WebhookTarget, tmp_path: Path
) -> None:
    target.answer = lambda _: status(500)
    public = {"server": {"admin": {"public_url": "https://admin.example.org/"}}}
    async with running(settings(tmp_path, target, channel, **public), tmp_path) as service:
        for number in range(8):
            await service.send(f"e{number}", partitionkey=str(number))
        await until(lambda: texts(channel), "the first message")
        first = texts(channel)[0]
        assert "- subscription billing: the target fails" in first
        assert "skybridge retry billing" in first
        assert "https://admin.example.org/console/#/subscriptions/billing" in first
        view = (await service.get("/v1/alerts"))["alerts"][0]
        assert (view["name"], view["channel"], view["sends"]) == ("ops", "slack", True)
        target.answer = lambda _: status(204)
        assert (await post(service, "/v1/subscriptions/billing:retry")).status_code == 200
        await until(lambda: "recovered" in texts(channel)[-1], "the recovery")
        shown = await service.text("/status") + await service.text("/v1/config")
    assert "Recovered: subscription billing (endpoint-fails)" in texts(channel)[-1]
    assert "hook-of-slack" not in shown, "the URL of a channel is a secret"


async def test_a_failing_channel_alerts_nobody_and_is_in_the_status(
    target: WebhookTarget, channel: WebhookTarget, tmp_path: Path
) -> None:
    channel.answer = lambda _: status(404, body=b"no_service")
    target.answer = lambda _: status(415)
    all_verdicts = {
        "alerts": [{"name": "ops", "to": {"preset": "slack", "url": channel.url}, "every": "2s"}]
    }
    async with running(settings(tmp_path, target, channel, **all_verdicts), tmp_path) as service:
        await service.send("e1")

        async def verdicts() -> set[str]:
            return {each["verdict"] for each in (await service.get("/status"))["attention"]}

        async def both() -> bool:
            return await verdicts() >= {"dead-letters", "alert-fails"}

        await until(both, "the verdict on the alert")
        failed = texts(channel)
        found = (await service.get("/status"))["alerts"][0]
        assert found["error"] == "status 404: no_service"
        tested = await post(service, "/v1/alerts/ops:test")
        assert tested.json()["delivered"] is False
        assert tested.json()["detail"] == "status 404: no_service"
        channel.answer = lambda _: TAKEN
        assert (await post(service, "/v1/alerts/ops:test")).json()["delivered"] is True
        unknown = await post(service, "/v1/alerts/op:test")
        assert (unknown.status_code, unknown.json()["detail"]) == (
            404,
            "alert op does not exist. The alerts are: ops",
        )
    assert all("alert ops" not in each for each in failed)


async def test_a_reload_adds_changes_and_removes_alerts(
    target: WebhookTarget, channel: WebhookTarget, tmp_path: Path
) -> None:
    target.answer = lambda _: status(415)
    before = settings(tmp_path, target, channel)
    async with running({**before, "alerts": []}, tmp_path) as service:
        await service.send("e1")

        async def letters() -> bool:
            return bool(await service.letters())

        await until(letters, "the dead letter")
        written(before, tmp_path)
        assert (await service.reload()).outcome == "ok"
        await until(lambda: texts(channel), "the message of an alert that is new")
        written({**before, "alerts": []}, tmp_path)
        assert (await service.reload()).outcome == "ok"
        assert (await service.get("/v1/alerts"))["alerts"] == []
    assert len(channel.received) == 1


@pytest.mark.postgres
async def test_one_of_two_processes_sends_and_after_its_kill_the_other_goes_on(
    target: WebhookTarget, channel: WebhookTarget, tmp_path: Path, postgres: str
) -> None:
    """A message is sent once, although both processes find the same dead letter in the store."""
    dsn = fresh_database(postgres)
    store = {"kind": "postgresql", "dsn": dsn, "path": None}
    whole = settings(tmp_path, target, channel, store=store, subscriptions=[])
    processes = [process_of(whole, tmp_path / name) for name in ("one", "two")]
    with contextlib.ExitStack() as ending:
        for each in processes:
            ending.enter_context(each.ended())
        await asyncio.gather(*[asyncio.to_thread(each.start) for each in processes])
        opened = open_shared_store(dsn)
        await opened.start()
        await opened.letters.add(a_letter())
        await until(lambda: texts(channel), "the message")
        senders = [each for each in processes if await asyncio.to_thread(is_sender, each)]
        assert len(senders) == 1
        await asyncio.to_thread(senders[0].kill)
        (other,) = [each for each in processes if each not in senders]
        await until(lambda: asyncio.to_thread(is_sender, other), "the other process as sender")
        assert len(channel.received) == 1
        await opened.letters.discard(ALL)
        await until(lambda: len(texts(channel)) == 2, "the recovery")
        await opened.stop()
        assert await asyncio.to_thread(other.stop) == 0
    assert "recovered" in texts(channel)[1]


def process_of(whole: dict[str, Any], folder: Path) -> ServiceProcess:
    folder.mkdir()
    return ServiceProcess(
        merged(whole, {"brokers": {"log": {"path": str(folder / "log")}}}), folder
    )


def is_sender(process: ServiceProcess) -> bool:
    code, text = process.ask("GET", "/v1/alerts")
    assert code == 200, text
    return bool(json.loads(text)["alerts"][0]["sends"])
