"""Where a group without a position begins (rule 10), decided before anything is handed out.

The start is committed for *all* partitions of a topic before the member joins. While the group is
empty Kafka takes such commits from anybody; once it has members it takes them from none but these,
so the second member fails harmlessly and cannot move a position that is in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import CommitFailedError, KafkaConnectionError, KafkaError

from app.brokers.kafka.admin import Admin
from app.brokers.kafka.questions import ASK_AGAIN
from app.brokers.positions import checked
from app.model.message import Partition
from app.model.start import EARLIEST, StartAt


async def prepare(admin: Admin, group: str, topics: Sequence[str], start: StartAt) -> None:
    """Commit the start of every topic in which ``group`` has no position at all.

    Raises PositionOutOfRange for a start that the log does not hold, KafkaError when nobody answers.
    """
    committed = await _committed(admin, group)
    fresh = set(topics) - {place.topic for place in committed}
    if not fresh:
        return
    await admin.ensure(fresh)
    places = await admin.places(fresh)
    async with admin.reader(group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign(places)
        offsets = await resolve(consumer, places, start)
        try:
            await consumer.commit({place: (offset, "") for place, offset in offsets.items()})
        except CommitFailedError:
            return  # another member is there already, and has begun


async def resolve(
    consumer: AIOKafkaConsumer, places: Collection[TopicPartition], start: StartAt
) -> dict[TopicPartition, int]:
    """The offset at which each partition begins."""
    earliest: Mapping[TopicPartition, int] = await consumer.beginning_offsets(places)
    latest: Mapping[TopicPartition, int] = await consumer.end_offsets(places)
    if start.kind == "earliest":
        return dict(earliest)
    if start.kind == "latest":
        return dict(latest)
    if start.kind == "time":
        found = await consumer.offsets_for_times(dict.fromkeys(places, start.time_ms))
        return {p: latest[p] if found[p] is None else found[p].offset for p in places}
    offsets = dict(earliest)  # a partition that is not named begins there
    for place in places:
        text = start.positions.get(place.partition)
        if text is not None:
            partition = Partition(place.topic, place.partition)
            offsets[place] = checked(partition, text, earliest[place], latest[place])
    return offsets


async def resolve_new(
    consumer: AIOKafkaConsumer,
    places: Collection[TopicPartition],
    started: Collection[str],
    start: StartAt,
) -> dict[TopicPartition, int]:
    """Partitions without a position: those added to a topic already ``started`` begin at earliest,
    so that nothing published before we noticed them is passed over."""
    added = [place for place in places if place.topic in started]
    fresh = [place for place in places if place.topic not in started]
    offsets = await resolve(consumer, added, EARLIEST) if added else {}
    return offsets | (await resolve(consumer, fresh, start) if fresh else {})


async def _committed(admin: Admin, group: str) -> Mapping[TopicPartition, int]:
    """A fresh broker has no group coordinator for a moment, while it makes its offsets topic."""
    async with asyncio.timeout(admin.patience):
        while True:
            try:
                return await admin.committed(group)
            except KafkaError as error:
                if not error.retriable or isinstance(error, KafkaConnectionError):
                    raise
            await asyncio.sleep(ASK_AGAIN)
