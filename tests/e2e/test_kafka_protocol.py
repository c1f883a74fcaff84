"""The wire between our Kafka driver and a real broker, read by somebody else: what passes is what the
protocol guide describes (seed 001).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from app.bindings.record import Record
from app.brokers.kafka import open_log
from app.model.message import Message, Partition
from app.model.receipt import Receipt
from kafka_relay import FETCH, METADATA, OFFSET, PRODUCE, KafkaRelay
from kafka_server import KafkaServer
from service_process import free_ports

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
