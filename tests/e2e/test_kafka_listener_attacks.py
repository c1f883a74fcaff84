"""The Kafka listener against clients with a small right, or none: from outside, with the memory of the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

from app.bindings.record import Record
from configuration import configuration
from free_ports import free_ports
from kafka_batches import batch
from kafka_listening import LOCAL, RawClient, framed
from kafka_login import EVERY_TOPIC, log_in, produce_request
from service_process import ServiceProcess, serving
from versioned_client import VersionedClient, part

USERS = ("shop", "frames", "groups", "places", "numbers", "topics", "reader")
PASSWORD = "a password of everybody"
MIB = 1 << 20
MS = timedelta(milliseconds=1)
NONE = ErrorCode.none
JOIN, SYNC, COMMIT, CREATE, FETCH = 11, 14, 8, 19, 1


class Attacked:
    def __init__(self, service: ServiceProcess, port: int) -> None:
        self.resident = service.resident
        self._port = port

    async def raw(self, user: str) -> RawClient:
        client = RawClient(*await asyncio.open_connection(LOCAL, self._port))
        assert await log_in(client, "PLAIN", user, PASSWORD) is NONE
        return client

    @asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[VersionedClient]:
        produce_request = VersionedClient(await self.raw(user), user)
        yield produce_request
        await produce_request.close()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    folder = tmp_path_factory.mktemp("attacked")
    (kafka,) = free_ports(1)
    listener = {"listen": f"{LOCAL}:{kafka}", "sasl": {"mechanisms": ["PLAIN"]}}
    rights = ("write", "read", "groups")
    producers = [
        {"name": name, "kafka": {"password": PASSWORD, **{each: [f"{name}*"] for each in rights}}}
        for name in USERS
    ]
    settings = configuration(
        folder, brokers={"log": {"kafka_listener": listener}}, producers=producers
    )
    with serving(settings, folder) as service:
        yield Attacked(service, kafka)


def a_topic(name: str, partitions: int) -> Any:
    return part(
        "CreatableTopic",
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        assignments=(),
        configs=(),
    )


async def create(client: VersionedClient, name: str, partitions: int = 1) -> ErrorCode:
    answer = await client.ask(
        CREATE, 7, topics=[a_topic(name, partitions)], timeout=60_000 * MS, validate_only=False
    )
    return answer.topics[0].error_code


async def join(client: VersionedClient, group: str, metadata: bytes, member: str = "") -> Any:
    return await client.ask(
        JOIN,
        3,
        group_id=group,
        session_timeout=1_800_000 * MS,
        rebalance_timeout=1_800_000 * MS,
        member_id=member,
        protocol_type="consumer",
        protocols=[part("JoinGroupRequestProtocol", name="range", metadata=metadata)],
    )


async def commit(
    client: VersionedClient, group: str, topic: str, partitions: range, metadata: str
) -> ErrorCode:
    places = [
        part(
            "OffsetCommitRequestPartition",
            partition_index=number,
            committed_offset=0,
            committed_metadata=metadata,
        )
        for number in partitions
    ]
    answer = await client.ask(
        COMMIT,
        6,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[part("OffsetCommitRequestTopic", name=topic, partitions=places)],
    )
    return answer.topics[0].partitions[0].error_code


async def goes_on(attacked: Attacked) -> None:
    """Another user does all it may, large requests too."""
    async with asyncio.timeout(20), attacked.client("shop") as shop:
        assert await create(shop, "shop-t") in (NONE, ErrorCode.topic_already_exists)
        raw = await attacked.raw("shop")
        await raw.call(EVERY_TOPIC)
        answer = await raw.call(produce_request(batch([Record(None, (), bytes(MIB))]), "shop-t"))
        assert answer.responses[0].partition_responses[0].error_code is NONE
        await raw.close()
        assert (await join(shop, f"shop-{uuid4()}", b"m")).error_code is NONE
        assert await commit(shop, "shop-places", "shop-t", range(1), "m") is NONE


async def test_large_frames_that_are_only_begun_keep_nobody_waiting(attacked: Attacked) -> None:
    """Before: another user's Metadata waited 90 s behind twelve of them. A frame that does not go on ends its
    connection, which used to take 30 s for each of four."""
    clients = [await attacked.raw("frames") for _ in range(12)]
    for number, each in enumerate(clients):
        sent = bytes((0, 1_000, 100_000)[number % 3])
        each.writer.write((64 * MIB).to_bytes(4, "big") + sent)
        await each.writer.drain()
    await goes_on(attacked)
    async with asyncio.timeout(25), attacked.client("frames") as own:  # its own small requests pass
        assert await create(own, "frames-t") in (NONE, ErrorCode.topic_already_exists)
    async with asyncio.timeout(25):
        assert [await each.take() for each in clients] == [b""] * 12
    for each in clients:
        await each.close()


async def test_members_take_their_users_share_of_memory(attacked: Attacked) -> None:
    """Before: 500 groups with 1 MiB of metadata took 504 MB; they stay until their sessions are over."""
    before = attacked.resident()
    async with attacked.client("groups") as client:
        codes = []
        for number in range(150):
            answer = await join(client, f"groups-{number}", bytes(MIB - 100))
            codes.append(answer.error_code)
            if answer.error_code is not NONE:
                assert answer.error_code is ErrorCode.group_max_size_reached
        assert codes.count(NONE) < 20
        assert attacked.resident() - before < 80 * MIB
        await goes_on(attacked)


async def test_assignments_take_the_leaders_share_of_memory(attacked: Attacked) -> None:
    """Before: 15 of 40 MiB took 600 MB; so did the frames that they came in, for as long as a connection lasted."""
    before = attacked.resident()
    clients = [VersionedClient(await attacked.raw("reader"), "reader") for _ in range(3)]
    for number, client in enumerate(clients):
        joined = await join(client, f"reader-{number}", b"m")
        assigned = part(
            "SyncGroupRequestAssignment", member_id=joined.member_id, assignment=bytes(40 * MIB)
        )
        answer = await client.ask(
            SYNC,
            3,
            group_id=f"reader-{number}",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=None,
            assignments=[assigned],
        )
        assert answer.error_code is ErrorCode.policy_violation
    assert attacked.resident() - before < 80 * MIB
    for client in clients:
        await client.close()
    await goes_on(attacked)


async def test_metadata_of_positions_takes_its_users_share(attacked: Attacked) -> None:
    """Before: 408 MB of memory and 339 MB of log, in a minute."""
    before = attacked.resident()
    async with attacked.client("places") as client:
        assert await create(client, "places-t", 100) is NONE
        codes = [
            await commit(client, f"places-{number}", "places-t", range(100), "m" * 4_096)
            for number in range(250)
        ]
        assert codes[0] is NONE
        assert codes[-1] is ErrorCode.offset_metadata_too_large
        assert attacked.resident() - before < 80 * MIB
        assert await commit(client, "places-0", "places-t", range(100), "n" * 4_096) is NONE
    await goes_on(attacked)


async def test_answers_that_were_taken_are_kept_by_no_connection(attacked: Attacked) -> None:
    """Before: each connection kept its last answer, of 4 MiB, and its last request, until the next one."""
    async with attacked.client("reader") as client:
        await create(client, "reader-t")
    raw = await attacked.raw("reader")
    for _ in range(5):
        await raw.call(produce_request(batch([Record(None, (), bytes(MIB - 1_000))]), "reader-t"))
    await raw.close()
    before = attacked.resident()
    clients = [VersionedClient(await attacked.raw("reader"), "reader") for _ in range(30)]
    for each in clients:
        wanted = part("FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=8 * MIB)
        answer = await each.ask(
            FETCH,
            11,
            max_wait=0 * MS,
            min_bytes=1,
            max_bytes=8 * MIB,
            topics=[part("FetchTopic", topic="reader-t", partitions=[wanted])],
            forgotten_topics_data=(),
        )
        assert len(answer.responses[0].partitions[0].records) > 3 * MIB
    assert attacked.resident() - before < 60 * MIB
    for each in clients:
        await each.close()


async def test_topics_and_partitions_are_shared(attacked: Attacked) -> None:
    """Before: one user took all partitions, and new topics of others got 503."""
    async with attacked.client("topics") as client:
        codes = [await create(client, f"topics-{number}", 900) for number in range(4)]
        assert codes == [NONE, NONE, ErrorCode.policy_violation, ErrorCode.policy_violation]
        assert await create(client, "topics-small", 100) is NONE
    async with attacked.client("shop") as shop:
        assert await create(shop, "shop-large", 1_000) is NONE
    await goes_on(attacked)


@pytest.mark.nightly
async def test_producers_states_take_their_users_share(attacked: Attacked) -> None:
    """Before: 120,000 in 7 s, kept for seven days."""
    async with attacked.client("numbers") as client:
        await create(client, "numbers-t")
    raw = await attacked.raw("numbers")
    first = await raw.call(InitProducerIdRequest(
        transactional_id=None, transaction_timeout=0 * MS, producer_id=-1, producer_epoch=-1
    ))  # fmt: skip
    before, step = attacked.resident(), 500
    for begin in range(0, 60_000, step):
        for number in range(begin, begin + step):
            numbered = batch(
                [Record(None, (), b"")],
                producer=first.producer_id + 1_000 + number,
                epoch=0,
                first=0,
            )
            frame = framed(produce_request(numbered, "numbers-t"))
            raw.writer.write(len(frame).to_bytes(4, "big") + frame)
        for _ in range(step):
            assert await raw.take()
    assert attacked.resident() - before < 60 * MIB
    await raw.close()
    await goes_on(attacked)
