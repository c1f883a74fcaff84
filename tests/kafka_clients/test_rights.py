"""What a producer may do on a Kafka listener, asked by clients that were not written here."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.produce.v9.request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from app.access.who import Producers
from app.bindings.record import Record
from app.kafka_listener.sasl import Logins
from app.kafka_listener.server import READ_AHEAD
from app.model.producer import Producer as Settings
from app.runtime.clock import SystemClock
from kafka_batches import batch
from kafka_listening import Listening, RawClient, framed, kafka_listening
from listening import until

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORDS = {"shop": "of the shop", "reader": "of the reader", "old": "of the old form"}
OURS = "skybridge.shop."
EVENT = [("ce_specversion", "1.0"), ("ce_id", "1"), ("ce_type", "t"), ("ce_source", "/shop/1")]


def producers(**shop: Any) -> Producers:
    listed = [
        {"name": "shop", "kafka": {"password": "p", "write": ["orders", "orders-*"]}, **shop},
        {"name": "reader", "kafka": {"password": "p", "read": ["orders"], "groups": ["*"]}},
    ]
    return Producers([Settings.model_validate(each) for each in listed])


def logins(made: Producers, **passwords: str) -> Logins:
    return Logins({**PASSWORDS, **passwords}, MECHANISMS, made.kafka)


@asynccontextmanager
async def listening(folder: Path, **shop: Any) -> AsyncIterator[Listening]:
    made = producers(**shop)
    async with kafka_listening(folder, logins=logins(made), own_groups=OURS) as kafka:
        yield kafka


def words(user: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS.get(user, "x"),
    }


async def kcat(
    kafka: Listening, user: str, *args: str, stdin: bytes = b"", mechanism: str = "PLAIN"
) -> tuple[bytes, str]:
    """Its output, and what it complained of."""
    settings = [f"-X{name}={value}" for name, value in words(user, mechanism).items()]
    command = ["kcat", "-b", kafka.servers, *settings, *args]
    result = await asyncio.to_thread(
        subprocess.run, command, input=stdin, capture_output=True, timeout=180, check=False
    )
    return result.stdout, result.stderr.decode()


@pytest.mark.usefixtures("with_kcat")
async def test_topics_are_written_and_read_by_those_who_may(tmp_path: Path) -> None:
    """What is not allowed is refused as Kafka refuses it, and nothing is stored or told."""
    async with listening(tmp_path) as kafka:
        assert await kcat(kafka, "shop", "-P", "-t", "orders", stdin=b"one\n") == (b"", "")
        assert await kcat(kafka, "old", "-P", "-t", "other", stdin=b"two\n") == (b"", "")
        for user, topic in (("shop", "other"), ("shop", "new"), ("reader", "orders")):
            _, said = await kcat(kafka, user, "-P", "-t", topic, stdin=b"x\n")
            assert "authorization failed" in said.lower()
        for user, topic in (("shop", "orders"), ("reader", "other")):
            read, said = await kcat(kafka, user, "-C", "-t", topic, "-e", "-q")
            assert (read, "authorization failed" in said.lower()) == (b"", True)
        read, _ = await kcat(kafka, "reader", "-C", "-t", "orders", "-e", "-q")
        assert read == b"one\n"
        assert set(kafka.engine.topics()) == {"orders", "other"}
        listed, _ = await kcat(kafka, "reader", "-L")
        assert b'topic "orders"' in listed
        assert b"other" not in listed


@pytest.mark.usefixtures("with_kcat")
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_login_of_kcat_names_the_producer(tmp_path: Path, mechanism: str) -> None:
    """Its rights are the same, however it has proven who it is; who has not, writes nothing."""
    told = {"shop": "", "reader": "authorization failed", "nobody": "the login is not right"}
    async with listening(tmp_path) as kafka:
        for user, complaint in told.items():
            args = ("-P", "-t", "orders")
            _, said = await kcat(kafka, user, *args, stdin=b"x\n", mechanism=mechanism)
            assert complaint in said.lower()
            assert bool(said) is bool(complaint), said
        assert kafka.counters.values()["kafka_records"] == {("produced",): 1}


@pytest.mark.usefixtures("with_kcat")
@pytest.mark.parametrize(
    ("user", "group", "allowed"),
    [
        ("reader", "mine", True),
        ("shop", "mine", False),
        ("reader", f"{OURS}billing", False),
        ("old", f"{OURS}billing", False),
        ("old", "mine", True),
    ],
)
async def test_nobody_but_the_service_is_in_the_group_of_a_subscription(
    tmp_path: Path, user: str, group: str, allowed: bool
) -> None:
    """Whatever groups its user may use."""
    async with listening(tmp_path) as kafka:
        await kcat(kafka, "shop", "-P", "-t", "orders", stdin=b"one\n")
        earliest = "-Xauto.offset.reset=earliest"
        read, said = await kcat(kafka, user, earliest, "-G", group, "-c", "1", "-q", "orders")
        assert (read, "authorization" in said.lower()) == (
            (b"one\n", False) if allowed else (b"", True)
        )


async def send(kafka: Listening, *headers: tuple[str, str]) -> KafkaError | None:
    told: list[KafkaError | None] = []
    client = Producer({"bootstrap.servers": kafka.servers, **words("shop")})
    client.produce("orders", b"{}", headers=list(headers), on_delivery=lambda e, _: told.append(e))
    await asyncio.to_thread(client.flush, 60)
    return told[0]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (EVENT, None),
        ([*EVENT[:3], ("ce_source", "/warehouse/1")], KafkaError.INVALID_RECORD),
        ([*EVENT[:2], ("ce_type", "x"), EVENT[3]], KafkaError.INVALID_RECORD),
        (EVENT[:2], KafkaError.INVALID_RECORD),
        ([], KafkaError.INVALID_RECORD),
    ],
)
async def test_what_a_limited_producer_writes_is_always_looked_at(
    tmp_path: Path, headers: Any, code: int | None
) -> None:
    """In every topic: what is no event cannot be said to be allowed."""
    may = {"sources": ["/shop/*"], "types": ["t"]}
    async with listening(tmp_path, may=may) as kafka:
        error = await send(kafka, *headers)
        assert (None if error is None else error.code()) == code
        stored = kafka.counters.values().get("kafka_records", {})
        assert stored.get(("produced",), 0) == (1 if code is None else 0)


async def test_topics_as_a_whole_are_no_affair_of_a_producer(tmp_path: Path) -> None:
    """It may make those that it may write to, which writing would make too."""
    async with listening(tmp_path) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.servers, **words("shop")})

        async def code(done: Any) -> Any:
            try:
                await asyncio.to_thread(done.result, 60)
            except KafkaException as error:
                return error.args[0].code()
            return None

        made = admin.create_topics([NewTopic("orders", 1), NewTopic("other", 1)])
        denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert [await code(made[name]) for name in ("orders", "other")] == [None, denied]
        assert await code(admin.delete_topics(["orders"])["orders"]) == denied
        assert set(kafka.engine.topics()) == {"orders"}
        gone = admin.delete_consumer_groups(["a-group"])["a-group"]
        assert await code(gone) == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("change", ["gone", "other password", "no logins"])
async def test_a_user_that_is_taken_away_is_let_go_at_its_next_request(
    tmp_path: Path, change: str
) -> None:
    """On the connection that it has."""
    made = producers()
    async with listening(tmp_path) as kafka:
        client = await logged_in(kafka, "shop")
        ask = MetadataRequest(
            topics=None,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        assert (await client.call(ask)).topics == ()
        kafka.node.logins = {
            "gone": Logins({"old": "x"}, ["PLAIN"]),
            "other password": logins(made, shop="another one"),
            "no logins": None,
        }[change]
        if change == "no logins":
            assert (await client.call(ask)).topics == ()
        else:
            assert await client.ask(framed(ask)) == b""
        await client.close()


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


def asking(topic: str, records: bytes) -> ProduceRequest:
    part = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=-1,
        timeout=timedelta(seconds=60),
        topic_data=(TopicProduceData(name=topic, partition_data=(part,)),),
    )


def produced(count: int) -> ProduceRequest:
    return asking("orders", batch([Record(None, (), b"x")] * count))


async def logged_in(kafka: Listening, user: str) -> RawClient:
    client = await kafka.connect()
    await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
    token = f"\0{user}\0{PASSWORDS[user]}".encode()
    await client.call(SaslAuthenticateRequest(auth_bytes=token))
    return client


@asynccontextmanager
async def with_quota(
    folder: Path, events: str, burst: int, **settings: Any
) -> AsyncIterator[tuple[Listening, RawClient]]:
    """The listener, and a client that has said its name."""
    made = producers(quota={"events": events, "burst": burst})
    async with kafka_listening(folder, logins=logins(made), **settings) as kafka:
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
        other = await logged_in(kafka, "old")
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
            answer = await client.call(asking(topic, records))
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
