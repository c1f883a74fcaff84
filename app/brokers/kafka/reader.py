"""Reading without a group: for peek, tail, replay and pull."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from app.bindings.record import Record
from app.brokers.kafka.admin import Admin
from app.brokers.kafka.fetching import Fetching
from app.brokers.positions import checked, offset_of, out_of_range
from app.errors import PositionOutOfRange
from app.model.message import Message, Partition


async def read(
    admin: Admin, fetching: Fetching, partition: Partition, start: str, until: str | None
) -> AsyncGenerator[Message, None]:
    """From ``start`` up to but not including ``until``, or the end as it is now. ``fetching`` is closed afterwards."""
    place = TopicPartition(partition.topic, partition.number)
    try:
        earliest, latest = await admin.ends(partition)
        first = checked(partition, start, earliest, latest)
        end = latest if until is None else min(offset_of(until), latest)
        while first < end:
            try:
                found = await fetching.records(place, first)
            except OffsetOutOfRangeError as error:
                raise out_of_range(partition, str(first), str(earliest), str(latest)) from error
            for raw in found:
                if raw.offset >= end:
                    return
                yield message_of(raw, partition, epoch=0)
            first = found.next_fetch_offset  # beyond gaps too: compaction, transactions
    finally:
        await fetching.close()


def message_of(raw: Any, partition: Partition, epoch: int) -> Message:
    """What aiokafka read, with null and repeated headers as they were."""
    return Message(
        record=Record(key=raw.key, headers=tuple(raw.headers), body=raw.value),
        partition=partition,
        position=str(raw.offset),
        offset=raw.offset,
        time_ms=raw.timestamp,
        epoch=epoch,
    )


async def position_lost(
    consumer: Any, error: OffsetOutOfRangeError, within: float
) -> PositionOutOfRange:
    """What a fetch out of range means: the subscription stops and asks (rule 10)."""
    [(place, offset)] = error.args[0].items()
    partition = Partition(place.topic, place.partition)
    try:
        async with asyncio.timeout(within):
            earliest = (await consumer.beginning_offsets([place]))[place]
            latest = (await consumer.end_offsets([place]))[place]
    except (KafkaError, TimeoutError):
        return PositionOutOfRange(f"{partition} does not hold position {offset}")
    return out_of_range(partition, str(offset), str(earliest), str(latest))
