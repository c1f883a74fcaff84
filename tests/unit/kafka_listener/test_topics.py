"""Topics and settings over the wire, in every version that is offered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from app.log.groups.positions import CommittedOffset, DeclaredGroup
from app.log.settings import RetentionLimits
from kafka_listening import KafkaTestListener, kafka_listening
from log_steps import append_stored, numbered, place
from versioned_client import VersionedClient, part, versions

CREATE, DELETE, CONFIGS, GROW, CLUSTER = 19, 20, 32, 37, 60
NONE = ErrorCode.none
SOON = timedelta(seconds=5)


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[KafkaTestListener]:
    log = {
        "partitions": 2,
        "max_topics": 4,
        "max_partitions": 1_100,
        "retention": RetentionLimits(max_age=3600),
        "topic_retention": {"small": RetentionLimits(max_bytes=1_000)},
    }
    async with kafka_listening(tmp_path, log=log) as listening:
        yield listening


def a_topic(name: str = "t", **more: Any) -> Any:
    given = {"num_partitions": -1, "replication_factor": -1, "assignments": (), "configs": ()}
    return part("CreatableTopic", name=name, **{**given, **more})


def config(name: str, value: str | None) -> Any:
    return part("CreatableTopicConfig", name=name, value=value)


def placed(*nodes: int) -> list[Any]:
    return [
        part("CreatableReplicaAssignment", partition_index=number, broker_ids=(node,))
        for number, node in enumerate(nodes)
    ]


async def create(
    asking: VersionedClient, *topics: Any, version: int = 7, only_check: bool = False
) -> Any:
    answer = await asking.ask(
        CREATE, version, topics=topics, timeout=SOON, validate_only=only_check
    )
    return answer.topics


@pytest.mark.parametrize("version", versions(CREATE))
@pytest.mark.parametrize("only_check", [True, False])
async def test_a_topic_is_made_or_only_checked(
    listening: KafkaTestListener, asking: VersionedClient, version: int, only_check: bool
) -> None:
    asked = (a_topic("own"), a_topic("three", num_partitions=3, replication_factor=1))
    for result in await create(asking, *asked, version=version, only_check=only_check):
        assert result.error_code is NONE
        if version >= 5:
            assert result.num_partitions == (2 if result.name == "own" else 3)
            told = {each.name: each.value for each in result.configs}
            assert told["cleanup.policy"] == "delete"
    made = {name: len(topic.partitions) for name, topic in listening.engine.topics().items()}
    assert made == ({} if only_check else {"own": 2, "three": 3})


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (a_topic("there"), ErrorCode.topic_already_exists),
        (a_topic("no good"), ErrorCode.invalid_topic_exception),
        (a_topic(num_partitions=0), ErrorCode.invalid_partitions),
        (a_topic(num_partitions=1_001), ErrorCode.invalid_partitions),
        (a_topic(replication_factor=3), ErrorCode.invalid_replication_factor),
        (a_topic(assignments=placed(0, 1)), ErrorCode.invalid_replica_assignment),
        (a_topic(assignments=placed(0), num_partitions=1), ErrorCode.invalid_request),
        (a_topic(configs=[config("cleanup.policy", "compact")]), ErrorCode.invalid_config),
        (a_topic(configs=[config("retention.ms", "1")]), ErrorCode.invalid_config),
        (a_topic(configs=[config("no.such", "1")]), ErrorCode.invalid_config),
    ],
)
async def test_what_cannot_be_is_refused_by_name_and_alone(
    listening: KafkaTestListener, asking: VersionedClient, topic: Any, code: ErrorCode
) -> None:
    """A second replica or compaction would be a promise that is not kept; the others are made."""
    await listening.engine.create_topic("there")
    refused, made = await create(asking, topic, a_topic("beside"))
    assert refused.error_code is code
    assert refused.error_message
    assert made.error_code is NONE
    assert set(listening.engine.topics()) == {"there", "beside"}


async def test_what_holds_anyway_may_be_asked_for(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    """Tools that say what they rely on."""
    configs = [
        config("cleanup.policy", "delete"),
        config("retention.ms", "3600000"),
        config("retention.bytes", None),
    ]
    (one, other) = await create(
        asking, a_topic("a", configs=configs), a_topic("b", assignments=placed(0, 0, 0))
    )
    assert (one.error_code, other.error_code) == (NONE, NONE)
    assert len(listening.engine.topics()["b"].partitions) == 3


async def test_topics_and_partitions_are_bounded(
    listening: KafkaTestListener, asking: VersionedClient
) -> None:
    """Rule 8."""
    names = [a_topic(f"t{number}", num_partitions=500) for number in range(3)]
    codes = [each.error_code for each in await create(asking, *names)]
    assert codes == [NONE, NONE, ErrorCode.policy_violation]
    twice = await create(asking, a_topic("u"), a_topic("u"))
    assert {each.error_code for each in twice} == {ErrorCode.invalid_request}


@pytest.mark.parametrize("version", versions(DELETE))
async def test_a_topic_is_deleted_but_not_under_a_subscription(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    """An operator hears which subscription reads it."""
    for name in ("t", "read"):
        await append_stored(listening.engine, name, *numbered(1, 2))
    await listening.engine.groups.commit("g", {place("t"): CommittedOffset(1)})
    await listening.engine.groups.declare([DeclaredGroup("billing", ("read",))])
    answer = await asking.ask(DELETE, version, topic_names=("t", "read", "absent"), timeout=SOON)
    codes = [each.error_code for each in answer.responses]
    assert codes == [NONE, ErrorCode.policy_violation, ErrorCode.unknown_topic_or_partition]
    assert version < 5 or "billing" in answer.responses[1].error_message
    assert set(listening.engine.topics()) == {"read"}
    assert listening.engine.groups.positions.groups() == []


@pytest.mark.parametrize("version", versions(GROW))
async def test_a_topic_grows_but_not_under_a_subscription(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    """Keys would move to other partitions, and their order with them."""
    for name in ("t", "read"):
        await listening.engine.create_topic(name)
    await listening.engine.groups.declare([DeclaredGroup("billing", ("read",))])

    async def grow(name: str, count: int, *nodes: int, only_check: bool = False) -> ErrorCode:
        assignments = [part("CreatePartitionsAssignment", broker_ids=(node,)) for node in nodes]
        given = {"name": name, "count": count, "assignments": assignments or None}
        answer = await asking.ask(
            GROW,
            version,
            topics=[part("CreatePartitionsTopic", **given)],
            timeout=SOON,
            validate_only=only_check,
        )
        return answer.results[0].error_code

    assert await grow("t", 5, only_check=True) is NONE
    assert len(listening.engine.topics()["t"].partitions) == 2
    assert await grow("t", 4, 0, 1) is ErrorCode.invalid_replica_assignment
    assert await grow("t", 4, 0, 0) is NONE
    assert len(listening.engine.topics()["t"].partitions) == 4
    assert await grow("t", 4) is ErrorCode.invalid_partitions
    assert await grow("t", 1_001) is ErrorCode.invalid_partitions
    assert await grow("absent", 5) is ErrorCode.unknown_topic_or_partition
    assert await grow("read", 5) is ErrorCode.policy_violation


@pytest.mark.parametrize("version", versions(CONFIGS))
async def test_settings_are_told_as_they_are(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    """Of a topic with its own retention, and of the node."""
    await listening.engine.create_topic("small")

    async def describe(kind: int, name: str, *keys: str) -> Any:
        resource = part(
            "DescribeConfigsResource",
            resource_type=kind,
            resource_name=name,
            configuration_keys=keys or None,
        )
        answer = await asking.ask(
            CONFIGS,
            version,
            resources=[resource],
            include_synonyms=False,
            include_documentation=True,
        )
        return answer.results[0]

    topic = {each.name: each for each in (await describe(2, "small")).configs}
    assert topic["retention.bytes"].value == "1000"
    assert topic["retention.ms"].value == "-1"
    assert topic["message.timestamp.type"].value == "LogAppendTime"
    assert all(each.read_only and not each.is_sensitive for each in topic.values())
    assert version < 3 or topic["cleanup.policy"].documentation
    (one,) = (await describe(4, "0", "log.retention.ms")).configs
    assert (one.name, one.value) == ("log.retention.ms", "3600000")
    assert (await describe(2, "absent")).error_code is ErrorCode.unknown_topic_or_partition
    assert (await describe(4, "1")).error_code is ErrorCode.invalid_request
    assert (await describe(8, "0")).error_code is ErrorCode.invalid_request


async def test_a_resource_is_described_once(asking: VersionedClient) -> None:
    """However often it is named: an answer is not to be a hundred times its request (rule 8)."""
    kinds = ((2, "t"), (2, "u"), (2, "t"), (4, "0"), (2, "t"))
    resources = [
        part(
            "DescribeConfigsResource", resource_type=kind, resource_name=name,
            configuration_keys=None,
        )
        for kind, name in kinds
    ]  # fmt: skip
    given = {"include_synonyms": False, "include_documentation": False}
    answer = await asking.ask(CONFIGS, 4, resources=resources, **given)
    assert [each.resource_name for each in answer.results] == ["t", "u", "0"]


@pytest.mark.parametrize("version", versions(CLUSTER))
async def test_the_cluster_is_one_node(
    listening: KafkaTestListener, asking: VersionedClient, version: int
) -> None:
    host, port = listening.listener.address
    given = {"include_cluster_authorized_operations": False, "include_fenced_brokers": False}
    answer = await asking.ask(CLUSTER, version, endpoint_type=1, **given)
    assert (answer.error_code, answer.controller_id) == (NONE, 0)
    assert answer.cluster_id == listening.engine.cluster
    assert [(each.broker_id, each.host, each.port) for each in answer.brokers] == [(0, host, port)]
    if version:
        answer = await asking.ask(CLUSTER, version, endpoint_type=2, **given)
        assert (answer.error_code, answer.brokers) == (ErrorCode.mismatched_endpoint_type, ())
