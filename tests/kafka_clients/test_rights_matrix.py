"""Who may write what on a Kafka listener: every login, every kind of record, exact errors, nothing stored that is refused."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from scramp import ScramClient
from scramp.core import Nonce

from app.access.who import ProducerDirectory
from app.bindings.record import Record
from app.kafka_listener.sasl import SaslUsers
from app.kafka_listener.wire import ErrorCode
from app.model.message import Partition
from app.model.producer import Producer as Settings
from kafka_batches import batch
from kafka_listening import KafkaTestListener, RawClient, framed, kafka_listening
from kafka_login import EVERY_TOPIC, MECHANISMS, log_in, produce_request, prove
from producer_listener import KEY, MAY, event_attributes

MODES = ("binary", "structured", "batch", "gzip")
PASSWORDS = {"shop": "the password of the shop", "free": "the password of the free one"}
GZIP = 1


def producers(**passwords: str) -> SaslUsers:
    """``shop`` has limits of every kind, and a key for HTTP too; ``free`` may write anything to one topic."""
    known = {**PASSWORDS, **passwords}
    write = {"shop": ["orders", "orders-*"], "free": ["orders"]}
    more: dict[str, Any] = {"shop": {"keys": [KEY], "may": MAY}}
    listed = [
        {"name": name, "kafka": {"password": known[name], "write": write[name]}, **more.get(name, {})}
        for name in write
    ]  # fmt: skip
    made = ProducerDirectory([Settings.model_validate(each) for each in listed])
    return SaslUsers(known, MECHANISMS, made.kafka)


@asynccontextmanager
async def listening(
    folder: Path, logins: SaslUsers | None = None
) -> AsyncIterator[KafkaTestListener]:
    async with kafka_listening(folder, logins=logins or producers(), denial=0.0) as kafka:
        for topic in ("orders", "rest"):
            await kafka.engine.create_topic(topic)
        yield kafka


def stored(kafka: KafkaTestListener) -> int:
    """Of both topics."""
    return sum(kafka.engine.partition(Partition(t, 0)).next_offset for t in ("orders", "rest"))


def record(event: Mapping[str, str], *, structured: bool = False) -> Record:
    if structured:
        kind = (("content-type", b"application/cloudevents+json"),)
        return Record(None, kind, json.dumps(event).encode())
    return Record(None, tuple((f"ce_{name}", text.encode()) for name, text in event.items()), b"{}")


def written(mode: str, event: Mapping[str, str]) -> bytes:
    """``event`` in a mode; a batch has an event before it that is allowed."""
    match mode:
        case "batch":
            return batch([record(event_attributes(number=0)), record(event)])
        case "gzip":
            return batch([record(event_attributes(number=0)), record(event, structured=True)], GZIP)
        case _:
            return batch([record(event, structured=mode == "structured")])


class Told(NamedTuple):
    """What a client is told of one batch."""

    code: ErrorCode
    offset: int
    message: str | None
    faults: list[tuple[int, str]]


async def produced(client: RawClient, data: bytes, *topics: str) -> list[Told]:
    answer = await client.call(produce_request(data, *topics))
    return [
        Told(part.error_code, part.base_offset, part.error_message, [
            (each.batch_index, each.batch_index_error_message) for each in part.record_errors
        ])
        for each in answer.responses
        for part in each.partition_responses
    ]  # fmt: skip


SOURCE, TYPE = ("Producer shop may not send source {!r}.", "Producer shop may not send type {!r}.")
SENT: list[tuple[Mapping[str, str], str]] = [
    (event_attributes(), ""),
    (event_attributes(source="/shop/../warehouse/1"), ""),  # compared as it is written
    (event_attributes(source="/shopping"), SOURCE.format("/shopping")),
    (event_attributes(kind="com.example.orders"), TYPE.format("com.example.orders")),
    (event_attributes(source="/a", kind="b"), f"{SOURCE.format('/a')} {TYPE.format('b')}"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_every_login_may_write_what_it_may_and_nothing_else(
    tmp_path: Path, mechanism: str, mode: str
) -> None:
    """Issue 19's matrix: allowed, a forbidden source, type, and both, to a topic that is allowed and to others.
    A batch is refused whole, and each of its faults is named."""
    count = 1 if mode in {"binary", "structured"} else 2
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        assert await log_in(client, mechanism, "shop", PASSWORDS["shop"]) is ErrorCode.none
        for event, fault in SENT:
            data, before = written(mode, event), stored(kafka)
            (told,) = await produced(client, data, "orders")
            if not fault:
                assert told == (ErrorCode.none, before, None, [])
                assert stored(kafka) == before + count
            else:
                faults = [(count - 1, fault)]
                assert told == (ErrorCode.invalid_record, -1, f"not allowed: {fault}", faults)
            for topic in ("rest", "no-such-topic"):  # nobody learns which there are
                (told,) = await produced(client, data, topic)
                denied = ErrorCode.topic_authorization_failed
                assert told == (denied, -1, f"writing to {topic} is not allowed", [])
            assert stored(kafka) == before + (0 if fault else count)
        assert set(kafka.engine.topics()) == {"orders", "rest"}
        values = kafka.counters.values()
        assert values["kafka_records"] == {("produced",): 2 * count}
        assert values["producer_refusals"] == {
            ("shop", "invalid_record"): 3,
            ("shop", "topic_authorization_failed"): 10,
        }
        await client.close()


@pytest.mark.parametrize(
    "made",
    [
        Record(None, (), b"{}"),
        Record(None, (("ce_specversion", b"1.0"), ("ce_id", b"1")), b"{}"),
        Record(None, (("content-type", b"application/cloudevents+json"),), b"[]"),
        Record(None, (("content-type", b"application/cloudevents+new"),), b"{}"),
    ],
    ids=["nothing of an event", "half of an event", "no document", "unknown format"],
)
async def test_what_is_no_event_is_written_by_whoever_has_no_limits_alone(
    tmp_path: Path, made: Record
) -> None:
    """Its source and type are not known."""
    for name, code in (("shop", ErrorCode.invalid_record), ("free", ErrorCode.none)):
        async with listening(tmp_path / name) as kafka:
            client = await kafka.connect()
            await log_in(client, "PLAIN", name, PASSWORDS[name])
            (told,) = await produced(client, batch([made]), "orders")
            assert (told.code, stored(kafka)) == (code, 1 if code is ErrorCode.none else 0)
            assert [index for index, _ in told.faults] == ([] if code is ErrorCode.none else [0])
            await client.close()


async def test_each_batch_of_a_request_is_judged_by_itself(tmp_path: Path) -> None:
    """As in Kafka: what is allowed is stored beside what is not."""
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await log_in(client, "PLAIN", "free", PASSWORDS["free"])
        told = await produced(client, written("binary", event_attributes()), "rest", "orders")
        denied = ErrorCode.topic_authorization_failed
        assert [each.code for each in told] == [denied, ErrorCode.none]
        assert stored(kafka) == 1
        await client.close()


@pytest.mark.parametrize(
    ("event", "topic"),
    [(event_attributes(source="/x"), "orders"), (event_attributes(), "rest")],
    ids=["source", "topic"],
)
async def test_without_answers_a_refusal_ends_the_connection(
    tmp_path: Path, event: Mapping[str, str], topic: str
) -> None:
    """``acks=0`` has no other way to say it, and is no way around the rights."""
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await log_in(client, "PLAIN", "shop", PASSWORDS["shop"])
        await client.send(framed(produce_request(written("binary", event), topic, acks=0)))
        assert await client.take() == b""
        assert stored(kafka) == 0
        await client.close()


def expired() -> str:
    """A token, as a producer that has some would show it over HTTP."""
    parts: Sequence[Any] = ({"alg": "ES256", "kid": "1"}, {"iss": "https://id.example", "exp": 1})
    text = ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode() for p in parts)
    return f"{text}.AAAA"


WRONG: dict[str, tuple[str, str]] = {
    "wrong password": ("shop", "x"),
    "no password": ("shop", ""),
    "nearly the password": ("shop", PASSWORDS["shop"][:-1]),
    "password of another": ("shop", PASSWORDS["free"]),
    "key for HTTP": ("shop", KEY),
    "expired token": ("shop", expired()),
    "unknown user": ("nobody", PASSWORDS["shop"]),
    "name in another case": ("Shop", PASSWORDS["shop"]),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("case", WRONG)
async def test_whoever_is_not_known_is_told_so_and_let_go(
    tmp_path: Path, case: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No step tells whether it was the name or the password, and neither is repeated."""
    name, password = WRONG[case]
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        denied = await log_in(client, mechanism, name, password)
        assert denied is ErrorCode.sasl_authentication_failed
        assert await client.take() == b""
        assert stored(kafka) == 0
        assert kafka.counters.values()["kafka_logins"] == {("denied",): 1}
        await client.close()
    assert not password or password not in caplog.text


async def no_login(client: RawClient) -> None:
    """It writes at once."""


async def another_mechanism(client: RawClient) -> None:
    unsupported = ErrorCode.unsupported_sasl_mechanism
    assert await log_in(client, "OAUTHBEARER", "shop", expired()) is unsupported


async def no_mechanism(client: RawClient) -> None:
    told = await prove(client, f"\0shop\0{PASSWORDS['shop']}")
    assert told.error_code is ErrorCode.illegal_sasl_state


async def half_a_login(client: RawClient) -> None:
    await client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
    await prove(client, ScramClient(["SCRAM-SHA-256"], "shop", "x").get_client_first())


@pytest.mark.parametrize("begin", [no_login, another_mechanism, no_mechanism, half_a_login])
async def test_nothing_is_written_before_a_login_is_over(
    tmp_path: Path, begin: Callable[[RawClient], Any]
) -> None:
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await begin(client)
        await client.send(framed(produce_request(written("binary", event_attributes()), "orders")))
        assert await client.take() == b""
        assert stored(kafka) == 0
        await client.close()


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("", ErrorCode.none),
        ("its-own", ErrorCode.none),
        ("another", ErrorCode.sasl_authentication_failed),
    ],
)
async def test_a_nonce_is_taken_once_or_behind_the_client_s_own(
    tmp_path: Path, before: str, code: ErrorCode
) -> None:
    """librdkafka before 2.6.1 says its own part again; RFC 5802 says it once."""
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        scram = ScramClient(["SCRAM-SHA-256"], "shop", PASSWORDS["shop"], c_nonce="its-own")
        first = await prove(client, scram.get_client_first())
        scram.set_server_first(first.auth_bytes.decode())
        scram.nonce = Nonce(before + str(scram.nonce))
        told = await prove(client, scram.get_client_final())
        assert told.error_code is code
        if code is ErrorCode.none:
            scram.set_server_final(told.auth_bytes.decode())
        await client.close()


async def test_nobody_acts_for_another(tmp_path: Path) -> None:
    """RFC 4616's second name."""
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
        told = await prove(client, f"free\0shop\0{PASSWORDS['shop']}")
        assert told.error_code is ErrorCode.sasl_authentication_failed
        assert told.error_message == "user name or password is wrong"
        assert await client.take() == b""
        await client.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_password_that_was_replaced_has_expired(tmp_path: Path, mechanism: str) -> None:
    """For who comes anew, and at the next request of who is there; the new one is taken."""
    async with listening(tmp_path) as kafka:
        there = await kafka.connect()
        assert await log_in(there, mechanism, "shop", PASSWORDS["shop"]) is ErrorCode.none
        kafka.node.logins = producers(shop="the new password")
        await there.send(framed(produce_request(written("binary", event_attributes()), "orders")))
        assert await there.take() == b""
        anew, new = await kafka.connect(), await kafka.connect()
        denied = await log_in(anew, mechanism, "shop", PASSWORDS["shop"])
        assert denied is ErrorCode.sasl_authentication_failed
        assert await log_in(new, mechanism, "shop", "the new password") is ErrorCode.none
        assert stored(kafka) == 0
        for each in (there, anew, new):
            await each.close()


async def test_topics_that_are_not_allowed_are_not_seen(tmp_path: Path) -> None:
    """Asked for all, and by name."""
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await log_in(client, "SCRAM-SHA-512", "shop", PASSWORDS["shop"])
        assert [each.name for each in (await client.call(EVERY_TOPIC)).topics] == ["orders"]
        await client.close()
