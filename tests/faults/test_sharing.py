"""Subscriptions that share the membership of one Kafka topic: a kill and moves lose nothing and keep the
order of keys. The judge is the webhook's own account."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from configuration import Settings
from service_process import ServiceProcess
from sharing_service import Account, Load, complete, send, settings_of, until_read
from waiting import until
from webhook_target import WebhookTarget

pytestmark = [pytest.mark.kafka, pytest.mark.fault]

FULL = Load(subscriptions=200, events=20_000, keys=100, kills=10)
MOVES = Load(subscriptions=5, events=200, keys=10, kills=0)


async def kill_while_delivering(kafka: str, folder: Path, load: Load) -> Account:
    account = Account(load)
    target = WebhookTarget(account)
    await target.start()
    topic = f"t-{uuid4().hex[:12]}"
    settings = settings_of(folder, kafka, topic, target.url, load, "topic")
    service = ServiceProcess(settings, folder)
    with service.ended():
        await asyncio.to_thread(service.start)
        each = load.events // (load.kills + 1)
        for kill in range(load.kills + 1):
            end = load.events if kill == load.kills else (kill + 1) * each
            before = account.count
            await send(service, load, range(kill * each, end))
            if kill < load.kills:
                goal = before + each // 2
                await until(partial(account.has, goal), "deliveries", moved=lambda: account.count)
                await asyncio.to_thread(service.kill)
                await asyncio.to_thread(service.start)
        await complete(account)
        await until_read(service, account.names)
        before = account.count
        await asyncio.to_thread(service.kill)
        await asyncio.to_thread(service.start)
        await until_read(service, account.names)
        assert account.count == before, "what was stored is not delivered again"
    await target.stop()
    return account


@pytest.mark.nightly
async def test_many_kills_lose_nothing(kafka: str, tmp_path: Path) -> None:
    """A worker is killed while it delivers. Every subscription gets its events in the order of their keys. A kill
    when all positions are stored repeats nothing."""
    account = await kill_while_delivering(kafka, tmp_path, FULL)
    assert account.in_order()


@pytest.mark.nightly
async def test_moves_lose_and_repeat_nothing(kafka: str, tmp_path: Path) -> None:
    """Subscriptions move into the shared membership and back while events are sent: nothing is lost, nothing is
    delivered twice, and keys keep their order."""
    load = MOVES
    account = Account(load)
    target = WebhookTarget(account)
    await target.start()
    topic = f"t-{uuid4().hex[:12]}"

    def settings(sharing: str) -> Settings:
        return settings_of(tmp_path, kafka, topic, target.url, load, sharing)

    service = ServiceProcess(settings("none"), tmp_path)
    with service.ended():
        await asyncio.to_thread(service.start)
        third = load.events // 3
        for step, sharing in enumerate(("none", "topic", "none")):
            end = load.events if step == 2 else (step + 1) * third
            sending = asyncio.create_task(send(service, load, range(step * third, end)))
            if step:
                service.settings = {**settings(sharing), "server": service.settings["server"]}
                service.write()
                answer = await asyncio.to_thread(service.ask, "POST", "/v1/config:reload")
                assert answer[0] == 200, answer
            await sending
        await complete(account)
        await until_read(service, account.names)
        assert account.in_order()
        assert account.repeats == 0
    await target.stop()
