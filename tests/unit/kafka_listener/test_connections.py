"""Connections to the Kafka listener: bounds, ends, logins."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Producer
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from app.errors import SetupError
from app.kafka_listener.apis import APIS
from app.kafka_listener.room import ByteBudget
from app.kafka_listener.sasl import SaslUsers
from app.kafka_listener.server import KafkaListenerServer
from app.kafka_listener.wire import ErrorCode
from authority import Authority
from kafka_listening import framed, kafka_listening, unframed
from waiting import until

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
ALL = MetadataRequest(
    topics=None,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)
WAITING = FetchRequest(
    max_wait=timedelta(seconds=50),
    min_bytes=1,
    topics=(
        FetchTopic(
            topic="t",
            partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1),),
        ),
    ),
    forgotten_topics_data=(),
)
USERS = {"ann": "p,w=1", "bob é": "x"}


async def test_what_is_offered_is_told(tmp_path: Path) -> None:
    """The table and nothing else."""
    async with kafka_listening(tmp_path) as kafka:
        client = await kafka.connect()
        found = await client.call(VERSIONS)
        assert {each.api_key: (each.min_version, each.max_version) for each in found.api_keys} == {
            api.key: (api.oldest, api.newest) for api in APIS.values()
        }
        await client.close()


async def test_a_malformed_frame_ends_its_connection_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line says why, and none of the next minute, so that no peer fills the log (S1). What was asked before is
    answered."""
    async with kafka_listening(tmp_path) as kafka:
        good, bad = await kafka.connect(), await kafka.connect()
        with caplog.at_level(logging.WARNING):
            bad.writer.write(b"\0\0\0\4junk")
            assert await bad.take() == b""
        await good.call(ALL)
        good.writer.write(len(framed(ALL)).to_bytes(4, "big") + framed(ALL) + b"\x7f\0\0\0junk")
        assert unframed(ALL, await good.take()).topics == ()
        assert await good.take() == b""
        assert kafka.counters.total("kafka_refused_frames") == 2
        assert len([r for r in caplog.records if "closed" in r.getMessage()]) == 1
        await bad.close()
        await good.close()
        assert kafka.listener.held == 0


async def test_frames_and_connections_are_bounded(tmp_path: Path) -> None:
    """Rule 8: what one client holds, all others lack."""
    async with kafka_listening(tmp_path, max_frame=1_000, connections=2) as kafka:
        clients = [await kafka.connect() for _ in range(2)]
        for each in clients:
            await each.call(ALL)
        third = await kafka.connect()
        assert await third.take() == b""
        clients[0].writer.write((1_001).to_bytes(4, "big"))
        assert await clients[0].take() == b""
        clients[1].writer.write((0).to_bytes(4, "big"))
        assert await clients[1].take() == b""
        for each in (*clients, third):
            await each.close()
        await until(lambda: kafka.listener.connections == 0)
        assert kafka.counters.values()["kafka_connections"] == {("accepted",): 2, ("refused",): 1}


async def test_silence_and_half_a_frame_end_a_connection(tmp_path: Path) -> None:
    """Slow clients must not hold connections and room for ever."""
    async with kafka_listening(tmp_path, idle_timeout=0.1, frame_timeout=0.1) as kafka:
        silent, half = await kafka.connect(), await kafka.connect()
        half.writer.write(b"\0\0\1\0\0\0")
        assert await silent.take() == await half.take() == b""
        await silent.close()
        await half.close()
        assert kafka.listener.held == 0


async def test_tls_handshakes_are_bounded_in_number_and_in_time(tmp_path: Path) -> None:
    """A connection that never says hello stands beside those that are open, and is let go."""
    certificate, key = Authority(tmp_path).server("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    bounds = {"connections": 2, "handshake_timeout": 1.0}
    async with kafka_listening(tmp_path / "log", tls=context, **bounds) as kafka:
        silent = [await kafka.connect() for _ in range(2)]
        third = await kafka.connect()
        assert await third.take() == b""
        assert kafka.counters.values()["kafka_connections"] == {("refused",): 1}
        assert [await each.take() for each in silent] == [b"", b""]
        for each in (*silent, third):
            await each.close()


async def test_a_stop_answers_what_is_in_work(tmp_path: Path) -> None:
    """Rule 11: a Fetch that waits is answered at once, and the connection is closed."""
    async with kafka_listening(tmp_path) as kafka:
        await kafka.engine.create_topic("t", 1)
        client = await kafka.connect()
        await client.send(framed(WAITING))
        await until(lambda: kafka.counters.total("kafka_requests") == 1)
        await kafka.listener.stop(20.0)
        assert unframed(WAITING, await client.take()).error_code is ErrorCode.none
        assert await client.take() == b""
        await client.close()


async def test_a_taken_port_is_said_at_the_start(tmp_path: Path) -> None:
    """With the setting and a cure."""
    async with kafka_listening(tmp_path) as kafka:
        node = kafka.node
        node.settings = type(node.settings)(host="127.0.0.1", port=kafka.listener.address[1])
        with pytest.raises(SetupError, match="cannot listen") as error:
            await KafkaListenerServer(node, setting="brokers.log.kafka_listener.listen").start()
        assert error.value.setting == "brokers.log.kafka_listener.listen"


async def test_room_is_given_in_turn() -> None:
    """Nobody is passed over for being large, and who gives up leaves the turn to the next."""
    room = ByteBudget(10)
    await room.take(6)
    waiting = [asyncio.ensure_future(room.take(size)) for size in (5, 20, 1)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    room.give(6)
    await asyncio.sleep(0)
    assert [each.done() for each in waiting] == [True, False, False]
    waiting[1].cancel()
    with suppress(asyncio.CancelledError):
        await waiting[1]
    await waiting[2]
    assert room.held == 6
    room.give(5)
    room.give(1)
    await room.take(99)
    assert room.held == 99


async def test_nothing_is_told_before_a_login(tmp_path: Path) -> None:
    """But what is offered; nor is much room given."""
    async with kafka_listening(tmp_path, logins=SaslUsers(USERS, ["PLAIN"])) as kafka:
        client, large = await kafka.connect(), await kafka.connect()
        assert (await client.call(VERSIONS)).error_code is ErrorCode.none
        found = await client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-1"))
        assert found.error_code is ErrorCode.unsupported_sasl_mechanism
        assert found.mechanisms == ("PLAIN",)
        found = await client.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0p,w=1"))
        assert found.error_code is ErrorCode.illegal_sasl_state
        assert await client.ask(framed(ALL)) == b""
        large.writer.write((1 << 20).to_bytes(4, "big"))
        assert await large.take() == b""
        await client.close()
        await large.close()


@pytest.mark.parametrize("token", [b"\0ann\0wrong", b"\0eve\0x", b"bob\0ann\0p,w=1", b"", b"\xff"])
async def test_a_failed_login_is_told_late_and_ends_the_connection(
    tmp_path: Path, token: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a word on what was wrong; no secret is logged."""
    logins = SaslUsers(USERS, ["PLAIN"])
    async with kafka_listening(tmp_path, logins=logins, denial=0.05) as kafka:
        client = await kafka.connect()
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
        found = await client.call(SaslAuthenticateRequest(auth_bytes=token))
        assert found.error_code is ErrorCode.sasl_authentication_failed
        assert found.error_message == "user name or password is wrong"
        assert await client.take() == b""
        await client.close()
    assert "login denied" in caplog.text
    assert "wrong" not in caplog.text
    assert "p,w=1" not in caplog.text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", sorted(USERS))
async def test_foreign_clients_log_in_over_tls(tmp_path: Path, mechanism: str, user: str) -> None:
    """aiokafka and librdkafka, each mechanism, names and passwords with SCRAM's own signs in them."""
    authority = Authority(tmp_path)
    certificate, key = authority.server("localhost", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    logins = SaslUsers(USERS, [mechanism])
    async with kafka_listening(tmp_path / "log", tls=context, logins=logins) as kafka:
        settings = {
            "bootstrap_servers": kafka.servers,
            "security_protocol": "SASL_SSL",
            "ssl_context": ssl.create_default_context(cafile=authority.ca),
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
        }
        producer = AIOKafkaProducer(sasl_plain_password=USERS[user], **settings)
        await producer.start()
        await producer.send_and_wait("t", b"from aiokafka", partition=0)
        await producer.stop()
        stranger = AIOKafkaConsumer(sasl_plain_password="other", **settings)
        with pytest.raises(KafkaConnectionError):
            await stranger.start()
        await stranger.stop()
        told: list[object] = []
        await asyncio.to_thread(
            _send, kafka.servers, authority.ca, mechanism, user, USERS[user], told
        )
        assert told == [None]
        assert kafka.counters.values()["kafka_logins"]["denied",] >= 1


def _send(
    servers: str, ca: str, mechanism: str, user: str, password: str, told: list[object]
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": ca,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "message.timeout.ms": 60_000,
        }
    )
    producer.produce("t", b"from librdkafka", on_delivery=lambda error, _: told.append(error))
    producer.flush(90)


async def test_who_goes_while_others_of_his_requests_wait_is_noticed(tmp_path: Path) -> None:
    """A request behind a Fetch that waits must not keep the end of the connection from being seen."""
    async with kafka_listening(tmp_path) as kafka:
        await kafka.engine.create_topic("t", 1)
        client = await kafka.connect()
        await client.send(framed(WAITING))
        await client.send(framed(ALL))
        await until(lambda: kafka.counters.total("kafka_requests") == 1)
        client.writer.write_eof()
        await until(lambda: kafka.listener.connections == 0)
        assert kafka.counters.values()["kafka_requests"]["Metadata",] == 1
        assert kafka.listener.held == 0
        await client.close()


@pytest.mark.parametrize("users", [{"ann": "new"}, {"bob": "x"}])
async def test_a_login_is_judged_by_the_users_at_its_end(
    tmp_path: Path, users: dict[str, str]
) -> None:
    """A password that was replaced, or a user that went, while the login was under way (reliability S14)."""
    logins = SaslUsers({"ann": "old"}, ["PLAIN"])
    async with kafka_listening(tmp_path, logins=logins, denial=0.05) as kafka:
        client = await kafka.connect()
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
        kafka.node.logins = SaslUsers(users, ["PLAIN"])
        found = await client.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0old"))
        assert found.error_code is ErrorCode.sasl_authentication_failed
        assert await client.take() == b""
        await client.close()


async def test_a_login_under_way_may_be_needed_no_more(tmp_path: Path) -> None:
    """Logins are switched off meanwhile: the client is let in, as everybody is."""
    async with kafka_listening(tmp_path, logins=SaslUsers(USERS, ["PLAIN"])) as kafka:
        client = await kafka.connect()
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
        kafka.node.logins = None
        found = await client.call(SaslAuthenticateRequest(auth_bytes=b"\0ann\0p,w=1"))
        assert found.error_code is ErrorCode.none
        assert (await client.call(ALL)).topics == ()
        await client.close()
