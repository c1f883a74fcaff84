"""A topic that somebody deleted and made again with fewer partitions between two looks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.brokers.kafka import topics as kafka
from app.brokers.kafka.batcher import TopicBatchers as KafkaTopic
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.pulsar import topics as pulsar
from app.brokers.pulsar.batchers import TopicBatchers as PulsarTopic
from app.brokers.pulsar.settings import PulsarSettings


@pytest.mark.parametrize(("count", "is_known"), [(3, True), (4, True), (2, False), (1, False)])
async def test_kafka_is_asked_again(count: int, is_known: bool) -> None:
    """Records for partitions that are gone would wait for a leader, each until its time-out, for ever."""
    topics = kafka.KnownTopics(
        KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1"), _ignored
    )
    topics.known["t"] = KafkaTopic("t", 3)
    topics.refresh(SimpleNamespace(partitions_for_topic=lambda _: set(range(count))))
    assert ("t" in topics.known) is is_known
    assert not is_known or len(topics.known["t"].batchers) == count
    await topics.stop()


@pytest.mark.parametrize(("count", "is_known"), [(3, True), (4, True), (2, False), (1, False)])
async def test_pulsar_is_asked_again(count: int, is_known: bool) -> None:
    async def wires(_: str) -> dict[int, str]:
        return {number: f"t-partition-{number}" for number in range(count)}

    settings = PulsarSettings(
        name="pulsar", service_url="pulsar://127.0.0.1:1", admin_url="http://127.0.0.1:1"
    )
    admin: Any = SimpleNamespace(wires=wires)
    topics = pulsar.KnownTopics(settings, admin, lambda _: None, _ignored)
    topics.known["t"] = PulsarTopic("t", [f"t-partition-{number}" for number in range(3)])
    await topics.refresh()
    assert ("t" in topics.known) is is_known
    assert not is_known or len(topics.known["t"].batchers) == count
    await topics.stop()


def _ignored(*_: object) -> None:
    """Nothing waits."""
