"""Administrative requests to a Kafka cluster: topics, offsets, groups."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from app.brokers.aiokafka_adapter import client_of
from app.brokers.kafka.connection import STOP_WITHIN, shut
from app.brokers.kafka.leadership import confirmed_ends
from app.brokers.kafka.questions import (
    ASK_AGAIN,
    EARLIEST,
    LATEST,
    Leaders,
    Offsets,
    controller_ready,
    describe,
    offsets,
    retry_other_nodes,
)
from app.brokers.kafka.settings import ISOLATION, KafkaSettings
from app.brokers.kafka.shared_admin import SharedAdminClient
from app.errors import PositionOutOfRange
from app.interfaces import Commit
from app.model.message import Partition
from app.model.metadata import GroupLag, LogMetadata, PartitionMetadata, ReadTopics, TopicMetadata

_NO_LEADER = -1
_NOTHING: Mapping[str, Offsets] = MappingProxyType({})
_WITHOUT_MEMBERS = ("Empty", "Dead")  # states of a group


class KafkaAdmin:
    """Administrative requests to one cluster.

    Methods raise KafkaError, OSError or TimeoutError. ``errors.translate`` returns what they mean.
    """

    def __init__(
        self, settings: KafkaSettings, shared_client: SharedAdminClient | None = None
    ) -> None:
        """Prepare requests to one cluster, without connecting to it.

        Args:
            settings: The settings with which to reach the cluster.
            shared_client: A client for all requests. Without it, each request opens a client of its own.
        """
        self._settings = settings
        self._shared_client = shared_client

    @property
    def patience(self) -> float:
        """Return the number of seconds for which a request is repeated while the cluster is not ready."""
        return self._settings.request_timeout

    async def places(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return every partition of ``topics``. Raise UnknownTopicOrPartitionError if one does not exist."""
        async with self._client() as client:
            described = await describe(client, list(topics))
        missing = set(topics) - {each["topic"] for each in described}
        if missing:
            raise UnknownTopicOrPartitionError(", ".join(sorted(missing)))
        return _places(described)

    async def committed(self, group: str) -> Offsets:
        """Return all committed offsets of the group."""
        async with self._client() as client:
            return await _committed(client, group)

    async def commits(self, group: str) -> Mapping[TopicPartition, Commit]:
        """Return all commits of the group with their metadata."""
        async with self._client() as client:
            found = await retry_other_nodes(lambda: client.list_consumer_group_offsets(group))
        return {
            place: Commit(each.offset, each.metadata or "")
            for place, each in found.items()
            if each.offset >= 0
        }

    async def groups(self) -> set[str]:
        """Return the names of all groups that Skybridge may see."""
        async with self._client() as client:
            found = await retry_other_nodes(client.list_consumer_groups)
        return {name for name, *_ in found}

    async def is_empty(self, group: str) -> bool:
        """Return True if the group has no member."""
        async with self._client() as client:
            answers = await retry_other_nodes(lambda: client.describe_consumer_groups([group]))
        return all(
            each["state"] in _WITHOUT_MEMBERS
            for answer in answers
            for each in answer.to_object()["groups"]
        )

    async def ensure(self, topics: Collection[str]) -> None:
        """Create the topics that do not exist, if the settings allow it."""
        if self._settings.create_topics:
            for topic in await self._unknown(topics):
                await self.create_topic(topic, self._settings.partitions)

    async def _unknown(self, topics: Collection[str]) -> set[str]:
        if not topics:
            return set()
        async with self._client() as client:
            described = await describe(client, list(topics))
        return set(topics) - {each["topic"] for each in described}

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, or do nothing if it exists. Return when the cluster reports the topic.

        The wait is needed because a broker does not know a new topic for a moment.
        """
        new = NewTopic(topic, partitions, self._settings.replication)
        async with self._client() as client:
            await controller_ready(client, self.patience)
            answer = await client.create_topics([new])
        for _, code, message in answer.topic_errors:
            if code and for_code(code) is not TopicAlreadyExistsError:
                raise for_code(code)(message)
        async with asyncio.timeout(self.patience):
            while True:
                if not await self._unknown([topic]):
                    return
                await asyncio.sleep(ASK_AGAIN)

    async def metadata(
        self,
        topics: Sequence[str] | None,
        groups: ReadTopics,
        shared: Mapping[str, Offsets] = _NOTHING,
    ) -> LogMetadata:
        """Return partitions and offsets of the topics, and the lag of the groups in them.

        Args:
            topics: The topics. None means all.
            groups: The groups, each with the topics that it reads.
            shared: The positions of those groups that share a membership, which the cluster does not know.
        """
        async with self._client() as client:
            described = await describe(client, topics)
            committed = {
                group: shared[group] if group in shared else await _committed_now(client, group)
                for group in groups
            }
            leaders = _leaders(described)
            earliest = await offsets(client, leaders, EARLIEST)
            latest = await offsets(client, leaders, LATEST)
        return LogMetadata(
            self._settings.name,
            tuple(_topic(topic, earliest, latest) for topic in described),
            tuple(
                lag
                for group, positions in committed.items()
                for lag in _lags(group, positions, _read_by(groups[group], described), latest)
            ),
        )

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the topics that cannot take events now, each with the reason. Topics without a problem are
        left out."""
        async with self._client() as client:
            try:
                described = await describe(client, list(topics))
            except TopicAuthorizationFailedError as error:
                refused = str(error.args[0])
                left = [topic for topic in topics if topic != refused]
                found = await self.check_targets(left) if left else {}
                return {**found, refused: "Skybridge is not authorised to see this topic"}
        there = {str(each["topic"]): each for each in described}
        found = {topic: self._unfit(there.get(topic)) for topic in topics}
        return {topic: why for topic, why in found.items() if why}

    def _unfit(self, described: Mapping[str, Any] | None) -> str:
        if described is None:
            return (
                ""
                if self._settings.create_topics
                else "there is no such topic, and none is created"
            )
        alone = [
            str(each["partition"])
            for each in described["partitions"]
            if each["leader"] == _NO_LEADER
        ]
        return f"without a leader: partition {', '.join(alone)}" if alone else ""

    async def ends(self, partition: Partition) -> tuple[int, int]:
        """Return the first offset of the partition, and the offset after its last record.

        Raise PositionOutOfRange if there is no such partition.
        """
        async with self._client() as client:
            leaders = await self._leader(client, partition)
            earliest = _only(await offsets(client, leaders, EARLIEST), partition)
            latest = _only(await offsets(client, leaders, LATEST), partition)
        return earliest, latest

    async def confirmed_ends(self, partition: Partition) -> tuple[int, int]:
        """Return the same as ``ends``, from a leader that all replicas in sync confirm.

        Raise LeaderNotAvailableError while they do not, for example if one of them is cut off.
        """
        async with self._client() as client:
            leaders = await self._leader(client, partition)
            place = TopicPartition(partition.topic, partition.number)
            async with asyncio.timeout(self.patience):
                ends = place in leaders and await confirmed_ends(
                    client_of(client), place, leaders[place]
                )
        if not ends:
            raise LeaderNotAvailableError(f"{partition} has no leader that its replicas confirm")
        return ends

    async def offset_at(self, partition: Partition, time_ms: int) -> int:
        """Return the offset of the first record stored at ``time_ms`` or later.

        Return the offset after the last record if there is no such record.
        """
        async with self._client() as client:
            leaders = await self._leader(client, partition)
            found = await offsets(client, leaders, time_ms) or await offsets(
                client, leaders, LATEST
            )
        return _only(found, partition)

    async def offset_back(self, partition: Partition, count: int) -> int:
        """Return the offset that is ``count`` before the end of the partition. Return the first offset of the
        partition if it is later."""
        earliest, latest = await self.ends(partition)
        return max(earliest, latest - count)

    async def _leader(self, client: AIOKafkaAdminClient, partition: Partition) -> Leaders:
        described = await describe(client, [partition.topic])
        place = TopicPartition(partition.topic, partition.number)
        if place not in _places(described):
            raise PositionOutOfRange(f"there is no partition {partition}")
        leaders = _leaders(described)
        return {place: leaders[place]} if place in leaders else {}

    @contextlib.asynccontextmanager
    async def reader(self, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
        """Yield a started consumer without a group, and stop it afterwards. ``options`` are those of
        AIOKafkaConsumer."""
        consumer = AIOKafkaConsumer(isolation_level=ISOLATION, **self._settings.client(), **options)
        try:
            await consumer.start()
            await asyncio.sleep(
                0
            )  # lets the consumer's tasks begin; else its stop ends in CancelledError
            yield consumer
        finally:
            await shut(consumer, client_of(consumer), STOP_WITHIN)

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[AIOKafkaAdminClient]:
        shared_client = self._shared_client or SharedAdminClient(self._settings)
        try:
            async with shared_client.client() as client:
                yield client
        finally:
            if shared_client is not self._shared_client:
                await shared_client.close()


def _places(described: Sequence[Mapping[str, Any]]) -> list[TopicPartition]:
    return [
        TopicPartition(topic["topic"], partition["partition"])
        for topic in described
        for partition in topic["partitions"]
    ]


def _leaders(described: Sequence[Mapping[str, Any]]) -> Leaders:
    """Return the leader of each partition. A partition without a leader, during an election, is left out."""
    return {
        TopicPartition(topic["topic"], partition["partition"]): partition["leader"]
        for topic in described
        for partition in topic["partitions"]
        if partition["leader"] != _NO_LEADER
    }


def _only(found: Offsets, partition: Partition) -> int:
    if not found:
        raise LeaderNotAvailableError(str(partition))
    (offset,) = found.values()
    return offset


async def _committed(client: AIOKafkaAdminClient, group: str) -> Offsets:
    offsets = await retry_other_nodes(lambda: client.list_consumer_group_offsets(group))
    return {place: each.offset for place, each in offsets.items() if each.offset >= 0}


async def _committed_now(client: AIOKafkaAdminClient, group: str) -> Offsets:
    """Return the committed offsets of the group. Return nothing if the group's coordinator is not ready.

    A cluster that has just started has no group coordinator for a moment.
    """
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


def _read_by(
    topics: Collection[str], described: Sequence[Mapping[str, Any]]
) -> list[TopicPartition]:
    """Return the partitions of the topics, also those without a leader, whose lag is unknown."""
    return [place for place in _places(described) if place.topic in topics]


def _lags(
    group: str, committed: Offsets, places: Collection[TopicPartition], latest: Offsets
) -> list[GroupLag]:
    lags = []
    for place in places:
        offset = committed.get(place)
        end = latest.get(place)
        lag = None if offset is None or end is None else max(0, end - offset)
        text = None if offset is None else str(offset)
        lags.append(GroupLag(group, place.topic, place.partition, text, lag))
    return lags
