"""Topics that senders bring about by a template are bounded, on every broker (rule 8)."""

from __future__ import annotations

from typing import Any

import pytest

from app.brokers.kafka.settings import KafkaSettings
from app.brokers.kafka.topics import KnownTopics as KafkaTopics
from app.brokers.pulsar.settings import PulsarSettings
from app.brokers.pulsar.topics import KnownTopics as PulsarTopics
from app.brokers.topic_resolver import BOUND, CreatedTopics
from app.errors import BoundReached


class Cluster:
    """A broker's administration and connection in one: topics are there once they are made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def partitions(self, name: str) -> int | None:
        return 1 if name in self.made else None

    async def create_topic(self, name: str, partitions: int) -> None:
        self.made.append(name)

    async def wires(self, name: str) -> dict[int, str]:
        return {0: name}


def of_kafka(cluster: Any) -> Any:
    topics = KafkaTopics(
        KafkaSettings(name="main", bootstrap_servers="b:1", create_topics=True), lambda *_: None
    )
    topics._admin = topics.connection = cluster
    return topics


def of_pulsar(cluster: Any) -> Any:
    settings = PulsarSettings(
        name="main", service_url="pulsar://b:1", admin_url="http://b:2", create_topics=True
    )
    return PulsarTopics(settings, cluster, lambda _: None, lambda *_: None)


@pytest.mark.parametrize("topics_of", [of_kafka, of_pulsar])
async def test_a_sender_makes_a_thousand_topics_and_no_more(topics_of: Any) -> None:
    """The embedded log has the same bound. What is there already goes on."""
    cluster = Cluster()
    topics = topics_of(cluster)
    assert topics._made._most == BOUND == 1_000
    topics._made = CreatedTopics("main", most=3)
    for number in range(3):
        await topics._find(f"orders.{number}")
    with pytest.raises(BoundReached, match="create orders"):
        await topics._find("orders.more")
    assert len(cluster.made) == 3
    cluster.made.append("orders.more")
    await topics._find("orders.more")


def test_what_could_not_be_made_does_not_count() -> None:
    made = CreatedTopics("main", most=1)
    with pytest.raises(RuntimeError), made.making("a"):
        raise RuntimeError
    with made.making("b"):
        pass
    with made.making("b"):
        pass
    with pytest.raises(BoundReached), made.making("c"):
        pass
