"""What a member does when its client, or its own background work, turns against it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from app.brokers.driver import Joining
from app.brokers.kafka.consumer import KafkaConsumer
from app.brokers.kafka.ownership import Owned
from app.brokers.kafka.settings import KafkaSettings
from app.model.message import Partition
from app.model.start import EARLIEST

ORDERS = Partition("orders", 0)
SETTINGS = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1", commit_interval=0.0)


@pytest.fixture
async def consumer() -> Any:
    """A member that never joined: what its client would do is the test's to say."""
    consumer = KafkaConsumer(SETTINGS, Joining("g", ["orders"], EARLIEST))
    yield consumer
    await consumer.close()


async def test_a_committing_task_that_dies_is_told_by_poll(
    consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing would ever be committed again, and nobody would know (rule 2)."""

    async def broken() -> None:
        raise ZeroDivisionError

    async def nothing(**_: object) -> dict[TopicPartition, list[object]]:
        return await asyncio.Future()

    monkeypatch.setattr(consumer._consumer, "getmany", nothing)
    consumer._commits.start()
    with monkeypatch.context() as breaking:
        breaking.setattr(consumer._commits, "now", broken)
        await consumer.settle([])
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(5.0)


async def test_what_was_fetched_of_a_partition_that_is_gone_is_dropped_also_when_it_was_paused(
    consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two generations a paused partition is no longer ours to seek in."""

    async def fetched(**_: object) -> dict[TopicPartition, list[object]]:
        return {TopicPartition("orders", 0): [SimpleNamespace(offset=5)]}

    monkeypatch.setattr(consumer._consumer, "getmany", fetched)
    consumer._paused = {ORDERS}
    consumer._owned = Owned(2, {})  # the next generation, without it
    assert await consumer.poll(0.0) is None


async def test_a_fetch_that_brought_nothing_is_followed_by_the_next_one(
    consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a busy topic all of a batch may be unwanted: whoever polls must not wait out his time for it."""
    place = TopicPartition("orders", 0)
    fetches: list[dict[TopicPartition, list[Any]]] = [{place: [SimpleNamespace(offset=5)]}, {}]

    async def fetched(**_: object) -> dict[TopicPartition, list[Any]]:
        if not fetches:
            raise ZeroDivisionError
        return fetches.pop(0)

    monkeypatch.setattr(consumer._consumer, "getmany", fetched)
    with pytest.raises(ZeroDivisionError):
        await consumer.poll(600.0)
