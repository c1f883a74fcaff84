"""Streams: queues that keep what was read. Their offsets are positions, their commits are kept by us.

A group's place is no affair of the broker's here, nor is its owner: every consumer of a stream gets
everything. So a member owns a partition through a guard, an empty queue of which it is the only
consumer, and notes in an ``OffsetStore`` how far the group is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence

from app.brokers.driver import Joining
from app.brokers.positions import checked, offset_of
from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel, DeliveredMessage, Deliveries
from app.brokers.rabbitmq.connection import Wire, close_channel
from app.brokers.rabbitmq.consumer import RabbitConsumer
from app.brokers.rabbitmq.frames import ack
from app.brokers.rabbitmq.owned_partition import OwnedPartition, message_of
from app.brokers.rabbitmq.queue_ownership import QueueOwnership
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream_ends import consume_from, ends_of, offset_in
from app.brokers.rabbitmq.stream_places import StreamPlaces
from app.brokers.rabbitmq.topology import Topology
from app.delivery.offsets import FinishedRuns
from app.errors import BrokerRefused, BrokerUnavailable, StaleOwner, StoreUnavailable
from app.interfaces import Commit, OffsetStore
from app.model.message import Message, Partition

log = logging.getLogger(__name__)


class OwnedStream(OwnedPartition):
    """A partition of a stream. What is handed out is acknowledged at once: that asks for more; how far
    the group is stands in the commit."""

    newest: DeliveredMessage | None = None
    """The last message that was handed out."""

    def begin(self, commit: Commit) -> None:
        self._runs = FinishedRuns.restore(commit.offset, commit.metadata)
        self.committed = commit

    @property
    def open(self) -> bool:
        """Whether a message that was handed out is not finished."""
        return self._runs.open

    @property
    def commit(self) -> Commit:
        return Commit(self._runs.commit, self._runs.metadata())

    def take(self, most: int) -> list[Message]:
        messages: list[Message] = []
        tag = 0
        while self._buffer and len(messages) < most:
            delivered = self._buffer.popleft()
            tag = delivered.delivery_tag or 0
            offset = offset_in(delivered)
            if self._runs.take(offset):
                position = str(offset)
                messages.append(message_of(delivered, self.partition, offset, position, self.epoch))
            self.newest = delivered
        if tag and self.channel is not None:
            self._wire.write(ack(self.channel.number, tag, multiple=True))
        return messages

    def settle(self, offsets: Collection[int]) -> None:  # type: ignore[override]
        for offset in offsets:
            self._runs.finish(offset)


class StreamOwnership(QueueOwnership):
    """A stream has an owner in each group."""

    def __init__(self, settings: RabbitSettings, topology: Topology, group: str) -> None:
        super().__init__(settings, topology)
        self._group = group

    async def lasts(self, wire: Wire, queue: str) -> bool:
        """A stream counts no consumers, and always says that it ends."""
        try:
            await self._topology.depth(wire, queue)
        except BrokerRefused:
            return False
        return True

    async def _occupied(self, wire: Wire, queue: str) -> bool:
        """Everybody may consume a stream, if it is there."""
        await super()._occupied(wire, queue)
        return False

    def _guarded(self, queue: str) -> str:
        return f"{self._group}.{queue}"

    async def _attach(self, wire: Wire, channel: AbstractChannel, queue: str) -> bool:  # noqa: ARG002 - a queue asks
        """Later, when it is known where to begin."""
        return True


class StreamConsumer(RabbitConsumer):
    """A ``Consumer`` of streams."""

    def __init__(
        self, settings: RabbitSettings, topology: Topology, joining: Joining, offsets: OffsetStore
    ) -> None:
        super().__init__(settings, topology, joining)
        self._ownership = StreamOwnership(settings, topology, joining.group)
        self._start = joining.start
        self._offsets = offsets
        self._committing = asyncio.Lock()  # an older commit never lands on a newer one
        self._resting: asyncio.Task[None] | None = None
        self._places = StreamPlaces(settings.name, joining.group, offsets)

    async def settle(self, messages: Collection[Message]) -> None:
        """What is settled last is committed soon; the rest in turns of ``balance_interval``."""
        await super().settle(messages)
        at_rest = not any(each.open for each in self._streams())
        if at_rest and (self._resting is None or self._resting.done()):
            self._resting = asyncio.create_task(self._commit_at_rest())

    async def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        await super().close()

    async def commit(self) -> None:
        """A store that is away keeps nothing: what is not committed is read again."""
        async with self._committing:
            await self._commit()

    def _streams(self) -> list[OwnedStream]:
        return [each for each in self._owned.values() if isinstance(each, OwnedStream)]

    async def _commit_at_rest(self) -> None:
        await asyncio.sleep(self._settings.rest_interval)
        await self.commit()

    async def _commit(self) -> None:
        due: dict[int, dict[Partition, Commit]] = {}
        streams = self._streams()
        for each in streams:
            if each.commit != each.committed:
                due.setdefault(each.epoch, {})[each.partition] = each.commit
        for epoch, commits in due.items():
            try:
                await self._offsets.save_offsets(self._settings.name, self.group, epoch, commits)
            except StoreUnavailable as error:
                log.warning("group %s: its positions cannot be stored now: %s", self.group, error)
                return
            except StaleOwner as error:  # the others are saved, and these are not ours any more
                log.warning("%s", error)
            for each in streams:
                each.committed = commits.get(each.partition, each.committed)

    async def _share(self) -> None:
        await super()._share()
        await self.commit()

    def _make(self, partition: Partition, wire: Wire) -> OwnedPartition:
        return OwnedStream(partition, wire, self._news.set)

    async def _begin(self, wire: Wire, owned_partitions: Sequence[OwnedPartition]) -> None:
        """At its commit; a partition without one begins at the start, which is committed first."""
        try:
            await self._places.start(wire, self._queues.names, self._start)
            for owned in owned_partitions:
                if isinstance(owned, OwnedStream):
                    await self._begin_one(wire, owned)
        except StoreUnavailable as error:
            raise BrokerUnavailable(f"the start position is unknown: {error}") from error

    async def _begin_one(self, wire: Wire, owned: OwnedStream) -> None:
        if owned.channel is None:
            return
        queue = self._queues.names[owned.partition]
        commit = await self._places.own(wire, owned.partition, queue, self._epoch)
        owned.begin(commit)
        await consume_from(owned.channel, queue, commit.offset, self._settings.prefetch)

    def _vanished(self, partition: Partition) -> None:
        super()._vanished(partition)
        self._places.vanished(partition)

    def _lose(self, owned_partitions: Sequence[OwnedPartition]) -> None:
        for owned in owned_partitions:
            if isinstance(owned, OwnedStream) and owned.newest is not None:
                self._places.left(owned.partition, owned.newest)
        super()._lose(owned_partitions)


async def read(
    wire: Wire,
    settings: RabbitSettings,
    queue: str,
    partition: Partition,
    start: str,
    until: str | None,
) -> AsyncIterator[Message]:
    """From ``start`` up to but not including ``until``, or the end as it is now."""
    ends = await ends_of(wire, queue)
    first = checked(partition, start, *ends)
    end = ends.latest if until is None else min(offset_of(until), ends.latest)
    if first >= end:
        return
    arrived = asyncio.Event()
    owned = OwnedStream(partition, wire, arrived.set)
    owned.begin(Commit(first))
    channel = await wire.open_channel(Deliveries(owned.delivered))
    owned.channel = channel
    channel.closing.add_done_callback(lambda _: arrived.set())
    try:
        await consume_from(channel, queue, first, settings.prefetch)
        async for message in _arriving(owned, arrived, settings):
            if message.offset < end:
                yield message
            if message.offset >= end - 1:
                return
    finally:
        await close_channel(channel)


async def _arriving(
    owned: OwnedStream, arrived: asyncio.Event, settings: RabbitSettings
) -> AsyncIterator[Message]:
    """Until nobody asks any more. Raises TimeoutError when the broker has stopped to send."""
    while owned.channel is not None and not owned.channel.is_closed:
        async with asyncio.timeout(settings.request_timeout):
            await arrived.wait()
        arrived.clear()
        for message in owned.take(settings.max_poll_records):
            yield message
    raise ConnectionError("the channel was closed while a stream was read")
