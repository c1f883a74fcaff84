"""What this package leans on inside aiokafka: when one of these fails, a new version moved it."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.consumer.fetcher import Fetcher, PartitionRecords
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol import fetch
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest

from app.brokers.kafka import KafkaSettings
from app.brokers.kafka.connection import Connection, _places
from app.brokers.kafka.errors import Abandoned, Refusal
from app.brokers.kafka.fetch_request import Found, found_in
from app.brokers.kafka.membership import NOBODY, Membership

FETCH_ANSWERS = [each for name, each in vars(fetch).items() if name.startswith("FetchResponse_v")]
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
    answer = SimpleNamespace(API_VERSION=7, topics=[("t", [(0, 87, -1, -1, -1)])])

    async def send(_node: int, request: object, **_options: object) -> object:
        sent.append(request)
        return answer

    async def ready(_node: int, **_options: object) -> bool:
        return True

    connection = Connection(SETTINGS, lambda _place: allowed)
    connection._send = send
    connection.client.ready = ready
    sender = connection._producer._sender
    assert sender.client is connection.client
    request = produce(("t", 0))
    assert await sender.client.send(1, request) is answer
    assert connection.refusals == {("t", 0): Refusal(87)}
    allowed = False
    with pytest.raises(Abandoned):
        await sender.client.send(1, request)
    allowed, connection.tainted = True, True
    with pytest.raises(Abandoned):
        await sender.client.send(1, request)
    assert sent == [request]
    assert connection.refusals == {}, "an answer to an earlier request says nothing about this one"
    await connection.close()


@pytest.mark.parametrize(("newest", "version"), [(3, 3), (7, 7), (8, 8), (13, 8)])
async def test_produce_asks_for_the_words_of_the_broker_where_it_has_them(
    newest: int, version: int
) -> None:
    """aiokafka stops at version 7; version 8 answers which records are refused, and why (KIP-467)."""
    answers = [
        SimpleNamespace(API_VERSION=8, topics=[("t", [(0, 87, -1, -1, 0, [(2, "no key")], None)])]),
        SimpleNamespace(API_VERSION=8, topics=[("t", [(0, 10, -1, -1, 0, None, None)])]),
    ]
    prepared: list[int] = []
    codes: list[int] = []

    async def send(_node: int, request: Any, **_options: object) -> object:
        prepared.append(request.prepare({ProduceRequest.API_KEY: (3, newest)}).API_VERSION)
        return answers[len(prepared) - 1]

    async def ready(_node: int, **_options: object) -> bool:
        return True

    connection = Connection(SETTINGS, lambda _place: True, codes.append)
    connection._send = send
    connection.client.ready = ready
    await connection.client.send(1, produce(("t", 0)))
    assert connection.refusals == {("t", 0): Refusal(87, {2: "no key"})}
    await connection.client.send(1, produce(("t", 0)))
    assert connection.refusals == {("t", 0): Refusal(10)}
    assert (prepared, codes) == ([version] * 2, [87, 10])
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


def test_a_members_own_fetcher_is_a_task_that_can_be_ended() -> None:
    """Else each of a hundred members would fetch beside the fetches that they share."""
    assert "_fetch_task" in Fetcher.__init__.__code__.co_names
    assert "_fetch_task" in Fetcher.close.__code__.co_names
    assert "_fetcher" in AIOKafkaConsumer.start.__code__.co_names


def test_a_members_heartbeats_are_a_routine_that_can_be_another() -> None:
    """``heartbeats`` beats for all. The client begins the routine, cancels it, and raises what it raises."""
    names = {
        "_start_heartbeat_task": "_heartbeat_routine",
        "_stop_heartbeat_task": "cancel",
        "_heartbeat_routine": "_do_heartbeat",
        "_do_heartbeat": "_send_req",
        "reset_generation": "UNKNOWN_MEMBER_ID",
    }
    for method, name in names.items():
        assert name in getattr(GroupCoordinator, method).__code__.co_names
    assert callable(GroupCoordinator.ensure_coordinator_known)
    assert callable(GroupCoordinator.coordinator_dead)
    assert "_coordinator" in AIOKafkaConsumer.start.__code__.co_names


def test_records_of_a_fetch_are_made_as_the_clients_own_fetcher_makes_them() -> None:
    """``fetch_request`` gives these by their order."""
    assert list(inspect.signature(PartitionRecords).parameters) == [
        "tp",
        "records",
        "aborted_transactions",
        "fetch_offset",
        "key_deserializer",
        "value_deserializer",
        "check_crcs",
        "isolation_level",
    ]


@pytest.mark.parametrize("kind", [each for each in FETCH_ANSWERS if each.API_VERSION >= 4])
def test_an_answer_says_what_was_aborted_where_it_is_looked_for(kind: Any) -> None:
    """Each version that a broker may speak; an older one cannot hide what a transaction took back."""
    names = _names_of_a_partition(kind)
    assert names[:3] == ("partition", "error_code", "highwater_offset")
    assert names[-1] == "message_set"
    values = [b"raw" if name == "message_set" else 0 for name in names]
    values[names.index("aborted_transactions")] = [(7, 3)]
    answer = SimpleNamespace(API_VERSION=kind.API_VERSION, topics=[("t", [values])])
    assert found_in(answer) == {TopicPartition("t", 0): Found(b"raw", [(7, 3)])}


def _names_of_a_partition(kind: Any) -> tuple[str, ...]:
    topics = kind.SCHEMA.fields[kind.SCHEMA.names.index("topics")]
    partitions = topics.array_of.fields[topics.array_of.names.index("partitions")]
    names: tuple[str, ...] = partitions.array_of.names
    return names


def test_a_fetch_can_go_on_a_connection_of_its_own() -> None:
    for call in (AIOKafkaClient.ready, AIOKafkaClient.send):
        assert "group" in inspect.signature(call).parameters
    assert callable(AIOKafkaClient.add_topic)
    assert callable(AIOKafkaClient.set_topics)
