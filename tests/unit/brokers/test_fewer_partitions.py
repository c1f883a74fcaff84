"""A topic that somebody deleted and made again with fewer partitions between two looks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.brokers.kafka import topics as kafka
from app.brokers.kafka.batcher import TopicBatchers as KafkaTopic
from app.brokers.kafka.produce_request import ProducerId
from app.brokers.kafka.sequences import Sequences
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


async def test_a_topic_that_kafka_no_longer_names_ends_its_numbers() -> None:
    """A batch of it may be on the wire. If the topic comes back, its next batch needs another producer id (rule 1)."""
    settings = KafkaSettings(name="kafka", bootstrap_servers="127.0.0.1:1")
    topics = kafka.KnownTopics(settings, _ignored)
    sequences = Sequences(idempotent=True, batch_bytes=1_000, compression=None)
    sequences.identity = ProducerId(7, 0)
    topics.connection = SimpleNamespace(sequences=sequences)  # type: ignore[assignment]
    topic = topics.known["t"] = KafkaTopic("t", 1)
    assert sequences.builder(topic.batchers[0]) is not None
    for known in (None, {0}, None):
        topics.refresh(SimpleNamespace(partitions_for_topic=lambda _, known=known: known))
        assert topics.known == {"t": topic}, "one answer without it is no proof"
    topics.refresh(SimpleNamespace(partitions_for_topic=lambda _: None))
    assert topics.known == {}
    assert sequences.builder(KafkaTopic("t", 1).batchers[0]) is None
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
