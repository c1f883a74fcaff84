"""One client takes nothing away from the others: places, tries of passwords, topics, groups, producers."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from app.access.quota import SharedLimit
from app.access.who import ProducerDirectory
from app.bindings.record import Record
from app.gateway.door import network_of
from app.interfaces.clock import SystemClock
from app.kafka_listener.room import ByteBudget
from app.kafka_listener.sasl import SaslUsers
from app.kafka_listener.wire import ErrorCode
from app.log.engine import LogEngine
from app.log.groups import positions
from app.log.settings import EngineSettings
from app.model.message import Partition
from app.model.producer import Producer as Settings
from authority import Authority
from kafka_batches import batch
from kafka_listening import LOCAL, KafkaTestListener, RawClient, kafka_listening
from kafka_login import EVERY_TOPIC, log_in, prove
from versioned_client import VersionedClient, part
from waiting import until

PASSWORDS = {"scan": "of the scanner", "shop": "of the shop", "admin": "of the old form"}
NONE, DENIED = ErrorCode.none, ErrorCode.sasl_authentication_failed
PRODUCE, JOIN, COMMIT, HEARTBEAT, LEAVE, CREATE, DELETE = 0, 11, 8, 12, 13, 19, 20
DELETE_GROUPS = 42
MS = timedelta(milliseconds=1)


def logins(**scan: Any) -> SaslUsers:
    def rights(name: str, **more: Any) -> dict[str, Any]:
        names = [f"{name}*"]
        return {"password": "p", "write": names, "read": names, "groups": names, **more}

    listed = [
        {"name": "scan", "kafka": rights("scan", **scan)},
        {"name": "shop", "kafka": rights("shop")},
    ]
    made = ProducerDirectory([Settings.model_validate(each) for each in listed])
    return SaslUsers(PASSWORDS, ["PLAIN"], made.kafka)


@asynccontextmanager
async def listening(
    folder: Path, rights: Any = None, **given: Any
) -> AsyncIterator[KafkaTestListener]:
    async with kafka_listening(
        folder, logins=logins(**(rights or {})), **{"denial": 0.0, **given}
    ) as kafka:
        yield kafka


async def raw(kafka: KafkaTestListener, user: str, **source: Any) -> RawClient:
    client = RawClient(*await asyncio.open_connection(*kafka.listener.address, **source))
    assert await log_in(client, "PLAIN", user, PASSWORDS[user]) is NONE
    return client


async def asking(kafka: KafkaTestListener, user: str) -> VersionedClient:
    return VersionedClient(await raw(kafka, user), user)


# places for connections


async def test_silent_strangers_give_their_places_up(tmp_path: Path) -> None:
    """1,005 of them locked users out for as long as they liked."""
    async with listening(tmp_path, connections=20) as kafka:
        silent = [await kafka.connect() for _ in range(40)]
        user = await raw(kafka, "shop")
        assert kafka.listener.connections <= 20
        await user.call(EVERY_TOPIC)
        for each in (*silent, user):
            await each.close()


async def test_silent_clients_give_their_places_up_where_nobody_logs_in(tmp_path: Path) -> None:
    async with kafka_listening(tmp_path, connections=20) as kafka:
        silent = [await kafka.connect() for _ in range(40)]
        client = await kafka.connect()
        await client.call(EVERY_TOPIC)
        for each in (*silent, client):
            await each.close()


async def test_strangers_of_one_address_have_a_share_of_the_places(tmp_path: Path) -> None:
    async with listening(tmp_path, connections=100) as kafka:
        silent = [await kafka.connect() for _ in range(60)]
        await until(lambda: kafka.listener.connections == 25)
        assert [await each.take() for each in silent[:35]] == [b""] * 35
        elsewhere = await raw(kafka, "shop", local_addr=("127.0.0.2", 0))
        assert kafka.listener.connections == 26
        for each in (*silent, elsewhere):
            await each.close()


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and its clients'."""
    authority = Authority(folder)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*authority.server(LOCAL))
    return server, ssl.create_default_context(cafile=authority.ca)


async def test_strangers_over_tls_give_their_places_up(tmp_path: Path) -> None:
    """Those that say nothing after their handshakes, and those that begin none."""
    server, trusting = contexts(tmp_path)
    async with listening(tmp_path / "log", connections=40, tls=server) as kafka:
        silent = [
            RawClient(*await asyncio.open_connection(*kafka.listener.address, ssl=trusting))
            for _ in range(50)
        ]
        mute = [await kafka.connect() for _ in range(60)]
        async with asyncio.timeout(30):
            user = await raw(kafka, "shop", ssl=trusting)
            await user.call(EVERY_TOPIC)
        assert kafka.listener.connections <= 40
        for each in (*silent, *mute, user):
            await each.close()


async def test_a_user_with_many_connections_gives_places_up(tmp_path: Path) -> None:
    """The one that is silent for longest, and only where all places are taken; others keep theirs."""
    async with listening(tmp_path, connections=20) as kafka:
        first = await raw(kafka, "shop")
        crowd = [await raw(kafka, "scan") for _ in range(19)]
        await crowd[0].call(EVERY_TOPIC)
        second = await raw(kafka, "shop")
        assert await crowd[1].take() == b""
        for each in (first, second, crowd[0], crowd[2]):
            await each.call(EVERY_TOPIC)
        for each in (first, second, *crowd):
            await each.close()


async def test_a_login_has_to_come_to_an_end(tmp_path: Path) -> None:
    """Whatever is asked meanwhile."""
    async with listening(tmp_path, frame_timeout=0.5) as kafka:
        client = await kafka.connect()
        async with asyncio.timeout(30):
            try:
                while True:
                    await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
            except (AssertionError, ConnectionError):
                pass
        await client.close()


class Standing(SystemClock):
    """Time does not pass."""

    def __init__(self) -> None:
        self.asleep = 0

    def monotonic(self) -> float:
        return 1_000.0

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.asleep += 1
            await asyncio.Event().wait()


async def test_wrong_passwords_of_one_address_are_few(tmp_path: Path) -> None:
    """100 a second could be tried. Those beyond the bound wait, or their connections are closed; other addresses
    do not notice, and neither does whoever logs in with the right one."""
    clock = Standing()
    async with listening(tmp_path, clock=clock, frame_timeout=60.0) as kafka:
        for _ in range(30):
            await (await raw(kafka, "shop")).close()

        async def guess() -> bytes | ErrorCode:
            client = await kafka.connect()
            try:
                return await log_in(client, "PLAIN", "shop", "wrong")
            except AssertionError:
                return b""
            finally:
                await client.close()

        tries = [asyncio.create_task(guess()) for _ in range(100)]
        await until(lambda: kafka.counters.values()["kafka_logins"].get(("postponed",), 0) == 30)
        await until(lambda: clock.asleep == 60)
        assert kafka.counters.values()["kafka_logins"]["denied",] == 10
        user = await raw(kafka, "shop", local_addr=("127.0.0.2", 0))
        await user.close()
        for each in tries:
            each.cancel()
        await asyncio.gather(*tries, return_exceptions=True)
        await until(lambda: kafka.listener.connections == 0)
        assert (
            round(kafka.node.guesses.count(LOCAL, clock.monotonic()), 3) == 1.0
        )  # those that left took none


async def test_a_wrong_password_is_still_told_at_once(tmp_path: Path) -> None:
    async with listening(tmp_path) as kafka:
        client = await kafka.connect()
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
        assert (await prove(client, "\0shop\0wrong")).error_code is DENIED
        await client.close()


def test_an_address_is_a_network_of_ipv6() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1%eth0")
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("127.0.0.1") == "127.0.0.1"


# bytes


async def test_a_user_waits_for_its_own_share_alone() -> None:
    room = ByteBudget(100, 40)
    await room.take(40, "a")
    behind = asyncio.ensure_future(room.take(1, "a"))
    async with asyncio.timeout(5):
        await room.take(40, "b")
        await room.take(20, "c")
    assert not behind.done()
    room.give(40, "a")
    await behind
    assert room.held == 61


async def test_one_request_of_a_user_passes_however_large() -> None:
    room = ByteBudget(100, 40)
    await room.take(70, "a")
    waiting = asyncio.ensure_future(room.take(50, "b"))
    await asyncio.sleep(0)
    assert not waiting.done()
    room.give(70, "a")
    await waiting


def test_a_budget_has_a_bound_for_all_and_a_share_for_each() -> None:
    budget = SharedLimit(100)
    budget.add("a", 20)
    assert (budget.left("a"), budget.left("b"), budget.left("")) == (5, 25, 80)
    budget.add("", 78)
    assert (budget.left("a"), budget.left("b"), budget.left("")) == (2, 2, 2)
    budget.add("a", -20)
    assert (budget.of("a"), budget.held) == (0, 78)


# topics


async def create(client: VersionedClient, name: str, partitions: int = 1) -> ErrorCode:
    topic = part(
        "CreatableTopic", name=name, num_partitions=partitions, replication_factor=-1,
        assignments=(), configs=(),
    )  # fmt: skip
    answer = await client.ask(CREATE, 7, topics=[topic], timeout=MS, validate_only=False)
    return answer.topics[0].error_code


async def delete(client: VersionedClient, name: str) -> ErrorCode:
    answer = await client.ask(DELETE, 5, topic_names=(name,), timeout=MS)
    return answer.responses[0].error_code


async def test_topics_and_partitions_are_shared_between_users(tmp_path: Path) -> None:
    """Also those that come to be by being asked for, and after a restart."""
    bounds = {"max_topics": 12, "max_partitions": 40, "partitions": 1}
    policy = ErrorCode.policy_violation
    async with listening(tmp_path, log=bounds) as kafka:
        scan, shop = await asking(kafka, "scan"), await asking(kafka, "shop")
        assert [await create(scan, f"scan-{n}") for n in range(4)] == [NONE, NONE, NONE, policy]
        assert [await create(shop, "shop-0", 11), await create(shop, "shop-1", 10)] == [
            policy,
            NONE,
        ]
        named = part("MetadataRequestTopic", name="scan-more", topic_id=None)
        told = await scan.ask(3, 9, topics=[named], allow_auto_topic_creation=True,
            include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
        )  # fmt: skip
        assert told.topics[0].error_code is policy
        admin = await asking(kafka, "admin")
        assert [await create(admin, f"any-{n}") for n in range(5)] == [NONE] * 5
        for each in (scan, shop, admin):
            await each.close()
    async with listening(tmp_path, log=bounds) as kafka:
        scan = await asking(kafka, "scan")
        assert await create(scan, "scan-9") is policy
        assert await delete(scan, "scan-0") is NONE
        assert await create(scan, "scan-9") is NONE
        await scan.close()


async def test_a_user_deletes_what_it_created_while_that_is_empty(tmp_path: Path) -> None:
    """Anything else needs ``delete``."""
    denied = ErrorCode.topic_authorization_failed
    async with listening(tmp_path) as kafka:
        await kafka.engine.create_topic("scan-theirs", 1)
        scan, shop = await asking(kafka, "scan"), await asking(kafka, "shop")
        assert await create(scan, "scan-t") is NONE
        assert await delete(shop, "scan-t") is denied
        assert await delete(scan, "scan-theirs") is denied
        assert await delete(scan, "scan-absent") is denied
        await kafka.engine.append_to(Partition("scan-t", 0), [Record(None, (), b"x")])
        assert await delete(scan, "scan-t") is denied
        kafka.node.logins = logins(delete=["scan-*"])
        for name in ("scan-t", "scan-theirs"):
            assert await delete(scan, name) is NONE
        assert await delete(scan, "scan-absent") is ErrorCode.unknown_topic_or_partition
        assert await create(shop, "shop-t") is NONE
        assert await delete(scan, "shop-t") is denied
        assert await delete(shop, "shop-t") is NONE
        assert await create(scan, "scan-t") is NONE
        assert await delete(shop, "scan-t") is denied
        for each in (scan, shop):
            await each.close()


# groups


async def join(client: VersionedClient, group: str, **more: Any) -> Any:
    given: dict[str, Any] = {
        "group_id": group,
        "session_timeout": 6_000 * MS,
        "rebalance_timeout": 1_800_000 * MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [part("JoinGroupRequestProtocol", name="range", metadata=b"m")],
        **more,
    }
    return await client.ask(JOIN, 3, **given)


async def commit(
    client: VersionedClient, group: str, metadata: str = "", topic: str = "scan-t"
) -> ErrorCode:
    place = part("OffsetCommitRequestPartition", partition_index=0, committed_offset=0,
        committed_metadata=metadata)  # fmt: skip
    answer = await client.ask(
        COMMIT, 6, group_id=group, generation_id_or_member_epoch=-1, member_id="",
        topics=[part("OffsetCommitRequestTopic", name=topic, partitions=[place])],
    )  # fmt: skip
    return answer.topics[0].partitions[0].error_code


async def test_groups_are_shared_between_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With members, with positions, and with neither any more: the log remembers all of them for seven days."""
    monkeypatch.setattr(positions, "MOST_GROUPS", 16)
    policy = ErrorCode.policy_violation
    async with listening(tmp_path) as kafka:
        for topic in ("scan-t", "shop-t"):
            await kafka.engine.create_topic(topic, 1)
        scan, shop = await asking(kafka, "scan"), await asking(kafka, "shop")
        assert [await commit(scan, f"scan-{n}") for n in range(2)] == [NONE, NONE]
        for n in range(2, 4):
            member = (await join(scan, f"scan-{n}")).member_id
            left = await scan.ask(LEAVE, 0, group_id=f"scan-{n}", member_id=member)
            assert left.error_code is NONE
        assert await commit(scan, "scan-4") is policy
        assert (await join(scan, "scan-4")).error_code is policy
        assert await commit(scan, "scan-2") is NONE  # one that it has
        assert await commit(shop, "shop-0", topic="shop-t") is NONE
        for each in (scan, shop):
            await each.close()
    async with listening(tmp_path) as kafka:
        scan = await asking(kafka, "scan")
        assert await commit(scan, "scan-5") is policy
        gone = await scan.ask(DELETE_GROUPS, 2, groups_names=("scan-0", "scan-3"))
        assert [each.error_code for each in gone.results] == [NONE, NONE]
        assert [await commit(scan, f"scan-{n}") for n in (5, 6, 7)] == [NONE, NONE, policy]
        await scan.close()


async def test_a_member_without_a_question_goes_with_its_session(tmp_path: Path) -> None:
    """A member that has given its join up, by another request over another connection, waited for hours: for as long
    as a third one did not join again."""
    async with listening(tmp_path, session_timeouts=(0.3, 1_800.0)) as kafka:
        busy = await asking(kafka, "scan")
        stays = await join(busy, "scan-g", session_timeout=1_800_000 * MS)
        one, other = await asking(kafka, "scan"), await asking(kafka, "scan")
        joining = asyncio.create_task(join(one, "scan-g", session_timeout=300 * MS))
        group = lambda: kafka.node.coordinator.group("scan-g")  # noqa: E731
        await until(lambda: len(group().members) == 2)
        (member,) = {*group().members} - {stays.member_id}
        await other.ask(14, 3, group_id="scan-g", generation_id=1, member_id=member,
            group_instance_id=None, assignments=())  # fmt: skip
        assert (await joining).error_code is ErrorCode.rebalance_in_progress
        await one.close()
        await other.close()
        await until(lambda: [*group().members] == [stays.member_id])
        await busy.close()


async def test_a_peer_that_is_gone_without_a_word_is_noticed_within_the_session(
    tmp_path: Path,
) -> None:
    """A member that waits to join sends nothing: the system asks whether its host is still there."""
    async with listening(tmp_path) as kafka:
        client = await asking(kafka, "scan")
        await join(client, "scan-g", session_timeout=30_000 * MS)
        ((_, connection),) = kafka.listener._connections.items()
        transport = connection._writer.get_extra_info("socket")
        assert transport.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, step, count = (
            transport.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        )
        assert idle + step * count <= 30
        await client.close()


# idempotent producers


async def test_the_states_of_producers_are_shared_between_users(tmp_path: Path) -> None:
    """120,000 in 7 s were kept for seven days. The one that was quiet for longest is forgotten; other users' stay."""
    async with listening(tmp_path, log={"max_producers": 40, "partitions": 1}) as kafka:
        scan, shop = await asking(kafka, "scan"), await asking(kafka, "shop")
        await create(scan, "scan-t")
        await create(shop, "shop-t")

        async def send(
            client: VersionedClient, topic: str, producer: int, first: int
        ) -> tuple[Any, int]:
            data = batch([Record(None, (), b"x")], producer=producer, epoch=0, first=first)
            told = await client.ask(PRODUCE, 9, transactional_id=None, acks=-1, timeout=60_000 * MS,
                topic_data=[part("TopicProduceData", name=topic, partition_data=[
                    part("PartitionProduceData", index=0, records=data)])],
            )  # fmt: skip
            answer = told.responses[0].partition_responses[0]
            return answer.error_code, answer.base_offset

        assert await send(shop, "shop-t", 7, 0) == (NONE, 0)
        for number in range(30):
            assert await send(scan, "scan-t", number, 0) == (NONE, number)
        assert await send(shop, "shop-t", 7, 0) == (NONE, 0)  # known: as before
        assert await send(scan, "scan-t", 29, 0) == (NONE, 29)
        assert await send(scan, "scan-t", 0, 0) == (NONE, 30)  # forgotten: stored again
        await scan.close()
        await shop.close()
    engine = LogEngine(EngineSettings(path=tmp_path, max_producers=40))
    await engine.start()
    rows = await engine._writer_or_raise().run(
        lambda db: next(db.execute("SELECT count(*) FROM producers"))[0]
    )
    await engine.stop()
    assert rows == 11
