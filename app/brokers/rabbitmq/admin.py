"""Administrative requests to a RabbitMQ cluster over AMQP: queues, their depth and their consumers.

Each request opens a connection of its own, because requests are rare.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence

from app.brokers.rabbitmq.connection import RabbitConnection, connect
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream import read
from app.brokers.rabbitmq.stream_ends import StreamEnds, ends_of, offset_at
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused, PositionOutOfRange
from app.interfaces import Commit, OffsetStore
from app.model.message import Message, Partition
from app.model.metadata import GroupLag, LogMetadata, PartitionMetadata, ReadTopics, TopicMetadata

THE_CLUSTER = 0
"""The node number in metadata. AMQP does not number nodes, so one number represents the whole cluster."""

Unsettled = Callable[[str, Partition], int]
"""A function of a group and a partition. It returns how many messages the members in this process have
received and not settled."""


class RabbitAdmin:
    """Administrative requests to one cluster. Methods raise BrokerRefused, or the errors in
    ``errors.EXPECTED``."""

    def __init__(
        self,
        settings: RabbitSettings,
        topology: Topology,
        unsettled: Unsettled,
        offsets: OffsetStore | None,
    ) -> None:
        self._offsets = offsets  # positions of groups in streams
        self._settings = settings
        self._topology = topology
        self._unsettled = unsettled

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, or do nothing if it exists."""
        async with self._connection() as connection:
            await self._topology.create(connection, topic, partitions)

    async def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]:
        """Yield messages of a stream from ``start`` up to but not including ``until``."""
        connection = await connect(self._settings)
        try:
            queue = await self._place(connection, partition)
            async for message in read(connection, self._settings, queue, partition, start, until):
                yield message
        finally:
            await connection.hang_up()

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        """Return the offset of the first message of a stream stored at ``time_ms`` or later. The result may
        be up to a second too early."""
        async with self._connection() as connection:
            queue = await self._place(connection, partition)
            return str(await offset_at(connection, queue, time_ms))

    async def position_back(self, partition: Partition, count: int) -> str:
        """Return the offset that is ``count`` before the end of a stream. Return the first offset of the
        stream if it is later."""
        async with self._connection() as connection:
            ends = await ends_of(connection, await self._place(connection, partition))
        return str(max(ends.earliest, ends.latest - count))

    async def _place(self, connection: RabbitConnection, partition: Partition) -> str:
        try:
            layout = await self._topology.existing(connection, partition.topic)
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            raise PositionOutOfRange(f"there is no topic {partition.topic}") from error
        if partition.number not in layout.there:
            raise PositionOutOfRange(f"there is no partition {partition}")
        return self._topology.queue(partition.topic, partition.number, "")

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the topics that lack a queue or an exchange, each with a text that names what is missing."""
        async with self._connection() as connection:
            found = {topic: await self._topology.missing_for(connection, topic) for topic in topics}
        return {topic: lacking for topic, lacking in found.items() if lacking}

    async def inspect(self, topics: Collection[str]) -> tuple[str, ...]:
        """Return warnings about queues that other clients declared with weaker guarantees."""
        looked_at: list[str] = []
        async with self._connection() as connection:
            for topic in topics:
                queues = await self._topology.queues_there(connection, topic)
                await self._topology.declared.inspect(connection, topic, queues)
                looked_at += queues
        warnings = self._topology.declared.warnings
        return tuple(warnings[queue] for queue in looked_at if queue in warnings)

    async def metadata(self, topics: Sequence[str], groups: ReadTopics) -> LogMetadata:
        """Return metadata of the existing topics, and the lag of the groups in them."""
        async with self._connection() as connection:
            found = {topic: await self._ends(connection, topic, "") for topic in topics}
            lags: list[GroupLag] = []
            for group, topic in ((each, topic) for each in groups for topic in groups[each]):
                shared = found.get(topic)
                own = self._topology.by_group(topic) and shared is not None
                ends = await self._ends(connection, topic, group) if own else shared
                lags += await self._lags(group, topic, ends or {})
        known = tuple(
            TopicMetadata(topic, tuple(_partition(n, each) for n, each in ends.items()))
            for topic, ends in found.items()
            if ends is not None
        )
        return LogMetadata(self._settings.name, known, tuple(lags))

    async def _ends(
        self, connection: RabbitConnection, topic: str, group: str
    ) -> dict[int, StreamEnds] | None:
        """Return the first and next offset of each queue by its number, or None if no queue exists.

        A queue that is not a stream has no offsets. Its messages are counted from the head, so the next
        offset is the depth. If each group has its own queues and no group is given, all offsets are 0.
        """
        age = self._settings.metadata_age
        try:
            layout = await self._topology.existing(connection, topic, group, age=age)
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            return None
        if self._topology.by_group(topic) and not group:
            return dict.fromkeys(layout.there, StreamEnds(0, 0))
        found = {}
        for number in layout.there:
            try:
                found[number] = await self._ends_of(
                    connection, self._topology.queue(topic, number, group)
                )
            except BrokerRefused as error:  # the queue was deleted meanwhile
                if error.kind != "unknown-topic":
                    raise
                self._topology.expire(topic, group)
        return found

    async def _ends_of(self, connection: RabbitConnection, queue: str) -> StreamEnds:
        ready, _ = await self._topology.depth(connection, queue)
        return (
            await ends_of(connection, queue)
            if self._settings.kind == "stream"
            else StreamEnds(0, ready)
        )

    async def _lags(self, group: str, topic: str, ends: Mapping[int, StreamEnds]) -> list[GroupLag]:
        places = {Partition(topic, number): each for number, each in ends.items()}
        if self._settings.kind == "quorum":
            return [
                GroupLag(
                    group, topic, place.number, None, each.latest + self._unsettled(group, place)
                )
                for place, each in places.items()
            ]
        known = (
            {}
            if self._offsets is None
            else await self._offsets.offsets(self._settings.name, group, list(places))
        )
        return [
            _lag(group, place, known.get(place), each, begun=bool(known))
            for place, each in places.items()
        ]

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[RabbitConnection]:
        connection = await connect(self._settings)
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                yield connection
        finally:
            await connection.hang_up()


def _lag(
    group: str, place: Partition, commit: Commit | None, ends: StreamEnds, *, begun: bool
) -> GroupLag:
    """Return the lag of a group in one partition. If the group has begun to read the topic, a partition
    without a commit counts from its first message."""
    if commit is None:
        lag = ends.latest - ends.earliest if begun else None
        return GroupLag(group, place.topic, place.number, None, lag)
    lag = max(0, ends.latest - commit.offset)
    return GroupLag(group, place.topic, place.number, str(commit.offset), lag)


def _partition(number: int, ends: StreamEnds) -> PartitionMetadata:
    return PartitionMetadata(
        number=number,
        leader=THE_CLUSTER,
        replicas=(THE_CLUSTER,),
        isr=(THE_CLUSTER,),
        earliest=str(ends.earliest),
        latest=str(ends.latest),
    )
