"""A member's place in its group, and the answers of a fetch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.protocol import fetch

from app.brokers import aiokafka_adapter
from app.brokers.kafka.addresses import addresses_of
from app.brokers.kafka.fetch_request import FetchedPartition, found_in
from app.brokers.kafka.membership import NO_GENERATION, KafkaMembership
from app.errors import SetupError

FETCH_ANSWERS = [each for name, each in vars(fetch).items() if name.startswith("FetchResponse_v")]


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
