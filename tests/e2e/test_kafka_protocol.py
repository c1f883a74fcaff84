"""The wire between our Kafka driver and a real broker, read by somebody else: what passes is what the
protocol guide describes (seed 001).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode

from app.bindings.record import Record
from app.brokers.kafka import open_log
from app.model.message import Message, Partition
from app.model.receipt import Receipt
from free_ports import free_ports
from kafka_batches import batch
from kafka_listening import RawClient, kafka_listening
from kafka_relay import FETCH, METADATA, OFFSET, PRODUCE, KafkaRelay
from kafka_server import KafkaServer
from versioned_client import VersionedClient, part, versions

CLIENT = "skybridge-capture"
RECORDS = [Record(b"k", (("ce_id", b"%d" % n),), b"x" * n) for n in range(50)]


class RelayedKafka(KafkaServer):
    """A broker that tells clients of one listener to come by way of a relay."""

    def __init__(self) -> None:
        super().__init__()
        self.relayed_port, self.relay_port = free_ports(2)

    def _properties(self) -> dict[str, str]:
        plain = super()._properties()
        return {
            **plain,
            "listeners": f"{plain['listeners']},RELAYED://127.0.0.1:{self.relayed_port}",
            "advertised.listeners": (
                f"{plain['advertised.listeners']},RELAYED://127.0.0.1:{self.relay_port}"
            ),
            "listener.security.protocol.map": (
                f"{plain['listener.security.protocol.map']},RELAYED:PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
        }


@pytest.fixture(scope="module")
def relayed(kafka: str) -> Iterator[RelayedKafka]:
    """``kafka`` skips or fails where there is none to be had."""
    server = RelayedKafka()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def relay(relayed: RelayedKafka) -> AsyncIterator[KafkaRelay]:
    async with KafkaRelay(relayed.relay_port, relayed.relayed_port).running() as relay:
        yield relay


async def _all_four_operations(address: str, topic: str) -> list[Message]:
    """Metadata, Produce, Offset and Fetch, as the gateway and the worker ask for them."""
    log = open_log(name="main", bootstrap_servers=address, client_id=CLIENT)
    await log.start()
    try:
        await log.create_topic(topic, 1)
        results = await log.submit(topic, RECORDS)
        assert all(isinstance(result, Receipt) for result in results), results
        found = await log.metadata([topic])
        (partition,) = found.topics[0].partitions
        assert (partition.earliest, partition.latest) == ("0", str(len(RECORDS)))
        return [message async for message in log.read(Partition(topic, 0), "0")]
    finally:
        await log.stop()


async def test_the_four_operations_pass_in_frames_as_the_guide_has_them(
    relayed: RelayedKafka, relay: KafkaRelay
) -> None:
    """Seed 001, Network, Requests, Responses: every message has its size, each request names its
    operation, version, correlation id and client, and each response brings that id back unmodified.
    A client that framed wrongly would leave loose bytes or answers without a question.
    """
    messages = await _all_four_operations(f"127.0.0.1:{relay.port}", "captured")
    assert [message.record.body for message in messages] == [record.body for record in RECORDS]
    asked = {request.api_key for request in relay.requests}
    assert {METADATA, PRODUCE, FETCH, OFFSET} <= asked
    for conversation in relay.conversations:
        sent = [request.correlation_id for request in conversation.requests]
        assert conversation.answered == sent[: len(conversation.answered)], "in order, unmodified"
        assert len(sent) - len(conversation.answered) <= 1, "all answered but one cut off at close"
        assert conversation.loose == {"requests": 0, "responses": 0}
        assert len(set(sent)) == len(sent), "one id a request"


async def test_every_request_names_our_client(relayed: RelayedKafka, relay: KafkaRelay) -> None:
    """Seed 001, ClientId: what the broker's operator finds in logs and quotas is the setting."""
    await _all_four_operations(f"127.0.0.1:{relay.port}", "named")
    named = {request.client_id for request in relay.requests}
    assert named == {CLIENT}, named
    assert all(request.api_version >= 0 and request.size > 10 for request in relay.requests)


KEYED, KEYLESS, ZSTD = (
    batch([Record(b"k", (), b"x")]),
    batch([Record(None, (), b"x")]),
    batch([Record(b"k", (), b"x" * 100)], 4),
)


async def codes(address: str, refusing: str, version: int, *batches: bytes) -> list[ErrorCode]:
    """What a Produce request is answered, by its topics: ``refusing`` gets the first batch, ``plain`` the others."""
    host, _, port = address.rpartition(":")
    client = VersionedClient(RawClient(*await asyncio.open_connection(host, int(port))))
    topics = [refusing, *(["plain"] * (len(batches) - 1))]
    answer = await client.ask(
        0,
        version,
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=60),
        topic_data=[
            part(
                "TopicProduceData",
                name=topic,
                partition_data=[part("PartitionProduceData", index=0, records=data)],
            )
            for topic, data in zip(topics, batches, strict=True)
        ],
    )
    await client.close()
    found = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    return [found[topic] for topic in topics]


async def test_a_refused_batch_is_answered_as_kafka_answers_it(kafka: str, tmp_path: Path) -> None:
    """In every version, beside a batch that is stored: the same codes, and no end of the connection."""
    refusing = f"refusing-{uuid4()}"
    admin = AdminClient({"bootstrap.servers": kafka})
    made = admin.create_topics(
        [NewTopic(refusing, 1, config={"cleanup.policy": "compact"}), NewTopic("plain", 1)]
    )
    for each in made.values():
        with suppress(KafkaException):
            await asyncio.to_thread(each.result, 60)
    async with kafka_listening(tmp_path, validated=("strict",)) as ours:
        for topic in ("strict", "plain"):
            await ours.engine.create_topic(topic, 1)
        for version in versions(0):
            expected = await codes(kafka, refusing, version, KEYLESS, KEYED)
            assert expected == [ErrorCode.invalid_record, ErrorCode.none], version
            found = await codes(ours.servers, "strict", version, KEYLESS, KEYED)
            assert found == expected, version
            expected = await codes(kafka, "plain", version, ZSTD)
            assert await codes(ours.servers, "plain", version, ZSTD) == expected, version
        assert ours.engine.partition(Partition("plain", 0)).next_offset == len(versions(0)) + 5
