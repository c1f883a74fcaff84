"""The APIs for committed offsets of groups. Offsets are stored durably before the response, and
fenced by member and generation.

Skybridge's own API shows the same offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from struct import error as BadStruct  # noqa: N812 - an exception
from typing import Any

from app.errors import BrokerError, PositionOutOfRange
from app.kafka_listener.errors import code_of
from app.kafka_listener.groups import MAX_NAME
from app.kafka_listener.node import KafkaNode, KafkaSession
from app.kafka_listener.rights import to_ask_group, to_read, to_use_group
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest
from app.log.groups.assignment import read_subscription
from app.log.groups.positions import MOST_GROUPS, CommittedOffset
from app.log.groups.protocol import Code
from app.model.message import Partition

MAX_COMMIT_METADATA = 4_096  # bytes that a client may store with an offset
NONE = CommittedOffset(-1)
ONE_GROUP = ("OffsetFetchResponseTopic", "OffsetFetchResponsePartition")  # response classes
SEVERAL = ("OffsetFetchResponseTopics", "OffsetFetchResponsePartitions")


async def offset_commit(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Commit the valid offsets of a request in one transaction. Each partition with an invalid
    offset gets its own error."""
    payload = request.payload
    codes: dict[Partition, ErrorCode] = {}
    places: dict[Partition, CommittedOffset] = {}
    for topic in payload.topics:
        for part in topic.partitions:
            place = Partition(topic.name, part.partition_index)
            codes[place] = to_read(session, topic.name)
            if codes[place] is ErrorCode.none:
                codes[place] = _commit_refusal(node, place, part)
            if codes[place] is ErrorCode.none:
                places[place] = CommittedOffset(
                    part.committed_offset, part.committed_metadata or ""
                )
    code = to_use_group(node, session, payload.group_id)
    if code is ErrorCode.none:
        code = await _commit(node, payload, places, session.owner)
    if code is not ErrorCode.none:
        codes |= dict.fromkeys(places, code)
    topics = _topic_results(request, "OffsetCommitResponse", codes)
    return request.shapes.OffsetCommitResponse(throttle_time=UNTHROTTLED, topics=topics)


async def offset_fetch(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return the committed offsets of one group, or from version 8 of several groups.

    A request names the partitions, or asks for all. A repeated name is answered once.
    """
    shapes, payload = request.shapes, request.payload
    groups = getattr(payload, "groups", None)
    if groups is None:
        code = to_ask_group(session, payload.group_id)
        return shapes.OffsetFetchResponse(
            throttle_time=UNTHROTTLED,
            topics=()
            if code is not ErrorCode.none
            else _fetched(node, request, payload, ONE_GROUP),
            error_code=code,
        )
    return shapes.OffsetFetchResponse(
        throttle_time=UNTHROTTLED,
        groups=tuple(
            shapes.OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=()
                if code is not ErrorCode.none
                else _fetched(node, request, group, SEVERAL),
                error_code=code,
            )
            for group in {each.group_id: each for each in groups}.values()
            for code in [to_ask_group(session, group.group_id)]
        ),
    )


async def offset_delete(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Delete the committed offsets of partitions. Offsets of topics that a member of the group
    reads are kept.
    """
    payload = request.payload
    refusal = to_use_group(node, session, payload.group_id)
    if refusal is not ErrorCode.none:
        return _delete_response(request, refusal, {})
    known = node.engine.groups.positions.of(payload.group_id)
    if not known and node.coordinator.group(payload.group_id) is None:
        return _delete_response(request, ErrorCode.group_id_not_found, {})
    read = _topics_in_use(node, payload.group_id)
    codes: dict[Partition, ErrorCode] = {}
    for topic in payload.topics:
        kept = read is None or topic.name in read
        code = ErrorCode.group_subscribed_to_topic if kept else ErrorCode.none
        codes |= {Partition(topic.name, part.partition_index): code for part in topic.partitions}
    going = [p for p, code in codes.items() if code is ErrorCode.none and p in known]
    try:
        await node.engine.groups.forget_places(payload.group_id, going)
    except BrokerError:
        return _delete_response(request, ErrorCode.coordinator_not_available, {})
    return _delete_response(request, ErrorCode.none, codes)


def _commit_refusal(node: KafkaNode, place: Partition, part: Any) -> ErrorCode:
    """Return the reason why an offset cannot be committed, or ``none``.

    Negative offsets are stored, as in Kafka. Tools reset a group to -1 or -2, and its consumers
    then start as if the group had no offset.
    """
    try:
        node.engine.partition(place)
    except PositionOutOfRange:
        return ErrorCode.unknown_topic_or_partition
    if len((part.committed_metadata or "").encode()) > MAX_COMMIT_METADATA:
        return ErrorCode.offset_metadata_too_large
    return ErrorCode.none


async def _commit(
    node: KafkaNode, payload: Any, places: Mapping[Partition, CommittedOffset], owner: str
) -> ErrorCode:
    """Commit offsets through the group coordinator. The coordinator is asked even without any valid
    offset, so that a fenced member gets its error."""
    group, positions = payload.group_id, node.engine.groups.positions
    if not 0 < len(group) <= MAX_NAME:
        return ErrorCode.invalid_group_id
    if not positions.of(group) and positions.count >= MOST_GROUPS:
        return ErrorCode.coordinator_not_available
    try:
        committed = await node.coordinator.commit(
            group,
            payload.member_id,
            payload.generation_id_or_member_epoch,
            places,
            getattr(payload, "group_instance_id", None),
            owner,
        )
    except BrokerError as error:
        code = code_of(error)
        is_storage = code is ErrorCode.kafka_storage_error  # clients expect it for records only
        return ErrorCode.coordinator_not_available if is_storage else code
    return ErrorCode.none if committed is Code.NONE else ErrorCode(committed.value)


def _fetched(
    node: KafkaNode, request: KafkaRequest, asked: Any, names: tuple[str, str]
) -> tuple[Any, ...]:
    """Return the topics of an OffsetFetch response. A partition without an offset, or an unknown
    one, has -1, as in Kafka.
    """
    topic_shape, partition_shape = (getattr(request.shapes, name) for name in names)
    known = node.engine.groups.positions.of(asked.group_id)
    return tuple(
        topic_shape(
            name=topic,
            partitions=tuple(
                partition_shape(
                    partition_index=number,
                    committed_offset=committed.offset,
                    committed_leader_epoch=-1,
                    metadata=committed.metadata,
                    error_code=ErrorCode.none,
                )
                for number in numbers
                for committed in [known.get(Partition(topic, number), NONE)]
            ),
        )
        for topic, numbers in _requested_partitions(asked, known)
    )


def _requested_partitions(
    asked: Any, known: Iterable[Partition]
) -> Iterable[tuple[str, Collection[int]]]:
    """Return each requested topic with its partitions, without repeats."""
    if asked.topics is None:
        places = sorted((place.topic, place.number) for place in known)
    else:
        places = [(each.name, number) for each in asked.topics for number in each.partition_indexes]
    every: dict[str, dict[int, None]] = {}
    for topic, number in places:
        every.setdefault(topic, {})[number] = None
    return every.items()


def _topics_in_use(node: KafkaNode, name: str) -> Collection[str] | None:
    """Return the topics that the members of the group or its subscription read. Return None if they
    are unknown.
    """
    read = set(node.engine.groups.positions.declared_of(name))
    group = node.coordinator.group(name)
    if group is None:
        return read
    if group.kind != "consumer":
        return None
    try:
        for member in group.members.values():
            for _, metadata in member.join.protocols:
                read.update(read_subscription(metadata))
    except (BadStruct, ValueError):
        return None
    return read


def _delete_response(
    request: KafkaRequest, code: ErrorCode, codes: Mapping[Partition, ErrorCode]
) -> Any:
    topics = _topic_results(request, "OffsetDeleteResponse", codes) if codes else ()
    return request.shapes.OffsetDeleteResponse(
        error_code=code, throttle_time=UNTHROTTLED, topics=topics
    )


def _topic_results(
    request: KafkaRequest, kind: str, codes: Mapping[Partition, ErrorCode]
) -> tuple[Any, ...]:
    """Return the topics of a response of this ``kind``, with an error code for each requested
    partition.
    """
    topic_shape = getattr(request.shapes, f"{kind}Topic")
    partition_shape = getattr(request.shapes, f"{kind}Partition")
    return tuple(
        topic_shape(
            name=topic.name,
            partitions=tuple(
                partition_shape(
                    partition_index=part.partition_index,
                    error_code=codes[Partition(topic.name, part.partition_index)],
                )
                for part in topic.partitions
            ),
        )
        for topic in request.payload.topics
    )
