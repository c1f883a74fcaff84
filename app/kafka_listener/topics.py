"""Topics are made, grown and deleted by the usual tools. Each of a request has its own fate; what is asked
for and cannot be true here, as a second replica or compaction, is refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any

from app.errors import BoundReached, BrokerError, BrokerRefused
from app.kafka_listener.configs import FROM_FILE, TopicConfigs, topic_configs
from app.kafka_listener.errors import Refused, code_of, demand
from app.kafka_listener.node import NODE_ID, Node, Session
from app.kafka_listener.rights import to_administer, to_delete, to_write
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, Request
from app.log.partitions import is_topic_name

UNSAID = -1
REPLICAS = 1
NO_RIGHT = "the user has no right to do this"


async def create_topics(node: Node, session: Session, request: Request) -> Any:
    """With ``validate_only`` nothing is made, and the answer is the same."""
    payload = request.payload
    twice = _twice([topic.name for topic in payload.topics])
    results = [
        await _created(node, session, request, topic, twice=topic.name in twice)
        for topic in payload.topics
    ]
    return request.shapes.CreateTopicsResponse(throttle_time=UNTHROTTLED, topics=tuple(results))


async def delete_topics(node: Node, session: Session, request: Request) -> Any:
    """With all their records, but not what a subscription of Skybridge reads. A user without the right to delete
    a topic may delete it if it created it, while it is empty."""
    shapes = request.shapes
    results = []
    for name in request.payload.topic_names:
        code, message = await _outcome(_delete(node, session, name))
        results.append(
            shapes.DeletableTopicResult(name=name, error_code=code, error_message=message)
        )
    return shapes.DeleteTopicsResponse(throttle_time=UNTHROTTLED, responses=tuple(results))


async def create_partitions(node: Node, session: Session, request: Request) -> Any:
    """Keys may go to other partitions from then on, as in any Kafka: so not where a subscription of
    Skybridge reads, for it promises the order of a key."""
    shapes, payload = request.shapes, request.payload
    twice = _twice([topic.name for topic in payload.topics])
    results = []
    for topic in payload.topics:
        code, message = await _outcome(
            _grow(node, session, topic, only_check=payload.validate_only, twice=topic.name in twice)
        )
        results.append(
            shapes.CreatePartitionsTopicResult(
                name=topic.name, error_code=code, error_message=message
            )
        )
    return shapes.CreatePartitionsResponse(throttle_time=UNTHROTTLED, results=tuple(results))


async def _created(
    node: Node, session: Session, request: Request, topic: Any, *, twice: bool
) -> Any:
    configs = topic_configs(node, topic.name)
    partitions = UNSAID

    async def create() -> None:
        nonlocal partitions
        demand(to_write(session, topic.name), NO_RIGHT)
        partitions = _checked(node, topic, configs, twice=twice)
        if not request.payload.validate_only:
            await node.engine.create_topic(topic.name, partitions, session.owner)

    code, message = await _outcome(create())
    made = code is ErrorCode.none
    return request.shapes.CreatableTopicResult(
        name=topic.name,
        topic_id=None,
        error_code=code,
        error_message=message,
        topic_config_error_code=0,
        num_partitions=partitions if made else UNSAID,
        replication_factor=REPLICAS if made else UNSAID,
        configs=_told(request.shapes, configs) if made and request.version >= 5 else None,  # noqa: PLR2004 - since when they are told
    )


def _checked(node: Node, topic: Any, configs: TopicConfigs, *, twice: bool) -> int:
    """How many partitions it gets. Raises Refused."""
    if twice:
        raise Refused(ErrorCode.invalid_request, f"{topic.name} is named twice")
    if not is_topic_name(topic.name):
        raise Refused(ErrorCode.invalid_topic_exception, "a name is 1 to 249 of A-Z a-z 0-9 . _ -")
    if topic.name in node.engine.topics():
        raise Refused(ErrorCode.topic_already_exists, f"there is a topic {topic.name}")
    partitions = _placed(topic) if topic.assignments else _counted(node, topic)
    most = node.settings.max_partitions
    if not 0 < partitions <= most:
        raise Refused(ErrorCode.invalid_partitions, f"a topic has 1 to {most} partitions")
    for config in topic.configs:
        held = configs.get(config.name)
        if held is None:
            raise Refused(ErrorCode.invalid_config, f"{config.name} cannot be set here")
        if config.value is not None and config.value != held:
            what = f"{config.name} is {held} here, by the configuration of Skybridge"
            raise Refused(ErrorCode.invalid_config, what)
    return partitions


def _counted(node: Node, topic: Any) -> int:
    if topic.replication_factor not in (UNSAID, REPLICAS):
        raise Refused(ErrorCode.invalid_replication_factor, "there is one node: one replica")
    asked = topic.num_partitions
    return node.engine.settings.partitions if asked == UNSAID else int(asked)


def _placed(topic: Any) -> int:
    """By hand, on the one node that there is."""
    if (topic.num_partitions, topic.replication_factor) != (UNSAID, UNSAID):
        raise Refused(ErrorCode.invalid_request, "either assignments, or numbers")
    numbers = sorted(each.partition_index for each in topic.assignments)
    on_us = all(tuple(each.broker_ids) == (NODE_ID,) for each in topic.assignments)
    if not on_us or numbers != list(range(len(numbers))):
        what = f"each partition from 0 on is on node {NODE_ID} alone"
        raise Refused(ErrorCode.invalid_replica_assignment, what)
    return len(numbers)


async def _delete(node: Node, session: Session, name: str) -> None:
    creator = None if to_delete(session, name) is ErrorCode.none else session.owner
    await node.engine.delete_topic(name, creator)


async def _grow(node: Node, session: Session, topic: Any, *, only_check: bool, twice: bool) -> None:
    demand(to_administer(session), NO_RIGHT)
    known = node.engine.topics().get(topic.name)
    if known is None:
        raise Refused(ErrorCode.unknown_topic_or_partition, f"no topic {topic.name}")
    have, most = len(known.partitions), node.settings.max_partitions
    if twice:
        raise Refused(ErrorCode.invalid_request, f"{topic.name} is named twice")
    if not have < topic.count <= most:
        what = f"{topic.name} has {have} partitions, and may have {most}"
        raise Refused(ErrorCode.invalid_partitions, what)
    placed = topic.assignments
    if placed is not None and [tuple(p.broker_ids) for p in placed] != [(NODE_ID,)] * (
        topic.count - have
    ):
        raise Refused(ErrorCode.invalid_replica_assignment, f"one replica each, on node {NODE_ID}")
    if not only_check:
        await node.engine.grow_topic(topic.name, topic.count)


async def _outcome(act: Awaitable[None]) -> tuple[ErrorCode, str | None]:
    try:
        await act
    except BoundReached as error:
        return ErrorCode.policy_violation, str(error)
    except BrokerRefused as error:
        named = error.kind in ("unknown-topic", "not-authorised")
        return (code_of(error) if named else ErrorCode.policy_violation), str(error)
    except (Refused, BrokerError) as error:
        return code_of(error), str(error)
    return ErrorCode.none, None


def _twice(names: Sequence[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def _told(shapes: Any, configs: TopicConfigs) -> tuple[Any, ...]:
    return tuple(
        shapes.CreatableTopicConfigs(
            name=name, value=value, read_only=True, config_source=FROM_FILE, is_sensitive=False
        )
        for name, value in configs.items()
    )
