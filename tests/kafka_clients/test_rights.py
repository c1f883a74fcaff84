"""What a producer may do on a Kafka listener, asked by clients that were not written here."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from app.access.who import ProducerDirectory
from app.kafka_listener.sasl import SaslUsers
from app.model.producer import Producer as Settings
from kafka_listening import KafkaTestListener, framed, kafka_listening
from kafka_login import EVERY_TOPIC, MECHANISMS, log_in

PASSWORDS = {"shop": "of the shop", "reader": "of the reader", "old": "of the old form"}
OURS = "skybridge.shop."
EVENT = [("ce_specversion", "1.0"), ("ce_id", "1"), ("ce_type", "t"), ("ce_source", "/shop/1")]


def producers(**shop: Any) -> ProducerDirectory:
    listed = [
        {"name": "shop", "kafka": {"password": "p", "write": ["orders", "orders-*"]}, **shop},
        {"name": "reader", "kafka": {"password": "p", "read": ["orders"], "groups": ["*"]}},
    ]
    return ProducerDirectory([Settings.model_validate(each) for each in listed])


def logins(made: ProducerDirectory, **passwords: str) -> SaslUsers:
    return SaslUsers({**PASSWORDS, **passwords}, MECHANISMS, made.kafka)


@asynccontextmanager
async def listening(folder: Path, **shop: Any) -> AsyncIterator[KafkaTestListener]:
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
    kafka: KafkaTestListener, user: str, *args: str, stdin: bytes = b"", mechanism: str = "PLAIN"
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
    told = {
        "shop": "",
        "reader": "authorization failed",
        "nobody": "user name or password is wrong",
    }
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


async def send(kafka: KafkaTestListener, *headers: tuple[str, str]) -> KafkaError | None:
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
    """It may make those that it may write to, which writing would make too, and delete them while they are empty."""
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
        await kafka.engine.create_topic("orders-of-the-service", 1)
        assert await code(admin.delete_topics(["orders"])["orders"]) is None
        service = "orders-of-the-service"
        assert await code(admin.delete_topics([service])[service]) == denied
        assert set(kafka.engine.topics()) == {service}
        gone = admin.delete_consumer_groups(["a-group"])["a-group"]
        assert await code(gone) == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("change", ["gone", "other password", "no logins"])
async def test_a_user_that_is_taken_away_is_let_go_at_its_next_request(
    tmp_path: Path, change: str
) -> None:
    """On the connection that it has."""
    made = producers()
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await log_in(client, "PLAIN", "shop", PASSWORDS["shop"])
        assert (await client.call(EVERY_TOPIC)).topics == ()
        kafka.node.logins = {
            "gone": SaslUsers({"old": "x"}, ["PLAIN"]),
            "other password": logins(made, shop="another one"),
            "no logins": None,
        }[change]
        if change == "no logins":
            assert (await client.call(EVERY_TOPIC)).topics == ()
        else:
            assert await client.ask(framed(EVERY_TOPIC)) == b""
        await client.close()
