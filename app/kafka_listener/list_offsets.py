"""The ListOffsets API: the earliest or latest offset, the offset of a time, and that of the newest
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.errors import BrokerError, PositionOutOfRange
from app.kafka_listener.errors import KafkaRequestRefused, code_of, demand
from app.kafka_listener.fetch import check_epoch
from app.kafka_listener.node import LEADER_EPOCH, KafkaNode, KafkaSession
from app.kafka_listener.rights import to_see
from app.kafka_listener.wire import UNTHROTTLED, ErrorCode, KafkaRequest
from app.log.partitions import PartitionLog
from app.log.stored_batches import StoredRun
from app.model.message import Partition

NOT_FOUND = (-1, -1)


async def list_offsets(node: KafkaNode, session: KafkaSession, request: KafkaRequest) -> Any:
    """Return the requested offset of each partition."""
    shapes = request.shapes
    return shapes.ListOffsetsResponse(
        throttle_time=UNTHROTTLED,
        topics=tuple(
            [
                shapes.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        [
                            await _partition(node, session, shapes, topic.name, p)
                            for p in topic.partitions
                        ]
                    ),
                )
                for topic in request.payload.topics
            ]
        ),
    )


async def _partition(
    node: KafkaNode, session: KafkaSession, shapes: Any, topic: str, asked: Any
) -> Any:
    code, (offset, time_ms) = to_see(session, topic), NOT_FOUND
    try:
        demand(code, f"topic {topic} is not allowed")
        check_epoch(getattr(asked, "current_leader_epoch", -1))
        log = node.engine.partition(Partition(topic, asked.partition_index))
        offset, time_ms = await _find(node, log, asked.timestamp)
    except PositionOutOfRange:
        code = ErrorCode.unknown_topic_or_partition
    except (KafkaRequestRefused, BrokerError) as error:
        code = code_of(error)
    return shapes.ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=code,
        timestamp=time_ms,
        offset=offset,
        leader_epoch=LEADER_EPOCH if code is ErrorCode.none else -1,
    )


async def _find(node: KafkaNode, log: PartitionLog, asked: int) -> tuple[int, int]:
    """Return offset and time in ms for Kafka's timestamp value. The time is -1 for an end of the
    log, as in Kafka.
    """
    match asked:
        case -1:  # latest
            return log.next_offset, -1
        case -2 | -4:  # earliest; earliest that is stored locally
            return log.earliest, -1
        case -3:  # the offset of the newest time (KIP-734)
            return await _at_time(node, log, log.last_ms)
        case _ if asked >= 0:
            return await _at_time(node, log, asked)
        case _:
            raise KafkaRequestRefused(
                ErrorCode.unsupported_version, f"timestamp {asked} is not supported"
            )


async def _at_time(node: KafkaNode, log: PartitionLog, time_ms: int) -> tuple[int, int]:
    offset = await node.engine.offset_at(log.place, time_ms)
    if offset >= log.next_offset:
        return NOT_FOUND
    return offset, await node.engine.scan(log.place, offset, _time) or -1


def _time(runs: Iterator[StoredRun]) -> int | None:
    first = next(runs, None)
    return None if first is None else first.time_ms
