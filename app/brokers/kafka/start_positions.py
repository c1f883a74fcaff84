"""Commit the start position of a group that has no position, before any message is handed out.

The start is committed for *all* partitions of a topic before the member joins. Kafka accepts such commits
from any client only while the group is empty. So if a second member tries the same, its commit fails and
cannot move a position that is in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaConnectionError, KafkaError

from app.brokers.kafka.admin import KafkaAdmin
from app.brokers.kafka.questions import ASK_AGAIN
from app.brokers.positions import checked_offset
from app.errors import PositionOutOfRange
from app.model.message import Partition
from app.model.start import EARLIEST, StartAt


async def prepare(admin: KafkaAdmin, group: str, topics: Sequence[str], start: StartAt) -> None:
    """Commit the start of every topic in which ``group`` has no position.

    Raises PositionOutOfRange if a partition does not hold the start position, and KafkaError if the cluster
    does not answer.
    """
    committed = await _committed(admin, group)
    fresh = set(topics) - {place.topic for place in committed}
    if not fresh:
        return
    await admin.ensure(fresh)
    places = await admin.places(fresh)
    async with admin.reader(group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign(places)
        offsets = await resolve(admin, consumer, places, start)
        try:
            await consumer.commit({place: (offset, "") for place, offset in offsets.items()})
        except CommitFailedError:
            return  # another member has joined already and committed the start


async def resolve(
    admin: KafkaAdmin,
    consumer: AIOKafkaConsumer,
    places: Collection[TopicPartition],
    start: StartAt,
) -> dict[TopicPartition, int]:
    """Return the offset at which each partition begins.

    Raises PositionOutOfRange only if the confirmed leader of a partition does not hold the position: a subscription does not
    start again after it.
    """
    earliest: Mapping[TopicPartition, int] = await consumer.beginning_offsets(places)
    latest: Mapping[TopicPartition, int] = await consumer.end_offsets(places)
    if start.kind == "earliest":
        return dict(earliest)
    if start.kind == "latest":
        return dict(latest)
    if start.kind == "time":
        found = await consumer.offsets_for_times(dict.fromkeys(places, start.time_ms))
        return {p: latest[p] if found[p] is None else found[p].offset for p in places}
    offsets = dict(earliest)  # a partition that is not named begins at the earliest offset
    for place in places:
        text = start.positions.get(place.partition)
        if text is not None:
            ends = earliest[place], latest[place]
            offsets[place] = await _held(admin, Partition(*place), text, ends)
    return offsets


async def _held(admin: KafkaAdmin, partition: Partition, text: str, ends: tuple[int, int]) -> int:
    try:
        return checked_offset(partition, text, *ends)
    except PositionOutOfRange:
        return checked_offset(partition, text, *await admin.confirmed_ends(partition))


async def resolve_new(
    admin: KafkaAdmin,
    consumer: AIOKafkaConsumer,
    places: Collection[TopicPartition],
    started: Collection[str],
    start: StartAt,
) -> dict[TopicPartition, int]:
    """Return the start offset of partitions in which the group has no position.

    A partition added to a topic in ``started`` begins at the earliest offset, so that no record published
    before its discovery is skipped.
    """
    added = [place for place in places if place.topic in started]
    fresh = [place for place in places if place.topic not in started]
    offsets = await resolve(admin, consumer, added, EARLIEST) if added else {}
    return offsets | (await resolve(admin, consumer, fresh, start) if fresh else {})


async def _committed(admin: KafkaAdmin, group: str) -> Mapping[TopicPartition, int]:
    """Return the committed offsets of the group. Wait while the cluster creates its offsets topic."""
    async with asyncio.timeout(admin.patience):
        while True:
            try:
                return await admin.committed(group)
            except KafkaError as error:
                if not error.retriable or isinstance(error, KafkaConnectionError):
                    raise
            await asyncio.sleep(ASK_AGAIN)
