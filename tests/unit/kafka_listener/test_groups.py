"""Groups over the wire, in every version that is offered; what clients cannot be made to do is done by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from app.bindings.record import Record
from app.log.groups.positions import CommittedOffset, DeclaredGroup
from kafka_listening import KafkaTestListener, kafka_listening
from log_steps import place
from versioned_client import VersionedClient, part, versions

COMMIT, FETCH, FIND, JOIN, BEAT, LEAVE, SYNC, DESCRIBE, LIST = 8, 9, 10, 11, 12, 13, 14, 15, 16
DELETE, DELETE_OFFSETS = 42, 47
NONE = ErrorCode.none
MS = timedelta(milliseconds=1)


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[KafkaTestListener]:
    async with kafka_listening(tmp_path, log={"partitions": 2}) as listening:
        await listening.engine.create_topic("t")
        yield listening


async def join(asking: VersionedClient, version: int = 9, **more: Any) -> Any:
    given: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": 6_000 * MS,
        "rebalance_timeout": 6_000 * MS,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [part("JoinGroupRequestProtocol", name="range", metadata=b"m")],
        "reason": None,
        **more,
    }
    return await asking.ask(JOIN, version, **given)


async def joined(asking: VersionedClient, version: int = 9, **more: Any) -> Any:
    """Also where it takes two steps."""
    answer = await join(asking, version, **more)
    if answer.error_code is ErrorCode.member_id_required:
        answer = await join(asking, version, **{**more, "member_id": answer.member_id})
    assert answer.error_code is NONE
    return answer


async def sync(
    asking: VersionedClient, member: str, generation: int, version: int = 5, **more: Any
) -> Any:
    given = {
        "group_id": "g",
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [part("SyncGroupRequestAssignment", member_id=member, assignment=b"all")],
    }
    return await asking.ask(SYNC, version, **{**given, **more})


async def commit(
    asking: VersionedClient, member: str, generation: int, version: int = 9, **more: Any
):
    values = {"committed_offset": 0, "committed_metadata": None, "partition_index": 0, **more}
    answer = await asking.ask(
        COMMIT,
        version,
        group_id=more.get("group", "g"),
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=more.get("instance"),
        retention_time=-1 * MS,
        topics=[
            part(
                "OffsetCommitRequestTopic",
                name=more.get("topic", "t"),
                partitions=[part("OffsetCommitRequestPartition", **values)],
            )
        ],
    )
    return answer.topics[0].partitions[0].error_code


@pytest.mark.parametrize("version", versions(FIND))
async def test_every_group_is_found_here_and_no_transaction(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    host, port = listening.listener.address
    for kind, code in ((0, NONE), (1, ErrorCode.transactional_id_authorization_failed)):
        if kind and not version:
            continue
        answer = await asking.ask(FIND, version, key="g", key_type=kind, coordinator_keys=("g",))
        found = answer.coordinators[0] if version >= 4 else answer
        assert found.error_code is code
        assert ((found.node_id, found.host, found.port) == (0, host, port)) is (code is NONE)


@pytest.mark.parametrize("version", versions(JOIN))
async def test_a_member_is_named_by_us_joins_and_leads(
    asking: VersionedClient, version: int
) -> None:
    """From version 4 on in two steps (KIP-394): a first answer that is lost leaves no member."""
    first = await join(asking, version)
    assert first.member_id.startswith("tester-")
    if version >= 4:
        assert first.error_code is ErrorCode.member_id_required
        first = await join(asking, version, member_id=first.member_id)
    assert first.error_code is NONE
    assert (first.generation_id, first.protocol_name, first.leader) == (1, "range", first.member_id)
    assert [(each.member_id, each.metadata) for each in first.members] == [(first.member_id, b"m")]


@pytest.mark.parametrize("version", versions(SYNC))
async def test_a_member_is_assigned_what_the_leader_said(
    asking: VersionedClient, version: int
) -> None:
    member = await joined(asking)
    answer = await sync(asking, member.member_id, 1, version)
    assert (answer.error_code, answer.assignment) == (NONE, b"all")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


async def test_who_believes_in_another_strategy_is_told(asking: VersionedClient) -> None:
    """KIP-559."""
    member = await joined(asking)
    answer = await sync(asking, member.member_id, 1, protocol_name="sticky")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("version", versions(BEAT))
async def test_heartbeats_are_fenced_by_member_and_generation(
    asking: VersionedClient, version: int
) -> None:
    member = (await joined(asking)).member_id

    async def beat(who: str, generation: int) -> ErrorCode:
        given = {"member_id": who, "generation_id": generation, "group_instance_id": None}
        return (await asking.ask(BEAT, version, group_id="g", **given)).error_code

    assert await beat(member, 1) is NONE
    assert await beat(member, 0) is ErrorCode.illegal_generation
    assert await beat("somebody", 1) is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", versions(LEAVE))
async def test_members_leave_one_or_several_at_once(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    member = (await joined(asking)).member_id
    leaving = [
        part("MemberIdentity", member_id=each, group_instance_id=None, reason=None)
        for each in (member, "nobody")
    ]
    answer = await asking.ask(LEAVE, version, group_id="g", member_id=member, members=leaving)
    assert answer.error_code is NONE
    if version >= 3:
        codes = [each.error_code for each in answer.members]
        assert codes == [NONE, ErrorCode.unknown_member_id]
    assert listening.node.coordinator.group("g") is None


@pytest.mark.parametrize("version", [each for each in versions(LEAVE) if each >= 3])
async def test_nobody_may_leave(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    """A list of none is a list: the client is answered, and nobody is taken out."""
    await joined(asking)
    answer = await asking.ask(LEAVE, version, group_id="g", members=[])
    assert (answer.error_code, answer.members) == (NONE, ())
    assert listening.node.coordinator.group("g") is not None


async def test_the_tools_take_an_instance_out_by_its_name(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    await joined(asking, group_instance_id="a")
    leaving = [part("MemberIdentity", member_id="", group_instance_id="a", reason=None)]
    answer = await asking.ask(LEAVE, 5, group_id="g", members=leaving)
    assert answer.members[0].error_code is NONE
    assert listening.node.coordinator.group("g") is None


async def test_an_instance_comes_back_to_its_place_and_fences_the_one_before(
    asking: VersionedClient,
) -> None:
    """KIP-345: no rebalance, the same assignment; the leader need not assign (KIP-814)."""
    first = await joined(asking, group_instance_id="a")
    await sync(asking, first.member_id, 1, group_instance_id="a")
    second = await joined(asking, group_instance_id="a")
    assert (second.generation_id, second.skip_assignment) == (1, True)
    assert second.member_id != first.member_id
    answer = await sync(asking, second.member_id, 1, group_instance_id="a", assignments=())
    assert answer.assignment == b"all"
    code = await commit(asking, first.member_id, 1, instance="a")
    assert code is ErrorCode.fenced_instance_id


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"group_id": ""}, ErrorCode.invalid_group_id),
        ({"session_timeout": 5_999 * MS}, ErrorCode.invalid_session_timeout),
        ({"session_timeout": 1_800_001 * MS}, ErrorCode.invalid_session_timeout),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "never-heard-of"}, ErrorCode.unknown_member_id),
        ({"group_instance_id": ""}, ErrorCode.invalid_request),
        ({"group_instance_id": "i" * 256}, ErrorCode.invalid_request),
    ],
)
async def test_a_join_that_cannot_be_is_refused(
    listening: KafkaTestListener, asking: VersionedClient, wrong: dict[str, Any], code: ErrorCode
) -> None:
    """And leaves nothing behind."""
    assert (await join(asking, **wrong)).error_code is code
    assert listening.node.coordinator.groups() == []


async def test_a_client_without_a_common_strategy_is_refused(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    """Beside Skybridge's own workers too, which know ``range`` alone: the later one does not come in."""
    await joined(asking)
    other = VersionedClient(await listening.connect())
    protocols = [part("JoinGroupRequestProtocol", name="roundrobin", metadata=b"")]
    invited = await join(other, protocols=protocols)
    answer = await join(other, protocols=protocols, member_id=invited.member_id)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    answer = await join(other, 3, protocol_type="connect")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    await other.close()


async def test_a_connection_that_ends_takes_its_waiting_member_along(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    """Else the others would wait for the whole rebalance time-out."""
    first = (await joined(asking)).member_id
    await sync(asking, first, 1)
    raw = await listening.connect()
    waiting = asyncio.create_task(join(VersionedClient(raw), 3))
    group = listening.node.coordinator.group("g")
    assert group is not None
    async with asyncio.timeout(60):
        while len(group.members) < 2:
            await asyncio.sleep(0.005)
        await raw.close()
        while len(group.members) == 2:
            await asyncio.sleep(0.005)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert list(group.members) == [first]


@pytest.mark.parametrize("version", versions(COMMIT))
async def test_a_commit_is_durable_and_what_our_own_api_tells(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    """``/v1/topics`` and ``skybridge topics`` read the same positions."""
    code = await commit(asking, "", -1, version, committed_offset=3, committed_metadata="m")
    assert code is NONE
    assert listening.engine.groups.positions.of("g") == {place("t"): CommittedOffset(3, "m")}


@pytest.mark.parametrize("offset", [-1, -2, -100])
@pytest.mark.parametrize("version", versions(COMMIT))
async def test_a_tool_resets_the_position_of_a_group_without_members(
    listening: KafkaTestListener, asking: VersionedClient, version: int, offset: int
) -> None:
    """``resetOffsets`` of kafkajs commits -1 (latest) or -2 (earliest). Kafka 4.3 stores and returns them."""
    assert await commit(asking, "", -1, version, committed_offset=7) is NONE
    assert await commit(asking, "", -1, version, committed_offset=offset) is NONE
    assert listening.engine.groups.positions.of("g") == {place("t"): CommittedOffset(offset)}
    topics = [part("OffsetFetchRequestTopic", name="t", partition_indexes=(0,))]
    answer = await asking.ask(FETCH, 5, group_id="g", topics=topics)
    assert [p.committed_offset for p in answer.topics[0].partitions] == [offset]
    assert await commit(asking, "", -2, version, committed_offset=3) is NONE
    assert listening.engine.groups.positions.of("g") == {place("t"): CommittedOffset(3)}


async def test_a_member_resets_its_position_and_a_tool_may_not_while_it_is_there(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    """kafkajs joins for its reset; the codes are those of Kafka 4.3."""
    member = (await joined(asking, group_instance_id="i")).member_id
    await sync(asking, member, 1)
    assert await commit(asking, member, 1, committed_offset=-2) is NONE
    assert await commit(asking, member, -1, committed_offset=-1) is ErrorCode.illegal_generation
    assert await commit(asking, "", -1, committed_offset=-1) is ErrorCode.unknown_member_id
    fenced = await commit(asking, "", -1, committed_offset=-1, instance="i")
    assert fenced is ErrorCode.fenced_instance_id
    assert listening.engine.groups.positions.of("g") == {place("t"): CommittedOffset(-2)}


async def test_commits_are_fenced_and_bounded(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    member = (await joined(asking)).member_id
    assert await commit(asking, member, 1) is ErrorCode.rebalance_in_progress
    await sync(asking, member, 1)
    assert await commit(asking, member, 1) is NONE
    assert await commit(asking, member, 0) is ErrorCode.illegal_generation
    assert await commit(asking, "", -1) is ErrorCode.unknown_member_id
    refused = {
        ErrorCode.unknown_topic_or_partition: {"topic": "absent"},
        ErrorCode.offset_metadata_too_large: {"committed_metadata": "é" * 2_049},
    }
    for code, more in refused.items():
        assert await commit(asking, member, 1, **more) is code
    assert await commit(asking, member, 1, partition_index=2) is (
        ErrorCode.unknown_topic_or_partition
    )
    assert await commit(asking, "", -1, group="") is ErrorCode.invalid_group_id
    assert listening.engine.groups.positions.of("g") == {place("t"): CommittedOffset(0)}


@pytest.mark.parametrize("version", versions(FETCH))
async def test_positions_are_told_by_name_or_all_of_them(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    await listening.engine.groups.commit("g", {place("t", 1): CommittedOffset(5, "m")})
    for named in (True, False) if version >= 2 else (True,):
        shape = "OffsetFetchRequestTopics" if version >= 8 else "OffsetFetchRequestTopic"
        topics = [part(shape, name="t", partition_indexes=(0, 1))] if named else None
        group = part("OffsetFetchRequestGroup", group_id="g", topics=topics)
        answer = await asking.ask(FETCH, version, group_id="g", topics=topics, groups=[group])
        found = answer.groups[0] if version >= 8 else answer
        (topic,) = found.topics
        told = [(p.partition_index, p.committed_offset, p.metadata) for p in topic.partitions]
        assert told == [(0, -1, ""), (1, 5, "m")][0 if named else 1 :]


@pytest.mark.parametrize("version", versions(FETCH))
async def test_a_position_is_told_once(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    """However often it is named: an answer is not to be thousands of times its request (rule 8)."""
    await listening.engine.groups.commit("g", {place("t", 1): CommittedOffset(5, "m")})
    shape = "OffsetFetchRequestTopics" if version >= 8 else "OffsetFetchRequestTopic"
    topics = [part(shape, name="t", partition_indexes=(1, 1, 0))] * 2
    group = part("OffsetFetchRequestGroup", group_id="g", topics=topics)
    answer = await asking.ask(FETCH, version, group_id="g", topics=topics, groups=[group] * 2)
    (found,) = answer.groups if version >= 8 else (answer,)
    (topic,) = found.topics
    assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(1, 5), (0, -1)]


@pytest.mark.parametrize("version", versions(LIST))
async def test_groups_are_listed_with_and_without_members(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    await listening.engine.groups.commit("empty", {place("t"): CommittedOffset(0)})
    member = (await joined(asking)).member_id
    await sync(asking, member, 1)
    answer = await asking.ask(LIST, version, states_filter=(), types_filter=())
    listed = {each.group_id: each for each in answer.groups}
    assert {name: each.protocol_type for name, each in listed.items()} == {
        "g": "consumer",
        "empty": "",
    }
    if version >= 4:
        answer = await asking.ask(LIST, version, states_filter=("stable",), types_filter=())
        assert [(each.group_id, each.group_state) for each in answer.groups] == [("g", "Stable")]
    if version >= 5:
        answer = await asking.ask(LIST, version, states_filter=(), types_filter=("share",))
        assert answer.groups == ()


@pytest.mark.parametrize("version", versions(DESCRIBE))
async def test_groups_are_described(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    member = (await joined(asking, group_instance_id="i")).member_id
    await sync(asking, member, 1, group_instance_id="i")
    await listening.engine.groups.commit("empty", {place("t"): CommittedOffset(0)})
    answer = await asking.ask(
        DESCRIBE,
        version,
        groups=("g", "empty", "g", "absent"),  # each is described once (rule 8)
        include_authorized_operations=False,
    )
    assert [each.group_state for each in answer.groups] == ["Stable", "Empty", "Dead"]
    one = answer.groups[0]
    assert (one.protocol_type, one.protocol_data) == ("consumer", "range")
    (told,) = one.members
    assert (told.member_id, told.client_id, told.client_host) == (member, "tester", "/127.0.0.1")
    assert (told.member_metadata, told.member_assignment) == (b"m", b"all")
    assert version < 4 or told.group_instance_id == "i"


@pytest.mark.parametrize("version", versions(DELETE))
async def test_groups_are_deleted_but_not_under_members_or_subscriptions(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    """The place of a subscription that is paused is not a client's to forget."""
    for group in ("g", "done", "ours"):
        await listening.engine.groups.commit(group, {place("t"): CommittedOffset(0)})
    await listening.engine.groups.declare([DeclaredGroup("ours", ("t",))])
    await joined(asking)
    answer = await asking.ask(DELETE, version, groups_names=("g", "done", "ours", "absent"))
    assert [each.error_code for each in answer.results] == [
        ErrorCode.non_empty_group,
        NONE,
        ErrorCode.non_empty_group,
        ErrorCode.group_id_not_found,
    ]
    assert listening.engine.groups.positions.groups() == ["g", "ours"]


async def test_positions_are_deleted_where_nobody_reads(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    await listening.engine.create_topic("u")
    await listening.engine.groups.commit(
        "g", {place("t"): CommittedOffset(1), place("u"): CommittedOffset(1)}
    )
    await listening.engine.groups.declare([DeclaredGroup("g", ("t",))])

    async def delete(group: str) -> Any:
        parts = [part("OffsetDeleteRequestPartition", partition_index=0)]
        topics = [
            part("OffsetDeleteRequestTopic", name=name, partitions=parts) for name in ("t", "u")
        ]
        return await asking.ask(DELETE_OFFSETS, 0, group_id=group, topics=topics)

    answer = await delete("g")
    codes = [topic.partitions[0].error_code for topic in answer.topics]
    assert codes == [ErrorCode.group_subscribed_to_topic, NONE]
    assert set(listening.engine.groups.positions.of("g")) == {place("t")}
    assert (await delete("absent")).error_code is ErrorCode.group_id_not_found


async def test_a_broken_subscription_of_a_member_keeps_positions(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    """What it reads cannot be told: nothing is taken from under it, and the connection lives."""
    await listening.engine.append_to(place("t"), [Record(None, (), b"")])
    await joined(asking)
    await listening.engine.groups.commit("g", {place("t"): CommittedOffset(1)})
    parts = [part("OffsetDeleteRequestPartition", partition_index=0)]
    topics = [part("OffsetDeleteRequestTopic", name="t", partitions=parts)]
    answer = await asking.ask(DELETE_OFFSETS, 0, group_id="g", topics=topics)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.group_subscribed_to_topic
