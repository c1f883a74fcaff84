"""The APIs Metadata and DescribeCluster: topics with their partitions, and the only node, which
leads all of them.
"""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from app.errors import BoundReached, BrokerError
from app.kafka_listener.errors import code_of
from app.kafka_listener.node import LEADER_EPOCH, NODE_ID, KafkaNode, KafkaSession
from app.kafka_listener.rights import to_see, to_write
from app.kafka_listener.wire import RIGHTS_NOT_REQUESTED, UNTHROTTLED, ErrorCode, KafkaRequest
from app.log.partitions import LogTopic, is_topic_name

BROKERS = 1  # Kafka's number for broker endpoints; 2 means controllers
NULL_NAME_SINCE = 12  # from this version on, a topic in a response may have no name


async def metadata(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return the requested topics and the node. Clients only read the topic ids, because all other
    APIs have versions with topic names.
    """
    shapes = request.shapes
    host, port = node.address
    return shapes.MetadataResponse(
        throttle_time=UNTHROTTLED,
        brokers=(shapes.MetadataResponseBroker(node_id=NODE_ID, host=host, port=port, rack=None),),
        cluster_id=node.cluster,
        controller_id=NODE_ID,
        topics=tuple(
            [
                await _topic(node, session, request, each)
                for each in _requested_topics(node, session, request)
            ]
        ),
    )


async def describe_cluster(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:  # noqa: ARG001
    """Return the node. A request for controllers gets an error, because this node is no controller."""
    shapes = request.shapes
    kind = getattr(request.payload, "endpoint_type", BROKERS)
    host, port = node.address
    here = shapes.DescribeClusterBroker(
        broker_id=NODE_ID, host=host, port=port, rack=None, is_fenced=False
    )
    found = kind == BROKERS
    return shapes.DescribeClusterResponse(
        throttle_time=UNTHROTTLED,
        error_code=ErrorCode.none if found else ErrorCode.mismatched_endpoint_type,
        error_message=None if found else "this is a broker and no controller",
        endpoint_type=kind,
        cluster_id=node.cluster if found else "",
        controller_id=NODE_ID if found else -1,
        brokers=(here,) if found else (),
        cluster_authorized_operations=RIGHTS_NOT_REQUESTED,
    )


def _requested_topics(
    node: KafkaNode, session: KafkaSession, request: KafkaRequest
) -> list[tuple[str | None, Any]]:
    """Return names and ids of the requested topics, without repeats. A request for all topics has
    an empty list in version 0, and null in later versions. Its result has all topics that the user
    may see."""
    topics = request.payload.topics
    if topics is None or (not topics and not request.version):
        seen = (n for n in node.engine.topics() if to_see(session, n) is ErrorCode.none)
        return [(name, None) for name in sorted(seen)]
    return list(dict.fromkeys((each.name, getattr(each, "topic_id", None)) for each in topics))


async def _topic(
    node: KafkaNode, session: KafkaSession, request: KafkaRequest, asked: tuple[str | None, Any]
) -> Any:
    shapes, payload = request.shapes, request.payload
    name, topic_id = asked
    if name is None:
        nameless = None if request.version >= NULL_NAME_SINCE else ""
        return _missing(shapes, nameless, ErrorCode.unknown_topic_id, topic_id)
    if (code := to_see(session, name)) is not ErrorCode.none:
        return _missing(shapes, name, code)
    topics = node.engine.topics()
    if name not in topics:
        wanted = getattr(payload, "allow_auto_topic_creation", True)
        writes = to_write(session, name) is ErrorCode.none
        code = await _create(node, session, name, wanted=wanted and writes)
        if code is not ErrorCode.none:
            return _missing(shapes, name, code)
        topics = node.engine.topics()
    return _present(shapes, topics[name], node.cluster)


async def _create(node: KafkaNode, session: KafkaSession, name: str, *, wanted: bool) -> ErrorCode:
    if not is_topic_name(name):
        return ErrorCode.invalid_topic_exception
    if not (wanted and node.settings.create_topics):
        return ErrorCode.unknown_topic_or_partition
    try:
        await node.engine.create_topic(name, owner=session.owner)
    except BoundReached:
        return ErrorCode.policy_violation
    except BrokerError as error:
        return code_of(error)
    return ErrorCode.none


def _missing(shapes: Any, name: str | None, code: ErrorCode, topic_id: Any = None) -> Any:
    return shapes.MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=False, partitions=()
    )


def _present(shapes: Any, topic: LogTopic, cluster: str) -> Any:
    return shapes.MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=uuid5(NAMESPACE_OID, f"{cluster}/{topic.id}"),
        is_internal=False,
        partitions=tuple(
            shapes.MetadataResponsePartition(
                error_code=ErrorCode.none,
                partition_index=partition.number,
                leader_id=NODE_ID,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=(NODE_ID,),
                isr_nodes=(NODE_ID,),
                offline_replicas=(),
            )
            for partition in topic.partitions
        ),
    )
