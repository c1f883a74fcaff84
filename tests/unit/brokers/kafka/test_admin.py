"""What the cluster is asked, where its answer needs patience."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka import TopicPartition

from app.brokers.kafka import admin
from app.brokers.kafka.admin import KafkaAdmin
from app.brokers.kafka.settings import KafkaSettings
from app.model.metadata import Lags


class SlowCluster:
    """Shows a topic only in the second look after it was made."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.looks = 0

    async def create_topics(self, topics: list[Any]) -> Any:
        self.made += [topic.name for topic in topics]
        return type("Answer", (), {"topic_errors": []})

    async def describe(self, topics: Sequence[str] | None) -> list[dict[str, Any]]:
        self.looks += bool(self.made)
        return [{"topic": topic} for topic in topics or () if self.looks >= 2]


async def ready(_client: SlowCluster, _within: float) -> None: ...


async def test_a_topic_that_was_just_made_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first start of a subscription on a new topic fails, and is tried again with an alarm."""
    cluster = SlowCluster()

    @asynccontextmanager
    async def client(_: KafkaAdmin) -> Any:
        yield cluster

    monkeypatch.setattr(KafkaAdmin, "_client", client)
    monkeypatch.setattr(admin, "describe", SlowCluster.describe)
    monkeypatch.setattr(admin, "controller_ready", ready)
    settings = KafkaSettings(name="k", bootstrap_servers="127.0.0.1:1", create_topics=True)
    await KafkaAdmin(settings).ensure(["orders"])
    assert cluster.made == ["orders"]
    assert cluster.looks == 2


async def test_the_lag_in_a_partition_without_a_leader_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was left out, so the rest of the topic was taken for all of it."""
    partitions = [
        {"partition": number, "leader": leader, "replicas": [1], "isr": [1]}
        for number, leader in ((0, 1), (1, -1))
    ]
    described = [{"topic": "orders", "partitions": partitions}]
    positions = {TopicPartition("orders", number): 3 for number in (0, 1)}

    @asynccontextmanager
    async def client(_: KafkaAdmin) -> Any:
        yield None

    async def offsets(_client: None, leaders: Any, _time: int) -> Any:
        return dict.fromkeys(leaders, 5)

    monkeypatch.setattr(KafkaAdmin, "_client", client)
    monkeypatch.setattr(admin, "describe", AsyncMock(return_value=described))
    monkeypatch.setattr(admin, "offsets", offsets)
    kafka = KafkaAdmin(KafkaSettings(name="k", bootstrap_servers="127.0.0.1:1"))
    found = await kafka.metadata(["orders"], {"g": ["orders"]}, {"g": positions})
    assert [(each.partition, each.lag) for each in found.groups] == [(0, 2), (1, None)]
    assert Lags(found.groups).totals() == {"g": None}
