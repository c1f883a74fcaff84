"""The APIs to create, extend and delete topics. Each topic of a request has its own result.

A request for a feature that is not supported, such as a second replica or compaction, is refused
with its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any

from app.errors import BoundReached, BrokerError, BrokerRefused
from app.kafka_listener.configs import FROM_FILE, TopicConfigs, topic_configs
from app.kafka_listener.errors import KafkaRequestRefused, code_of, demand
from app.kafka_listener.node import NODE_ID, KafkaNode, KafkaSession
from app.kafka_listener.rights import to_administer, to_delete, to_write
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest
from app.log.partitions import is_topic_name

NOT_GIVEN = -1
REPLICAS = 1
NO_RIGHT = "the user has no right to do this"


async def create_topics(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Create topics. With ``validate_only``, nothing is created, and the response is the same."""
    payload = request.payload
    repeated = _repeated([topic.name for topic in payload.topics])
    results = [
        await _create(node, session, request, topic, repeated=topic.name in repeated)
        for topic in payload.topics
    ]
    return request.shapes.CreateTopicsResponse(throttle_time=UNTHROTTLED, topics=tuple(results))


async def delete_topics(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Delete topics with all their records, except topics that a subscription of Skybridge reads.

    A user without the right to delete may delete a topic that it created, while the topic is empty.
    """
    shapes = request.shapes
    results = []
    for name in request.payload.topic_names:
        code, message = await _result_of(_delete(node, session, name))
        results.append(
            shapes.DeletableTopicResult(name=name, error_code=code, error_message=message)
        )
    return shapes.DeleteTopicsResponse(throttle_time=UNTHROTTLED, responses=tuple(results))


async def create_partitions(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Add partitions to topics.

    Keys may move to other partitions then, as in Kafka. So a topic that a subscription of Skybridge
    reads is refused, because subscriptions keep the order of a key.
    """
    shapes, payload = request.shapes, request.payload
    repeated = _repeated([topic.name for topic in payload.topics])
    results = []
    for topic in payload.topics:
        code, message = await _result_of(
            _grow(
                node,
                session,
                topic,
                only_check=payload.validate_only,
                repeated=topic.name in repeated,
            )
        )
        results.append(
            shapes.CreatePartitionsTopicResult(
                name=topic.name, error_code=code, error_message=message
            )
        )
    return shapes.CreatePartitionsResponse(throttle_time=UNTHROTTLED, results=tuple(results))


async def _create(
    node: KafkaNode, session: KafkaSession, request: KafkaRequest, topic: Any, *, repeated: bool
) -> Any:
    configs = topic_configs(node, topic.name)
    partitions = NOT_GIVEN

    async def create() -> None:
        nonlocal partitions
        demand(to_write(session, topic.name), NO_RIGHT)
        partitions = _validated_count(node, topic, configs, repeated=repeated)
        if not request.payload.validate_only:
            await node.engine.create_topic(topic.name, partitions, session.owner)

    code, message = await _result_of(create())
    made = code is ErrorCode.none
    return request.shapes.CreatableTopicResult(
        name=topic.name,
        topic_id=None,
        error_code=code,
        error_message=message,
        topic_config_error_code=0,
        num_partitions=partitions if made else NOT_GIVEN,
        replication_factor=REPLICAS if made else NOT_GIVEN,
        configs=_config_entries(request.shapes, configs) if made and request.version >= 5 else None,  # noqa: PLR2004 - the first version with this field
    )


def _validated_count(node: KafkaNode, topic: Any, configs: TopicConfigs, *, repeated: bool) -> int:
    """Check the request for a topic, and return its number of partitions. Raise RequestRefused."""
    if repeated:
        raise KafkaRequestRefused(ErrorCode.invalid_request, f"{topic.name} is named twice")
    if not is_topic_name(topic.name):
        raise KafkaRequestRefused(
            ErrorCode.invalid_topic_exception, "a name is 1 to 249 of A-Z a-z 0-9 . _ -"
        )
    if topic.name in node.engine.topics():
        raise KafkaRequestRefused(ErrorCode.topic_already_exists, f"there is a topic {topic.name}")
    partitions = _assigned_count(topic) if topic.assignments else _requested_count(node, topic)
    most = node.settings.max_partitions
    if not 0 < partitions <= most:
        raise KafkaRequestRefused(
            ErrorCode.invalid_partitions, f"a topic has 1 to {most} partitions"
        )
    for config in topic.configs:
        held = configs.get(config.name)
        if held is None:
            raise KafkaRequestRefused(ErrorCode.invalid_config, f"{config.name} cannot be set")
        if config.value is not None and config.value != held:
            what = f"{config.name} is {held}, by the configuration of Skybridge"
            raise KafkaRequestRefused(ErrorCode.invalid_config, what)
    return partitions


def _requested_count(node: KafkaNode, topic: Any) -> int:
    if topic.replication_factor not in (NOT_GIVEN, REPLICAS):
        raise KafkaRequestRefused(
            ErrorCode.invalid_replication_factor, "there is one node: one replica"
        )
    asked = topic.num_partitions
    return node.engine.settings.partitions if asked == NOT_GIVEN else int(asked)


def _assigned_count(topic: Any) -> int:
    """Return the number of partitions of a manual assignment. It may name only the one node, else
    raise RequestRefused.
    """
    if (topic.num_partitions, topic.replication_factor) != (NOT_GIVEN, NOT_GIVEN):
        raise KafkaRequestRefused(ErrorCode.invalid_request, "give either assignments or numbers")
    numbers = sorted(each.partition_index for each in topic.assignments)
    on_this_node = all(tuple(each.broker_ids) == (NODE_ID,) for each in topic.assignments)
    if not on_this_node or numbers != list(range(len(numbers))):
        what = f"each partition from 0 on is on node {NODE_ID} alone"
        raise KafkaRequestRefused(ErrorCode.invalid_replica_assignment, what)
    return len(numbers)


async def _delete(node: KafkaNode, session: KafkaSession, name: str) -> None:
    creator = None if to_delete(session, name) is ErrorCode.none else session.owner
    await node.engine.delete_topic(name, creator)


async def _grow(
    node: KafkaNode, session: KafkaSession, topic: Any, *, only_check: bool, repeated: bool
) -> None:
    demand(to_administer(session), NO_RIGHT)
    known = node.engine.topics().get(topic.name)
    if known is None:
        raise KafkaRequestRefused(ErrorCode.unknown_topic_or_partition, f"no topic {topic.name}")
    have, most = len(known.partitions), node.settings.max_partitions
    if repeated:
        raise KafkaRequestRefused(ErrorCode.invalid_request, f"{topic.name} is named twice")
    if not have < topic.count <= most:
        what = f"{topic.name} has {have} partitions, and may have {most}"
        raise KafkaRequestRefused(ErrorCode.invalid_partitions, what)
    placed = topic.assignments
    if placed is not None and [tuple(p.broker_ids) for p in placed] != [(NODE_ID,)] * (
        topic.count - have
    ):
        raise KafkaRequestRefused(
            ErrorCode.invalid_replica_assignment, f"one replica each, on node {NODE_ID}"
        )
    if not only_check:
        await node.engine.grow_topic(topic.name, topic.count)


async def _result_of(act: Awaitable[None]) -> tuple[ErrorCode, str | None]:
    try:
        await act
    except BoundReached as error:
        return ErrorCode.policy_violation, str(error)
    except BrokerRefused as error:
        named = error.kind in ("unknown-topic", "not-authorised")
        return (code_of(error) if named else ErrorCode.policy_violation), str(error)
    except (KafkaRequestRefused, BrokerError) as error:
        return code_of(error), str(error)
    return ErrorCode.none, None


def _repeated(names: Sequence[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _config_entries(shapes: Any, configs: TopicConfigs) -> tuple[Any, ...]:
    return tuple(
        shapes.CreatableTopicConfigs(
            name=name, value=value, read_only=True, config_source=FROM_FILE, is_sensitive=False
        )
        for name, value in configs.items()
    )
