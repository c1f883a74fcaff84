"""Find the position at which a group begins in each stream.

The position is the group's commit, or the start position of the subscription. In a stream that replaced a
deleted stream, it is the first message.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from app.bindings.record import Record
from app.brokers.positions import checked_offset
from app.brokers.rabbitmq.connection import RabbitConnection
from app.brokers.rabbitmq.read_frames import Delivered
from app.brokers.rabbitmq.stream_ends import StreamEnds, ends_of, offset_at, offset_in, peek
from app.brokers.rabbitmq.stream_replicas import StreamReplicas
from app.interfaces import Commit, OffsetStore
from app.model.message import Partition
from app.model.position import is_offset
from app.model.start import EARLIEST, StartAt

log = logging.getLogger(__name__)


class StreamPositions:
    """The positions of one group in the streams of one broker.

    If a stream is deleted and created again, its offsets begin at 0 again. A position in the old stream must
    not skip messages of the new stream. Methods raise StoreUnavailable, PositionOutOfRange, the errors in
    ``errors.EXPECTED``, and BrokerUnavailable if the connected node lacks messages that another node has.
    """

    def __init__(
        self, broker: str, group: str, offsets: OffsetStore, replicas: StreamReplicas
    ) -> None:
        self._broker = broker
        self._group = group
        self._offsets = offsets
        self._replicas = replicas
        self._vanished: dict[Partition, Commit | None] = {}
        self._newest: dict[Partition, tuple[Delivered, Collection[Commit]]] = {}

    async def on_stream_missing(self, partition: Partition) -> None:
        """Note that a stream does not exist. The position that the group has now is one in the stream that was deleted."""
        known = await self._offsets.offsets(self._broker, self._group, [partition])
        self._vanished[partition] = known.get(partition)

    def on_stream_lost(
        self, partition: Partition, newest: Delivered, stored: Collection[Commit]
    ) -> None:
        """Remember the last message of a stream whose channel was lost, because a later stream of this name may be
        new.

        The store has one of the positions ``stored``. They are several while a commit is under way."""
        self._newest[partition] = newest, stored

    async def start(
        self, connection: RabbitConnection, queues: Mapping[Partition, str], start: StartAt
    ) -> None:
        """Commit the start position of each stream without a position.

        ``start`` applies to topics in which the group has no position. In other topics a new partition
        begins at its first message.
        """
        known = await self._offsets.offsets(self._broker, self._group, list(queues))
        begun = {place.topic for place in known}
        fresh = {
            place: Commit(
                await self._resolve(
                    connection, place, queue, EARLIEST if place.topic in begun else start
                )
            )
            for place, queue in queues.items()
            if place not in known
        }
        if fresh:
            await self._offsets.start_offsets(self._broker, self._group, fresh)

    async def own(
        self, connection: RabbitConnection, partition: Partition, queue: str, epoch: int
    ) -> Commit:
        """Become the owner under ``epoch``, and return the position at which to begin.

        Raise PositionOutOfRange if retention has removed the position. The subscription then stops and asks
        an operator.
        """
        known = await self._offsets.own_offsets(self._broker, self._group, epoch, [partition])
        commit = known[partition]
        self._forget_what_others_changed(partition, commit)
        ends = await self._ends(connection, partition, queue, commit)
        if await self._is_another(connection, partition, queue, commit, ends):
            log.warning(
                "group %s: %s was replaced by another stream, which is read from its start",
                self._group,
                partition,
            )
            commit = Commit(ends.earliest)
            await self._offsets.save_offsets(self._broker, self._group, epoch, {partition: commit})
        elif ends.latest:
            checked_offset(partition, str(commit.offset), *ends)
        self._vanished.pop(partition, None)
        self._newest.pop(partition, None)
        return commit

    def _forget_what_others_changed(self, partition: Partition, commit: Commit) -> None:
        """Forget what was noted of a stream, if another member has changed the group's position since then.

        The other member has owned the stream, and its position is one in the stream that exists.
        """
        if self._vanished.get(partition) != commit:
            self._vanished.pop(partition, None)
        if partition in self._newest and commit not in self._newest[partition][1]:
            del self._newest[partition]

    async def _ends(
        self, connection: RabbitConnection, partition: Partition, queue: str, commit: Commit
    ) -> StreamEnds:
        """Return the ends of a stream. Raise BrokerUnavailable if the connected node lacks messages before the commit that
        another node has."""
        if partition in self._vanished:
            return await ends_of(connection, queue)
        read = offset_in(self._newest[partition][0]) + 1 if partition in self._newest else 0
        return await self._replicas.ends(connection, queue, max(commit.offset, read))

    async def _resolve(
        self, connection: RabbitConnection, partition: Partition, queue: str, start: StartAt
    ) -> int:
        if start.kind == "time":
            return await offset_at(connection, queue, start.time_ms)
        text = start.positions.get(partition.number) if start.kind == "position" else None
        least = int(text) if text is not None and is_offset(text) else 0
        ends = await self._replicas.ends(connection, queue, least)
        if start.kind == "latest":
            return ends.latest
        return ends.earliest if text is None else checked_offset(partition, text, *ends)

    async def _is_another(
        self,
        connection: RabbitConnection,
        partition: Partition,
        queue: str,
        commit: Commit,
        ends: StreamEnds,
    ) -> bool:
        """Return True if the commit is a position in a stream that was deleted."""
        if not commit.offset:
            return False
        if partition in self._vanished or not ends.latest:
            return True  # retention never removes the last messages of a stream
        if partition not in self._newest:
            return False
        return not await _holds(connection, queue, self._newest[partition][0], ends)


async def _holds(
    connection: RabbitConnection, queue: str, newest: Delivered, ends: StreamEnds
) -> bool:
    """Return False if the stream cannot contain this message, because it has another message or no message at
    its offset.

    If retention may have removed the message, return True.
    """
    offset = offset_in(newest)
    if ends.latest <= offset:
        return False
    found = await peek(connection, queue, offset, 1)
    if not found or offset_in(found[0]) != offset:
        return True
    there, ours = found[0].record, newest.record
    return there.body == ours.body and _identity(there) == _identity(ours)


def _identity(record: Record) -> tuple[object, ...]:
    return record.message_id, record.time_ms, record.content_type
