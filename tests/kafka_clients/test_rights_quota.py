"""A producer beyond its quota on a Kafka listener: it waits, holds nothing of others, and pays for what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.produce.v9.request import ProduceRequest

from app.access.who import ProducerDirectory
from app.bindings.record import Record
from app.interfaces.clock import SystemClock
from app.kafka_listener.sasl import SaslUsers
from app.kafka_listener.server import READ_AHEAD
from app.model.producer import Producer as Settings
from kafka_batches import batch
from kafka_listening import KafkaTestListener, RawClient, framed, kafka_listening
from kafka_login import log_in, produce_request
from waiting import until

PASSWORD = "of both"


class Waiting(SystemClock):
    """Says how long it was made to wait, and does not."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.waited: list[float] = []

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.at += seconds


def produced(count: int) -> ProduceRequest:
    return produce_request(batch([Record(None, (), b"x")] * count), "orders")


async def logged_in(kafka: KafkaTestListener, user: str) -> RawClient:
    client = await kafka.connect()
    await log_in(client, "PLAIN", user, PASSWORD)
    return client


@asynccontextmanager
async def with_quota(
    folder: Path, events: str, burst: int, **settings: Any
) -> AsyncIterator[tuple[KafkaTestListener, RawClient]]:
    """The listener, and a client that has said its name."""
    shop = Settings.model_validate({
        "name": "shop", "kafka": {"password": PASSWORD, "write": ["orders"]},
        "quota": {"events": events, "burst": burst},
    })  # fmt: skip
    made = ProducerDirectory([shop])
    logins = SaslUsers({"shop": PASSWORD, "other": PASSWORD}, ["PLAIN"], made.kafka)
    async with kafka_listening(folder, logins=logins, **settings) as kafka:
        await kafka.engine.create_topic("orders")
        client = await logged_in(kafka, "shop")
        yield kafka, client
        await client.close()


async def test_a_producer_beyond_its_quota_is_held_back_and_holds_nothing(tmp_path: Path) -> None:
    """Its next request is not read, so that it takes no room from others; it may go at any time."""
    async with with_quota(tmp_path, "100/h", 5) as (kafka, client):
        answer = await client.call(produced(8))
        assert answer.throttle_time.total_seconds() == pytest.approx(3 * 36, rel=0.01)
        await client.send(framed(produced(8)))
        other = await logged_in(kafka, "other")
        (topic,) = (await other.call(produced(1))).responses
        assert topic.partition_responses[0].base_offset == 8  # the second eight are not there
        assert kafka.listener.held == 0
        await client.close()
        await until(lambda: kafka.listener.connections == 1)
        await other.close()


async def test_what_comes_behind_a_debt_stays_with_the_client(tmp_path: Path) -> None:
    """It is in no room, and a thousand connections may be in debt."""
    async with with_quota(tmp_path, "1/h", 1) as (kafka, client):
        await client.call(produced(2))
        frame = framed(produced(10_000))
        sending = asyncio.create_task(client.send(frame * (16_000_000 // len(frame))))
        (connection,) = kafka.listener._connections.values()
        reader: Any = connection._reader
        await until(lambda: reader._paused)
        assert len(reader._buffer) <= 2 * READ_AHEAD + (256 << 10)  # and one read of the system
        assert kafka.listener.held == 0
        sending.cancel()
        await asyncio.wait((sending,))
        client.writer.transport.abort()  # what is left will never be taken


async def test_a_debt_of_months_is_answered_like_any_other(tmp_path: Path) -> None:
    """What is stored must be said to be: the protocol has room for 24 days."""
    async with with_quota(tmp_path, "1/h", 1) as (_, client):
        answer = await client.call(produced(2_000))
        (topic,) = answer.responses
        assert topic.partition_responses[0].base_offset == 0
        assert answer.throttle_time.total_seconds() == 3_600


@pytest.mark.parametrize(
    ("topic", "records"),
    [
        ("other", batch([Record(None, (), b"x")] * 3)),
        ("orders", b""),
        ("orders", b"\0" * 80),
        ("orders", b"\xff" * 80),
    ],
    ids=["not allowed", "empty", "zeros", "a count below zero"],
)
async def test_a_batch_that_brings_no_event_costs_one(
    tmp_path: Path, topic: str, records: bytes
) -> None:
    """A flood of what is refused is held back like any other."""
    async with with_quota(tmp_path, "1/h", 3) as (kafka, client):
        for wait in (0, 0, 0, 3_600):
            answer = await client.call(produce_request(records, topic))
            (told,) = answer.responses[0].partition_responses
            assert told.base_offset == -1
            assert answer.throttle_time.total_seconds() == pytest.approx(wait, rel=0.01)
        counts = kafka.counters.values()
        assert sum(counts["producer_refusals"].values()) == 4
        assert counts.get("producer_events", {}).get(("shop",), 0) == 0


async def test_a_long_debt_ends_a_connection_as_a_long_silence_does(tmp_path: Path) -> None:
    """A client that went away behind what it had sent would hold its connection for months."""
    clock = Waiting()
    settings: Any = {"clock": clock, "idle_timeout": 60.0}
    async with with_quota(tmp_path, "1/h", 1, **settings) as (kafka, client):
        await client.call(produced(2_000))
        assert await client.take() == b""
        assert clock.waited == [60.0]
        await until(lambda: kafka.listener.connections == 0)
