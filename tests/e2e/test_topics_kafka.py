"""What looking at a real Kafka costs it, and what it leaves behind: one connection, and nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from app.api.http.problems import status_of
from app.brokers.kafka import shared_admin
from app.brokers.portable import PortableLog
from app.errors import BrokerError
from kafka_harness import open_calm_log
from kafka_server import KafkaServer

pytestmark = [pytest.mark.nightly, pytest.mark.kafka]

PATIENCE = 240.0  # a bound: every wait ends with its condition


class Counted(AIOKafkaAdminClient):
    """Tells how many were opened, and how many are."""

    opened = 0
    open = 0

    async def start(self) -> None:
        await super().start()
        Counted.opened += 1
        Counted.open += 1

    async def close(self) -> None:
        await super().close()
        Counted.open -= 1


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "opened", 0)
    monkeypatch.setattr(Counted, "open", 0)
    monkeypatch.setattr(shared_admin, "AIOKafkaAdminClient", Counted)


@pytest.fixture(scope="module")
def making(kafka: str) -> Iterator[KafkaServer]:
    """A Kafka that makes whatever topic it is asked about, as the default is. (``kafka`` skips or fails
    where there is none to be had.)"""
    server = KafkaServer({"auto.create.topics.enable": "true"})
    server.start()
    try:
        yield server
    finally:
        server.stop()


async def opened(address: str) -> PortableLog:
    log = open_calm_log(name="main", bootstrap_servers=address)
    await log.start()
    return log


@pytest.fixture
async def log(making: KafkaServer) -> AsyncIterator[PortableLog]:
    log = await opened(making.bootstrap_servers)
    yield log
    await log.stop()


async def test_many_scrapes_are_one_connection(log: PortableLog) -> None:
    """/status and /metrics ask every few seconds, for years."""
    groups = {f"skybridge.t.{number}": ["orders"] for number in range(3)}
    for _ in range(3):
        await asyncio.gather(*(log.metadata(None, groups) for _ in range(10)))
    assert (Counted.opened, Counted.open) == (1, 1)
    await log.stop()
    assert Counted.open == 0


async def test_looking_makes_no_topic(log: PortableLog) -> None:
    """On a broker that makes what it is asked about a mistyped name would become a topic for ever."""
    name = f"nope-{uuid4().hex[:8]}"
    assert (await log.metadata([name])).topics == ()
    later = f"later-{uuid4().hex[:8]}"  # the controller makes topics in order
    await log.create_topic(later, 1)
    there = {topic.name for topic in (await log.metadata()).topics}
    assert later in there
    assert name not in there


async def test_a_restart_of_the_broker_is_lived_through(making: KafkaServer) -> None:
    """The client that is kept broke with the broker; the first questions say so (503), the next have
    their answers, and nothing piles up."""
    log = await opened(making.bootstrap_servers)
    topic = f"t-{uuid4().hex[:8]}"
    await log.create_topic(topic, 1)
    await asyncio.to_thread(making.kill)
    with pytest.raises(BrokerError) as away:
        await log.metadata([topic])
    assert status_of(away.value) == 503
    await asyncio.to_thread(making.restart)
    async with asyncio.timeout(PATIENCE):
        while not await _answers(log, topic):
            await asyncio.sleep(0.1)
    assert Counted.open == 1
    await log.stop()
    assert Counted.open == 0


async def _answers(log: PortableLog, topic: str) -> Any:
    try:
        found = (await log.metadata([topic])).topics
    except BrokerError:
        return False
    return found and found[0].partitions[0].latest == "0"
