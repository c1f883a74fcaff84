"""The gate in front of the wire, a member's place in its group, and the answers of a fetch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol import fetch
from aiokafka.protocol.produce import ProduceRequest

from app.brokers import aiokafka_adapter
from app.brokers.kafka import KafkaSettings
from app.brokers.kafka.addresses import addresses_of
from app.brokers.kafka.connection import ProducerConnection
from app.brokers.kafka.errors import Abandoned, KafkaRefusal
from app.brokers.kafka.fetch_request import FetchedPartition, found_in
from app.brokers.kafka.membership import NO_GENERATION, KafkaMembership
from app.errors import SetupError

FETCH_ANSWERS = [each for name, each in vars(fetch).items() if name.startswith("FetchResponse_v")]
SETTINGS = KafkaSettings(name="main", bootstrap_servers="127.0.0.1:1")


def produce(*places: tuple[str, int]) -> ProduceRequest:
    topics = [(topic, [(number, b"")]) for topic, number in places]
    return ProduceRequest(transactional_id=None, required_acks=-1, timeout=1, topics=topics)


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

    connection = ProducerConnection(SETTINGS, lambda _place: allowed)
    connection._send = send
    connection.client.ready = ready
    sender = connection._producer._sender
    assert sender.client is connection.client
    request = produce(("t", 0))
    assert await sender.client.send(1, request) is answer
    assert connection.refusals == {("t", 0): KafkaRefusal(87)}
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

    connection = ProducerConnection(SETTINGS, lambda _place: True, codes.append)
    connection._send = send
    connection.client.ready = ready
    await connection.client.send(1, produce(("t", 0)))
    assert connection.refusals == {("t", 0): KafkaRefusal(87, {2: "no key"})}
    await connection.client.send(1, produce(("t", 0)))
    assert connection.refusals == {("t", 0): KafkaRefusal(10)}
    assert (prepared, codes) == ([version] * 2, [87, 10])
    await connection.close()


async def test_a_consumer_tells_its_generation() -> None:
    """The epoch of ownership; aiokafka keeps it to itself."""
    consumer = AIOKafkaConsumer(group_id="g", bootstrap_servers="127.0.0.1:1")
    membership = KafkaMembership(consumer, session_timeout=1.0)
    consumer._coordinator = GroupCoordinator(
        consumer._client, consumer._subscription, group_id="g", enable_auto_commit=False
    )
    assert membership.generation == NO_GENERATION
    assert membership.removed
    consumer._coordinator.generation = 4
    assert membership.generation == 4
    assert not membership.removed
    assert callable(consumer._coordinator.fetch_committed_offsets)
    await consumer.stop()


@pytest.mark.parametrize("kind", [each for each in FETCH_ANSWERS if each.API_VERSION >= 4])
def test_an_answer_says_what_was_aborted_where_it_is_looked_for(kind: Any) -> None:
    """Each version that a broker may speak; an older one cannot hide what a transaction took back."""
    names = _names_of_a_partition(kind)
    assert names[:3] == ("partition", "error_code", "highwater_offset")
    assert names[-1] == "message_set"
    values = [b"raw" if name == "message_set" else 0 for name in names]
    values[names.index("aborted_transactions")] = [(7, 3)]
    answer = SimpleNamespace(API_VERSION=kind.API_VERSION, topics=[("t", [values])])
    assert found_in(answer) == {TopicPartition("t", 0): FetchedPartition(b"raw", [(7, 3)])}


def _names_of_a_partition(kind: Any) -> tuple[str, ...]:
    topics = kind.SCHEMA.fields[kind.SCHEMA.names.index("topics")]
    partitions = topics.array_of.fields[topics.array_of.names.index("partitions")]
    names: tuple[str, ...] = partitions.array_of.names
    return names


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("a", [("a", 9092)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]:5,[::1],::1", [("::1", 5), ("::1", 9092), ("::1", 9092)]),
    ],
)
def test_addresses_are_read_as_the_client_reads_them(
    servers: str, addresses: list[tuple[str, int]]
) -> None:
    assert addresses_of(servers) == addresses


def test_another_version_of_the_library_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    aiokafka_adapter.demand_known_aiokafka()
    monkeypatch.setattr(aiokafka_adapter, "KNOWN", ("0.1", "0.99"))
    cure = r"aiokafka 0\.\d+.*Cure: install aiokafka 0\.1 or 0\.99; .*aiokafka_adapter"
    with pytest.raises(SetupError, match=cure):
        aiokafka_adapter.demand_known_aiokafka()
