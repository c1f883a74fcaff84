"""What this package leans on inside aiokafka: when one of these fails, a new version moved it."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol.metadata import MetadataRequest
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


def test_the_fetcher_asks_for_its_records_by_names_that_we_may_replace() -> None:
    """Else one header's name stops a partition for ever (``records``)."""
    asked = Fetcher._proc_fetch_request.__code__.co_names
    assert {"MemoryRecords", "PartitionRecords"} <= set(asked)


def test_the_admin_client_sends_what_any_node_may_answer_through_one_call() -> None:
    """Where a dead node is passed over; and what only the controller may, through another."""
    assert "_send_to_controller" in AIOKafkaAdminClient.create_topics.__code__.co_names
    assert "_send_request" in AIOKafkaAdminClient._get_cluster_metadata.__code__.co_names
    assert "_send_request" in AIOKafkaAdminClient.find_coordinator.__code__.co_names


async def test_an_admin_client_can_be_asked_for_what_it_does_not_offer() -> None:
    """``questions`` sends Metadata and Offset requests through the client inside it."""
    client = AIOKafkaAdminClient(bootstrap_servers="127.0.0.1:1")
    assert callable(client._client.send)
    assert (
        MetadataRequest(["t"], allow_auto_topic_creation=False)._allow_auto_topic_creation is False
    )


def test_a_connection_asks_for_its_authenticator_by_a_name_that_we_may_replace() -> None:
    """Else a token that is refused is waited for, and nobody learns why (``bearer``)."""
    assert "OAuthAuthenticator" in AIOKafkaConnection.authenticator_oauth.__code__.co_names
