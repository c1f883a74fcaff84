"""What this package leans on inside aiokafka: when one of these fails, a new version moved it."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol.produce import ProduceRequest

from app.brokers.kafka import KafkaSettings
from app.brokers.kafka.connection import Connection, _places
from app.brokers.kafka.errors import Abandoned
from app.brokers.kafka.membership import NOBODY, Membership

SETTINGS = KafkaSettings(name="main", bootstrap_servers="127.0.0.1:1")


def produce(*places: tuple[str, int]) -> ProduceRequest:
    topics = [(topic, [(number, b"")]) for topic, number in places]
    return ProduceRequest(transactional_id=None, required_acks=-1, timeout=1, topics=topics)


def test_a_produce_request_tells_its_partitions() -> None:
    """The gate must know whose batch it holds."""
    assert _places(produce(("a", 0), ("b", 3))) == [("a", 0), ("b", 3)]


async def test_every_produce_request_passes_the_gate() -> None:
    """Rule 9: aiokafka sends through ``client.send``, and resends through it too."""
    sent: list[object] = []
    allowed = True

    async def send(_node: int, request: object, **_options: object) -> str:
        sent.append(request)
        return "sent"

    async def ready(_node: int, **_options: object) -> bool:
        return True

    connection = Connection(SETTINGS, lambda _place: allowed)
    connection._send = send
    connection.client.ready = ready
    sender = connection._producer._sender
    assert sender.client is connection.client
    request = produce(("t", 0))
    assert await sender.client.send(1, request) == "sent"
    allowed = False
    with pytest.raises(Abandoned):
        await sender.client.send(1, request)
    allowed, connection.tainted = True, True
    with pytest.raises(Abandoned):
        await sender.client.send(1, request)
    assert sent == [request]
    await connection.close()


async def test_a_consumer_tells_its_generation() -> None:
    """The epoch of ownership; aiokafka keeps it to itself."""
    consumer = AIOKafkaConsumer(group_id="g", bootstrap_servers="127.0.0.1:1")
    membership = Membership(consumer, session_timeout=1.0)
    consumer._coordinator = GroupCoordinator(
        consumer._client, consumer._subscription, group_id="g", enable_auto_commit=False
    )
    assert membership.generation == NOBODY
    assert membership.thrown_out
    consumer._coordinator.generation = 4
    assert membership.generation == 4
    assert not membership.thrown_out
    assert callable(consumer._coordinator.fetch_committed_offsets)
    await consumer.stop()
