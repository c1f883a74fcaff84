"""What the cluster says about itself: topics, positions, groups. Each question has its own client:
they are rare, and nothing needs watching in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from app.brokers.kafka.connection import STOP_WITHIN, shut
from app.brokers.kafka.settings import KafkaSettings
from app.model.metadata import GroupLag, LogMetadata, PartitionMetadata, TopicMetadata

Offsets = Mapping[TopicPartition, int]
_NO_LEADER = -1
ASK_AGAIN = 0.1


class Admin:
    """Raises KafkaError, OSError or TimeoutError; ``errors.explain`` says what they mean."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    @property
    def patience(self) -> float:
        """Seconds to ask again while the cluster is getting ready."""
        return self._settings.request_timeout

    async def places(self, topics: Collection[str]) -> list[TopicPartition]:
        """Every partition of ``topics``. Raises UnknownTopicOrPartitionError."""
        async with self._client() as client:
            described = await _describe(client, list(topics))
        missing = set(topics) - {each["topic"] for each in described}
        if missing:
            raise UnknownTopicOrPartitionError(", ".join(sorted(missing)))
        return [
            TopicPartition(topic["topic"], partition["partition"])
            for topic in described
            for partition in topic["partitions"]
        ]

    async def committed(self, group: str) -> Offsets:
        """Every position that the group has."""
        async with self._client() as client:
            return await _committed(client, group)

    async def ensure(self, topics: Collection[str]) -> None:
        """Make those that are not there, where the settings allow it, and wait until they are seen:
        a topic that was just made is unknown to its own broker for a moment."""
        if not self._settings.create_topics:
            return
        missing = await self._unknown(topics)
        for topic in missing:
            await self.create_topic(topic, self._settings.partitions)
        async with asyncio.timeout(self.patience):
            while True:
                if not await self._unknown(missing):
                    return
                await asyncio.sleep(ASK_AGAIN)

    async def _unknown(self, topics: Collection[str]) -> set[str]:
        if not topics:
            return set()
        async with self._client() as client:
            described = await _describe(client, list(topics))
        return set(topics) - {each["topic"] for each in described}

    async def create_topic(self, topic: str, partitions: int) -> None:
        """No error when it is there already."""
        new = NewTopic(topic, partitions, self._settings.replication)
        async with self._client() as client:
            answer = await client.create_topics([new])
        for _, code, message in answer.topic_errors:
            if code and for_code(code) is not TopicAlreadyExistsError:
                raise for_code(code)(message)

    async def metadata(self, topics: Sequence[str] | None, groups: Sequence[str]) -> LogMetadata:
        """The guide's Metadata and Offset answers, and the lag of ``groups`` in those topics."""
        async with self._client() as client:
            described = await _describe(client, topics)
            committed = {group: await _committed_now(client, group) for group in groups}
        places = [
            TopicPartition(topic["topic"], partition["partition"])
            for topic in described
            for partition in topic["partitions"]
            if partition["leader"] != _NO_LEADER
        ]
        async with self.reader(auto_offset_reset="none") as reader:
            reader.assign(places)  # learns all topics at once; otherwise one each 100 ms
            earliest = await reader.beginning_offsets(places) if places else {}
            latest = await reader.end_offsets(places) if places else {}
        return LogMetadata(
            self._settings.name,
            tuple(_topic(topic, earliest, latest) for topic in described),
            tuple(
                lag
                for group, offsets in committed.items()
                for lag in _lags(group, offsets, places, latest)
            ),
        )

    @contextlib.asynccontextmanager
    async def reader(self, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
        """A consumer without a group."""
        consumer = AIOKafkaConsumer(**self._settings.client(), **options)
        try:
            await consumer.start()
            await asyncio.sleep(0)  # its tasks must have begun, or its stop ends in CancelledError
            yield consumer
        finally:
            await shut(consumer, consumer._client, STOP_WITHIN)  # noqa: SLF001

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[AIOKafkaAdminClient]:
        client = AIOKafkaAdminClient(**self._settings.client())
        try:
            await client.start()
            yield client
        finally:
            await client.close()


async def _describe(
    client: AIOKafkaAdminClient, topics: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Topics that are there, in the order of their names; an unknown one is left out."""
    if topics is not None and not topics:
        return []
    described = await client.describe_topics(list(topics) if topics is not None else None)
    return sorted(
        (each for each in described if not each["error_code"] and not each.get("is_internal")),
        key=lambda each: str(each["topic"]),
    )


async def _committed(client: AIOKafkaAdminClient, group: str) -> Offsets:
    offsets = await client.list_consumer_group_offsets(group)
    return {place: each.offset for place, each in offsets.items() if each.offset >= 0}


async def _committed_now(client: AIOKafkaAdminClient, group: str) -> Offsets:
    """A fresh broker has no group coordinator for a moment: then nobody can say."""
    try:
        return await _committed(client, group)
    except KafkaError as error:
        if not error.retriable:
            raise
        return {}


def _topic(described: Mapping[str, Any], earliest: Offsets, latest: Offsets) -> TopicMetadata:
    partitions = sorted(described["partitions"], key=lambda each: int(each["partition"]))
    return TopicMetadata(
        described["topic"],
        tuple(_partition(described["topic"], each, earliest, latest) for each in partitions),
    )


def _partition(
    topic: str, described: Mapping[str, Any], earliest: Offsets, latest: Offsets
) -> PartitionMetadata:
    place = TopicPartition(topic, described["partition"])
    leader = described["leader"]
    return PartitionMetadata(
        number=place.partition,
        leader=None if leader == _NO_LEADER else leader,
        replicas=tuple(described["replicas"]),
        isr=tuple(described["isr"]),
        earliest=str(earliest.get(place, "")),
        latest=str(latest.get(place, "")),
    )


def _lags(
    group: str, committed: Offsets, places: Sequence[TopicPartition], latest: Offsets
) -> list[GroupLag]:
    lags = []
    for place in places:
        offset = committed.get(place)
        lag = None if offset is None else max(0, latest[place] - offset)
        text = None if offset is None else str(offset)
        lags.append(GroupLag(group, place.topic, place.partition, text, lag))
    return lags
