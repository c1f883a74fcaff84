"""What a topic is, as two of one process find it at the same time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from app.brokers.rabbitmq.aiormq_adapter import amqp
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused


class Broker:
    """Exchanges and queues by name; every answer takes a turn of the loop. It is its own connection,
    channel and queue."""

    version = (3, 10, 8)

    def __init__(self) -> None:
        self.exchanges: set[str] = set()
        self.queues: set[str] = set()

    @contextlib.asynccontextmanager
    async def temporary_channel(self) -> AsyncIterator[Broker]:
        await asyncio.sleep(0)
        yield self

    async def declare_exchange(self, name: str, _kind: object = None, **how: object) -> None:
        await self._declare(self.exchanges, name, how)

    async def declare_queue(self, name: str, **how: object) -> None:
        await self._declare(self.queues, name, how)

    async def get_queue(self, _name: str, **_: object) -> Broker:
        return self

    async def bind(self, *_: object) -> None:
        await asyncio.sleep(0)

    async def _declare(self, known: set[str], name: str, how: dict[str, object]) -> None:
        await asyncio.sleep(0)
        if not how.get("passive"):
            known.add(name)
        elif name not in known:
            raise amqp.ChannelNotFoundEntity(f"NOT_FOUND - no {name}")


async def test_a_topic_that_is_being_made_is_not_counted_half_way() -> None:
    """A producer that takes three queues for all of eight puts keys elsewhere than its neighbours, and a
    member leaves five of them unread."""
    settings = RabbitSettings(name="rabbit", addresses="127.0.0.1:1", create_topics=True)
    topology, broker = Topology(settings), Broker()

    async def later(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await topology.partitions(broker, "orders")

    async with asyncio.timeout(60):
        counts = await asyncio.gather(*(later(turns) for turns in range(60)))
    assert set(counts) == {8}


async def test_a_question_about_the_queues_of_a_group_finds_those_after_a_gap_and_creates_none() -> (
    None
):
    """With the queue 0 deleted, the whole group seemed to have none."""
    settings = RabbitSettings(
        name="rabbit", addresses="127.0.0.1:1", create_topics=True, queue="{topic}.{group}.{partition}"
    )  # fmt: skip
    topology, broker = Topology(settings), Broker()
    broker.exchanges.add("orders")
    with pytest.raises(BrokerRefused):
        await topology.existing(broker, "orders", "g")
    broker.queues |= {f"orders.g.{number}" for number in (1, 2, 5)}
    there = set(broker.queues)
    layout = await topology.existing(broker, "orders", "g")
    assert layout.there == [1, 2, 5]
    assert (broker.exchanges, broker.queues) == ({"orders"}, there)
