"""DescribeConfigs: the settings of Kafka that are true here, of topics and of the node. All are read only:
they are Skybridge's own configuration, seen from the other side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from app.kafka_listener.commits import LONGEST_METADATA
from app.kafka_listener.node import NODE_ID, Node, Session
from app.kafka_listener.rights import to_administer, to_see
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, Request
from app.log.settings import Retention

FROM_FILE = 4  # where a value comes from: the static configuration of the node
BOOLEAN, STRING, INT, LONG, LIST = 1, 2, 3, 5, 7  # kinds of values
FOR_EVER = "-1"
MILLISECONDS = 1_000

TopicConfigs = Mapping[str, str]


class Config(msgspec.Struct, frozen=True):
    """``kind``: of the value, by Kafka's numbers."""

    value: str
    kind: int
    documentation: str


def topic_configs(node: Node, topic: str) -> TopicConfigs:
    """By name, as they hold for a topic of this name, also one that is not there yet."""
    return {name: config.value for name, config in _of_topic(node, topic).items()}


async def describe_configs(node: Node, session: Session, request: Request) -> Any:
    """Of each resource once, as ``metadata`` has it."""
    named = {(each.resource_type, each.resource_name): each for each in request.payload.resources}
    return request.shapes.DescribeConfigsResponse(
        throttle_time=UNTHROTTLED,
        results=tuple(_described(node, session, request, each) for each in named.values()),
    )


def _described(node: Node, session: Session, request: Request, resource: Any) -> Any:
    shapes = request.shapes
    code, message, configs = _find(node, session, resource.resource_type, resource.resource_name)
    asked = resource.configuration_keys
    documented = getattr(request.payload, "include_documentation", False)
    return shapes.DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            shapes.DescribeConfigsResourceResult(
                name=name,
                value=config.value,
                read_only=True,
                config_source=FROM_FILE,
                is_sensitive=False,
                synonyms=(),
                config_type=config.kind,
                documentation=config.documentation if documented else None,
            )
            for name, config in configs.items()
            if not asked or name in asked
        ),
    )


def _find(
    node: Node, session: Session, kind: int, name: str
) -> tuple[ErrorCode, str | None, Mapping[str, Config]]:
    """Kinds of resources by Kafka's numbers: 2 a topic, 4 a node (nameless: what holds for all)."""
    match kind:
        case 2 if to_see(session, name) is not ErrorCode.none:
            return ErrorCode.topic_authorization_failed, f"topic {name} is not allowed"[:300], {}
        case 4 if to_administer(session) is not ErrorCode.none:
            return ErrorCode.cluster_authorization_failed, "no right of a producer", {}
        case 2 if name in node.engine.topics():
            return ErrorCode.none, None, _of_topic(node, name)
        case 2:
            return ErrorCode.unknown_topic_or_partition, f"no topic {name}"[:300], {}
        case 4 if name in ("", str(NODE_ID)):
            return ErrorCode.none, None, _of_node(node)
        case _:
            return ErrorCode.invalid_request, f"there are topics, and node {NODE_ID}", {}


def _of_topic(node: Node, topic: str) -> dict[str, Config]:
    settings = node.engine.settings
    retention = settings.retention_of(topic)
    return {
        "cleanup.policy": Config("delete", LIST, "There is no compaction."),
        "retention.ms": Config(_age(retention), LONG, "Whole segments go, the oldest first."),
        "retention.bytes": Config(_size(retention), LONG, "Of one partition."),
        "segment.bytes": Config(str(settings.segment_bytes), INT, "Smaller where little is kept."),
        "max.message.bytes": Config(str(node.settings.max_batch), INT, "Of one batch."),
        "message.timestamp.type": Config("LogAppendTime", STRING, "Times are those of the log."),
        "min.insync.replicas": Config("1", INT, "There is one node."),
    }


def _of_node(node: Node) -> dict[str, Config]:
    settings, log = node.settings, node.engine.settings
    shortest, longest = settings.session_timeouts
    create = str(settings.create_topics).lower()
    minutes = round(log.group_age / 60)
    return {
        "auto.create.topics.enable": Config(create, BOOLEAN, "By being asked for."),
        "num.partitions": Config(str(log.partitions), INT, "Of topics that do not say."),
        "default.replication.factor": Config("1", INT, "There is one node."),
        "log.retention.ms": Config(_age(log.retention), LONG, "Unless a topic has its own."),
        "log.retention.bytes": Config(_size(log.retention), LONG, "Unless a topic has its own."),
        "log.message.timestamp.type": Config(
            "LogAppendTime", STRING, "Times are those of the log."
        ),
        "message.max.bytes": Config(str(settings.max_batch), INT, "Of one batch."),
        "group.min.session.timeout.ms": Config(_ms(shortest), INT, "Of members of groups."),
        "group.max.session.timeout.ms": Config(_ms(longest), INT, "Of members of groups."),
        "group.initial.rebalance.delay.ms": Config("0", INT, "Groups do not wait for more."),
        "offset.metadata.max.bytes": Config(str(LONGEST_METADATA), INT, "Kept with a position."),
        "offsets.retention.minutes": Config(str(minutes), INT, "Of groups without members."),
    }


def _age(retention: Retention) -> str:
    return FOR_EVER if retention.max_age is None else _ms(retention.max_age)


def _size(retention: Retention) -> str:
    return FOR_EVER if retention.max_bytes is None else str(retention.max_bytes)


def _ms(seconds: float) -> str:
    return str(round(seconds * MILLISECONDS))
