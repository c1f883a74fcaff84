"""The DescribeConfigs API. It describes the settings of Kafka that apply to topics and to the node.
All are read-only, because they come from the configuration of Skybridge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from app.kafka_listener.commits import MAX_COMMIT_METADATA
from app.kafka_listener.node import NODE_ID, KafkaNode, KafkaSession
from app.kafka_listener.rights import to_administer, to_see
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest
from app.log.settings import RetentionLimits

FROM_FILE = 4  # Kafka's number for a value of the static broker configuration
BOOLEAN, STRING, INT, LONG, LIST = 1, 2, 3, 5, 7  # Kafka's numbers for kinds of values
FOR_EVER = "-1"
MILLISECONDS = 1_000

TopicConfigs = Mapping[str, str]


class ConfigEntry(msgspec.Struct, frozen=True):
    """A setting as Kafka describes it. ``kind`` is Kafka's number for the kind of its value."""

    value: str
    kind: int
    documentation: str


def topic_configs(node: KafkaNode, topic: str) -> TopicConfigs:
    """Return the settings, by name, for a topic of this name, which need not exist."""
    return {name: config.value for name, config in _of_topic(node, topic).items()}


async def describe_configs(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return the settings of each requested resource. A repeated resource is answered once."""
    named = {(each.resource_type, each.resource_name): each for each in request.payload.resources}
    return request.shapes.DescribeConfigsResponse(
        throttle_time=UNTHROTTLED,
        results=tuple(_described(node, session, request, each) for each in named.values()),
    )


def _described(node: KafkaNode, session: KafkaSession, request: KafkaRequest, resource: Any) -> Any:
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
    node: KafkaNode, session: KafkaSession, kind: int, name: str
) -> tuple[ErrorCode, str | None, Mapping[str, ConfigEntry]]:
    """Return the settings of a resource, or an error code and a message.

    ``kind`` is Kafka's number: 2 is a topic, 4 a node. A node without a name means the default of
    all nodes.
    """
    match kind:
        case 2 if to_see(session, name) is not ErrorCode.none:
            return ErrorCode.topic_authorization_failed, f"topic {name} is not allowed"[:300], {}
        case 4 if to_administer(session) is not ErrorCode.none:
            return (
                ErrorCode.cluster_authorization_failed,
                "a producer has no right to read node settings",
                {},
            )
        case 2 if name in node.engine.topics():
            return ErrorCode.none, None, _of_topic(node, name)
        case 2:
            return ErrorCode.unknown_topic_or_partition, f"no topic {name}"[:300], {}
        case 4 if name in ("", str(NODE_ID)):
            return ErrorCode.none, None, _of_node(node)
        case _:
            return ErrorCode.invalid_request, f"resources are topics and node {NODE_ID}", {}


def _of_topic(node: KafkaNode, topic: str) -> dict[str, ConfigEntry]:
    settings = node.engine.settings
    retention = settings.retention_of(topic)
    return {
        "cleanup.policy": ConfigEntry("delete", LIST, "Compaction is not supported."),
        "retention.ms": ConfigEntry(
            _age(retention), LONG, "Whole segments are deleted, the oldest first."
        ),
        "retention.bytes": ConfigEntry(_size(retention), LONG, "The size of one partition."),
        "segment.bytes": ConfigEntry(
            str(settings.segment_bytes), INT, "Smaller if retention is small."
        ),
        "max.message.bytes": ConfigEntry(
            str(node.settings.max_batch), INT, "The size of one batch."
        ),
        "message.timestamp.type": ConfigEntry("LogAppendTime", STRING, "The log sets the times."),
        "min.insync.replicas": ConfigEntry("1", INT, "There is one node."),
    }


def _of_node(node: KafkaNode) -> dict[str, ConfigEntry]:
    settings, log = node.settings, node.engine.settings
    shortest, longest = settings.session_timeouts
    create = str(settings.create_topics).lower()
    minutes = round(log.group_age / 60)
    return {
        "auto.create.topics.enable": ConfigEntry(
            create, BOOLEAN, "A request for a topic creates it."
        ),
        "num.partitions": ConfigEntry(str(log.partitions), INT, "The default of new topics."),
        "default.replication.factor": ConfigEntry("1", INT, "There is one node."),
        "log.retention.ms": ConfigEntry(_age(log.retention), LONG, "Unless a topic has its own."),
        "log.retention.bytes": ConfigEntry(
            _size(log.retention), LONG, "Unless a topic has its own."
        ),
        "log.message.timestamp.type": ConfigEntry(
            "LogAppendTime", STRING, "The log sets the times."
        ),
        "message.max.bytes": ConfigEntry(str(settings.max_batch), INT, "The size of one batch."),
        "group.min.session.timeout.ms": ConfigEntry(
            _ms(shortest), INT, "The shortest for group members."
        ),
        "group.max.session.timeout.ms": ConfigEntry(
            _ms(longest), INT, "The longest for group members."
        ),
        "group.initial.rebalance.delay.ms": ConfigEntry(
            "0", INT, "Groups do not wait for more members."
        ),
        "offset.metadata.max.bytes": ConfigEntry(
            str(MAX_COMMIT_METADATA), INT, "Stored with an offset."
        ),
        "offsets.retention.minutes": ConfigEntry(str(minutes), INT, "For groups without members."),
    }


def _age(retention: RetentionLimits) -> str:
    return FOR_EVER if retention.max_age is None else _ms(retention.max_age)


def _size(retention: RetentionLimits) -> str:
    return FOR_EVER if retention.max_bytes is None else str(retention.max_bytes)


def _ms(seconds: float) -> str:
    return str(round(seconds * MILLISECONDS))
