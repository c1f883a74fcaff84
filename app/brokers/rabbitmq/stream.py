"""Consume and read streams, which are queues that keep messages after they were read.

Offsets of a stream are positions. The broker stores no position or owner of a group: each consumer of a
stream gets all messages. So a member owns a partition through a guard, an empty queue of which it is the
only consumer. It stores the group's positions in an ``OffsetStore``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence

from app.brokers.driver import JoinRequest
from app.brokers.positions import checked_offset, offset_of
from app.brokers.rabbitmq.aiormq_adapter import AbstractChannel, DeliveryChannel
from app.brokers.rabbitmq.connection import RabbitConnection, close_channel
from app.brokers.rabbitmq.consumer import RabbitConsumer
from app.brokers.rabbitmq.frames import ack
from app.brokers.rabbitmq.owned_partition import OwnedQueue, message_of
from app.brokers.rabbitmq.queue_ownership import QueueOwnership
from app.brokers.rabbitmq.read_frames import Delivered
from app.brokers.rabbitmq.settings import RabbitSettings
from app.brokers.rabbitmq.stream_ends import consume_from, offset_in
from app.brokers.rabbitmq.stream_positions import StreamPositions
from app.brokers.rabbitmq.stream_replicas import StreamReplicas
from app.brokers.rabbitmq.topology import Topology
from app.delivery.offsets import FinishedRuns
from app.errors import BrokerRefused, BrokerUnavailable, StaleOwner, StoreUnavailable
from app.interfaces import Commit, OffsetStore
from app.model.message import Message, Partition
from app.model.position import is_offset

log = logging.getLogger(__name__)
# commits without an answer that are remembered: any of them may have been stored
_FIRST, _LAST = 2, 6


class OwnedStream(OwnedQueue):
    """A partition of a stream that this member owns.

    A message is acknowledged when it is handed out, because the broker sends more only after that. The
    group's position is committed separately.
    """

    newest: Delivered | None = None
    """The last message that was handed out, or None."""

    stored: tuple[Commit, ...] = ()
    """The commits of this member of which the store has one. While the store is away, these are the first and the
    last ones that were sent to it."""

    def begin(self, commit: Commit) -> None:
        self._runs = FinishedRuns.restore(commit.offset, commit.metadata)
        self.note_stored(commit)

    def note_saving(self, commit: Commit) -> None:
        """Note that the store has this commit soon, or has it already if the answer is lost."""
        first, last = self.stored[:_FIRST], self.stored[_FIRST:]
        self.stored = (*first, *last[-_LAST:], commit)

    def note_stored(self, commit: Commit) -> None:
        """Note that the store has this commit."""
        self.committed = commit
        self.stored = (commit,)

    @property
    def open(self) -> bool:
        """Return True if a message that was handed out is not finished."""
        return self._runs.open

    @property
    def commit(self) -> Commit:
        return Commit(self._runs.commit, self._runs.metadata())

    def take(self, most: int) -> list[Message]:
        messages: list[Message] = []
        tag = 0
        while self._buffer and len(messages) < most:
            delivered = self._buffer.popleft()
            tag = delivered.tag
            offset = offset_in(delivered)
            if self._runs.take(offset):
                position = str(offset)
                messages.append(message_of(delivered, self.partition, offset, position, self.epoch))
            self.newest = delivered
        if tag and self.channel is not None:
            self._connection.write(ack(self.channel.number, tag, multiple=True))
        return messages

    def settle(self, offsets: Collection[int]) -> None:  # type: ignore[override]
        for offset in offsets:
            self._runs.finish(offset)


class StreamOwnership(QueueOwnership):
    """A client that makes one member the owner of streams. A stream has one owner in each group."""

    def __init__(self, settings: RabbitSettings, topology: Topology, group: str) -> None:
        super().__init__(settings, topology)
        self._group = group

    async def still_owned(self, connection: RabbitConnection, queue: str) -> bool:
        """Return True if the stream exists. The consumers of a stream need no check, because the broker
        always reports the end of a consumer."""
        try:
            await self._topology.depth(connection, queue)
        except BrokerRefused:
            return False
        return True

    async def _occupied(self, connection: RabbitConnection, queue: str) -> bool:
        """Return False if the stream exists, because a stream can have many consumers. Raise BrokerRefused
        otherwise."""
        await super()._occupied(connection, queue)
        return False

    def _guarded(self, queue: str) -> str:
        return f"{self._group}.{queue}"

    async def _attach(
        self,
        connection: RabbitConnection,  # noqa: ARG002 - the base class uses all three
        channel: AbstractChannel,  # noqa: ARG002
        queue: str,  # noqa: ARG002
    ) -> bool:
        """Return True without consuming. The stream is consumed later, when the start position is known."""
        return True


class StreamConsumer(RabbitConsumer):
    """A ``Consumer`` of streams in a group."""

    def __init__(
        self,
        settings: RabbitSettings,
        topology: Topology,
        joining: JoinRequest,
        offsets: OffsetStore,
    ) -> None:
        super().__init__(settings, topology, joining)
        self._ownership = StreamOwnership(settings, topology, joining.group)
        self._start = joining.start
        self._offsets = offsets
        self._committing = asyncio.Lock()  # keeps an older commit from overwriting a newer one
        self._resting: asyncio.Task[None] | None = None
        self._cannot_store = False  # the last attempt to store positions failed
        replicas = StreamReplicas(settings)
        self._places = StreamPositions(settings.name, joining.group, offsets, replicas)

    async def settle(self, messages: Collection[Message]) -> None:
        """Mark messages as finished. They are committed soon if no message is unfinished, otherwise every
        ``balance_interval`` seconds."""
        await super().settle(messages)
        at_rest = not any(each.open for each in self._streams())
        if at_rest and (self._resting is None or self._resting.done()):
            self._resting = asyncio.create_task(self._commit_at_rest())

    async def close(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
        await super().close()

    async def commit(self) -> None:
        """Store the group's positions. If the store is unavailable, uncommitted messages are read again
        later."""
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
            if (commit := each.commit) != each.committed:
                due.setdefault(each.epoch, {})[each.partition] = commit
                each.note_saving(commit)
        for epoch, commits in due.items():
            try:
                stale = await self._save(epoch, commits)
            except StoreUnavailable as error:
                self._note_store(error)
                return
            self._note_store(None)
            for each in streams:
                if each.partition in stale:
                    self._give_up(each)
                elif each.partition in commits:
                    each.note_stored(commits[each.partition])

    def _note_store(self, error: StoreUnavailable | None) -> None:
        """Log that positions cannot be stored, and that they can be stored again. An outage is logged once, because
        commits are tried several times a second."""
        if error and not self._cannot_store:
            log.warning("group %s: positions cannot be stored now: %s", self.group, error)
        elif self._cannot_store and not error:
            log.info("group %s: positions are stored again", self.group)
        self._cannot_store = error is not None

    async def _save(self, epoch: int, commits: Mapping[Partition, Commit]) -> Collection[Partition]:
        """Store positions, and return the partitions that have another owner in the store.

        A guard that was lost with its node may have two consumers who do not know of each other. The store knows the one
        that came last, and the other one gives its partitions up.
        """
        try:
            await self._offsets.save_offsets(self._settings.name, self.group, epoch, commits)
        except StaleOwner as error:
            if len(commits) > 1:
                return [each for each in commits if await self._save(epoch, {each: commits[each]})]
            log.warning("%s; this member gives it up", error)
            return list(commits)
        return []

    async def _balance(self) -> None:
        await super()._balance()
        await self.commit()

    def _new_partition(self, partition: Partition, connection: RabbitConnection) -> OwnedQueue:
        return OwnedStream(partition, connection, self._news.set)

    async def _prepare(
        self, connection: RabbitConnection, owned_partitions: Sequence[OwnedQueue]
    ) -> None:
        """Begin to read each partition at the group's commit. For a partition without a commit, the start
        position is committed first."""
        try:
            await self._places.start(connection, self._queues.names, self._start)
            for owned in owned_partitions:
                if isinstance(owned, OwnedStream):
                    await self._prepare_one(connection, owned)
        except StoreUnavailable as error:
            raise BrokerUnavailable(f"the start position is unknown: {error}") from error

    async def _prepare_one(self, connection: RabbitConnection, owned: OwnedStream) -> None:
        if owned.channel is None:
            return
        queue = self._queues.names[owned.partition]
        commit = await self._places.own(connection, owned.partition, queue, self._epoch)
        owned.begin(commit)
        await consume_from(owned.channel, queue, commit.offset, self._settings.prefetch)

    async def _on_queue_missing(self, partition: Partition) -> None:
        await super()._on_queue_missing(partition)
        try:
            async with self._committing:  # a commit under way is one in the stream that was deleted
                await self._places.on_stream_missing(partition)
        except StoreUnavailable as error:
            raise BrokerUnavailable(f"the position is unknown: {error}") from error

    def _lose(self, owned_partitions: Sequence[OwnedQueue]) -> None:
        for owned in owned_partitions:
            if isinstance(owned, OwnedStream) and owned.newest is not None:
                self._places.on_stream_lost(owned.partition, owned.newest, owned.stored)
        super()._lose(owned_partitions)


async def read(
    connection: RabbitConnection,
    settings: RabbitSettings,
    queue: str,
    partition: Partition,
    start: str,
    until: str | None,
) -> AsyncIterator[Message]:
    """Yield messages of a stream from ``start`` up to but not including ``until``.

    Without ``until``, reading ends at the current end of the stream.
    """
    asked = [int(each) for each in (start, until) if each is not None and is_offset(each)]
    ends = await StreamReplicas(settings).ends(connection, queue, max(asked, default=0))
    first = checked_offset(partition, start, *ends)
    end = ends.latest if until is None else min(offset_of(until), ends.latest)
    if first >= end:
        return
    arrived = asyncio.Event()
    owned = OwnedStream(partition, connection, arrived.set)
    owned.begin(Commit(first))
    channel = await connection.open_channel(DeliveryChannel(owned.delivered))
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
    """Yield arriving messages for as long as the caller reads. Raise TimeoutError if the broker stops
    sending."""
    while owned.channel is not None and not owned.channel.is_closed:
        async with asyncio.timeout(settings.request_timeout):
            await arrived.wait()
        arrived.clear()
        for message in owned.take(settings.max_poll_records):
            yield message
    raise ConnectionError("the channel was closed while a stream was read")
