"""What the cluster says about itself over AMQP: queues, their depth, their consumers.

Each question has its own connection: they are rare, and nothing needs watching in between.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence

from app.brokers.rabbitmq.connection import Wire, connect
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream import read
from app.brokers.rabbitmq.stream_ends import Ends, ends_of, offset_at
from app.brokers.rabbitmq.topology import Topology
from app.errors import BrokerRefused, PositionOutOfRange
from app.interfaces import Commit, OffsetStore
from app.model.message import Message, Partition
from app.model.metadata import GroupLag, LogMetadata, PartitionMetadata, TopicMetadata

THE_CLUSTER = 0
"""AMQP numbers no nodes: the one that answers speaks for the cluster."""

Unsettled = Callable[[str, Partition], int]
"""Messages of a group's partition that members in this process have and have not settled."""


class Admin:
    """Raises BrokerRefused, or what ``errors.EXPECTED`` names."""

    def __init__(
        self,
        settings: RabbitSettings,
        topology: Topology,
        unsettled: Unsettled,
        offsets: OffsetStore | None,
    ) -> None:
        self._offsets = offsets  # of streams
        self._settings = settings
        self._topology = topology
        self._unsettled = unsettled

    async def create_topic(self, topic: str, partitions: int) -> None:
        """No error when it is there already."""
        async with self._wire() as wire:
            await self._topology.create(wire, topic, partitions)

    async def read(
        self, partition: Partition, start: str, until: str | None
    ) -> AsyncGenerator[Message, None]:
        """A partition of a stream, as ``stream.read``."""
        wire = await connect(self._settings)
        try:
            queue = await self._place(wire, partition)
            async for message in read(wire, self._settings, queue, partition, start, until):
                yield message
        finally:
            await wire.hang_up()

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        """In a partition of a stream, as ``stream.offset_at``."""
        async with self._wire() as wire:
            queue = await self._place(wire, partition)
            return str(await offset_at(wire, queue, time_ms))

    async def position_back(self, partition: Partition, count: int) -> str:
        """In a partition of a stream."""
        async with self._wire() as wire:
            ends = await ends_of(wire, await self._place(wire, partition))
        return str(max(ends.earliest, ends.latest - count))

    async def _place(self, wire: Wire, partition: Partition) -> str:
        layout = await self._topology.layout(wire, partition.topic)
        if partition.number not in layout.there:
            raise PositionOutOfRange(f"there is no partition {partition}")
        return self._topology.queue(partition.topic, partition.number, "")

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        """What is missing, by topic."""
        async with self._wire() as wire:
            found = {topic: await self._topology.lacks(wire, topic) for topic in topics}
        return {topic: lacking for topic, lacking in found.items() if lacking}

    async def inspect(self, topics: Collection[str]) -> tuple[str, ...]:
        """Of queues that others made and that keep less than we promise."""
        looked_at: list[str] = []
        async with self._wire() as wire:
            for topic in topics:
                queues = await self._topology.queues_there(wire, topic)
                await self._topology.declared.inspect(wire, topic, queues)
                looked_at += queues
        warnings = self._topology.declared.warnings
        return tuple(warnings[queue] for queue in looked_at if queue in warnings)

    async def metadata(self, topics: Sequence[str], groups: Sequence[str]) -> LogMetadata:
        """Topics that are there, and the lag of ``groups`` in them."""
        async with self._wire() as wire:
            found = {topic: await self._ends(wire, topic, "") for topic in topics}
            lags: list[GroupLag] = []
            for group in groups:
                for topic, shared in found.items():
                    own = self._topology.by_group(topic) and shared is not None
                    ends = await self._ends(wire, topic, group) if own else shared
                    lags += await self._lags(group, topic, ends or {})
        known = tuple(
            TopicMetadata(topic, tuple(_partition(n, each) for n, each in ends.items()))
            for topic, ends in found.items()
            if ends is not None
        )
        return LogMetadata(self._settings.name, known, tuple(lags))

    async def _ends(self, wire: Wire, topic: str, group: str) -> dict[int, Ends] | None:
        """Return those of each queue, by its number; None for a topic that is not there. Without a group,
        topics whose queues belong to groups have none to ask about. In a queue that is no stream positions
        count from its head: the latest is its depth."""
        age = self._settings.metadata_age
        try:
            layout = await self._topology.layout(wire, topic, group, age=age)
        except BrokerRefused as error:
            if error.kind != "unknown-topic":
                raise
            return None
        if self._topology.by_group(topic) and not group:
            return dict.fromkeys(layout.there, Ends(0, 0))
        found = {}
        for number in layout.there:
            try:
                found[number] = await self._ends_of(
                    wire, self._topology.queue(topic, number, group)
                )
            except BrokerRefused as error:  # it has gone since
                if error.kind != "unknown-topic":
                    raise
                self._topology.expire(topic, group)
        return found

    async def _ends_of(self, wire: Wire, queue: str) -> Ends:
        ready, _ = await self._topology.depth(wire, queue)
        return await ends_of(wire, queue) if self._settings.kind == "stream" else Ends(0, ready)

    async def _lags(self, group: str, topic: str, ends: Mapping[int, Ends]) -> list[GroupLag]:
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
    async def _wire(self) -> AsyncIterator[Wire]:
        wire = await connect(self._settings)
        try:
            async with asyncio.timeout(self._settings.request_timeout):
                yield wire
        finally:
            await wire.hang_up()


def _lag(
    group: str, place: Partition, commit: Commit | None, ends: Ends, *, begun: bool
) -> GroupLag:
    """A partition that came after the group had ``begun`` its topic is read from its first message."""
    if commit is None:
        lag = ends.latest - ends.earliest if begun else None
        return GroupLag(group, place.topic, place.number, None, lag)
    lag = max(0, ends.latest - commit.offset)
    return GroupLag(group, place.topic, place.number, str(commit.offset), lag)


def _partition(number: int, ends: Ends) -> PartitionMetadata:
    return PartitionMetadata(
        number=number,
        leader=THE_CLUSTER,
        replicas=(THE_CLUSTER,),
        isr=(THE_CLUSTER,),
        earliest=str(ends.earliest),
        latest=str(ends.latest),
    )
