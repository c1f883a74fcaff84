"""Read a partition without a group, for peek, tail, replay and pull."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from app.bindings.record import Record
from app.brokers.kafka.admin import KafkaAdmin
from app.brokers.kafka.fetching import Fetcher
from app.brokers.positions import checked_offset, offset_of, out_of_range
from app.errors import PositionOutOfRange
from app.model.message import Message, Partition
from app.model.position import is_offset


async def read(
    admin: KafkaAdmin, fetching: Fetcher, partition: Partition, start: str, until: str | None
) -> AsyncGenerator[Message, None]:
    """Yield messages from ``start`` up to but not including ``until``. ``fetching`` is closed afterwards.

    Without ``until``, reading ends at the current end of the partition.
    """
    place = TopicPartition(partition.topic, partition.number)
    try:
        earliest, latest = await _ends(admin, partition, start, until)
        first = checked_offset(partition, start, earliest, latest)
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
            first = found.next_fetch_offset  # skips gaps of compaction and transactions too
    finally:
        await fetching.close()


async def _ends(
    admin: KafkaAdmin, partition: Partition, start: str, until: str | None
) -> tuple[int, int]:
    """Return the first offset of a partition, and the offset after its last record.

    If the range is not inside of them, they are those of the confirmed leader. A broker that was cut off has fewer records, and
    a replay would end without the others.
    """
    earliest, latest = await admin.ends(partition)
    asked = (start, until or start)
    inside = all(is_offset(each) and earliest <= int(each) <= latest for each in asked)
    return (earliest, latest) if inside else await admin.confirmed_ends(partition)


def message_of(raw: Any, partition: Partition, epoch: int) -> Message:
    """Return the message of a fetched record. Null headers and repeated headers are kept as they are."""
    offset = raw.offset
    record = Record(raw.key, tuple(raw.headers), raw.value)
    return Message(record, partition, str(offset), offset, raw.timestamp, epoch)


async def position_lost(
    consumer: Any, error: OffsetOutOfRangeError, within: float
) -> PositionOutOfRange:
    """Return the error for a fetch at an offset that the partition does not have. The error has the offsets
    that are valid.

    After this error the subscription stops until an operator acts.
    """
    [(place, offset)] = error.args[0].items()
    partition = Partition(place.topic, place.partition)
    try:
        async with asyncio.timeout(within):
            earliest = (await consumer.beginning_offsets([place]))[place]
            latest = (await consumer.end_offsets([place]))[place]
    except (KafkaError, TimeoutError):
        return PositionOutOfRange(f"{partition} does not hold position {offset}")
    return out_of_range(partition, str(offset), str(earliest), str(latest))
