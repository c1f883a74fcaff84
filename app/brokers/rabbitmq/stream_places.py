"""Find where a group begins in each stream: at its commit, at the start of the subscription, or, in a stream
that took the place of another, at its first message."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from app.brokers.positions import checked
from app.brokers.rabbitmq.aiormq_adapter import DeliveredMessage
from app.brokers.rabbitmq.connection import Wire
from app.brokers.rabbitmq.stream_ends import ends_of, offset_at, offset_in, peek
from app.interfaces import Commit, OffsetStore
from app.model.message import Partition
from app.model.start import EARLIEST, StartAt

log = logging.getLogger(__name__)


class StreamPlaces:
    """Positions of one group on one broker. A stream that is deleted and made again has its offsets again: a place
    in the old one must hide nothing of the new one. Raises StoreUnavailable, PositionOutOfRange, and what
    ``errors.EXPECTED`` names."""

    def __init__(self, broker: str, group: str, offsets: OffsetStore) -> None:
        self._broker = broker
        self._group = group
        self._offsets = offsets
        self._vanished: set[Partition] = set()
        self._newest: dict[Partition, DeliveredMessage] = {}

    def vanished(self, partition: Partition) -> None:
        """Note that a stream is not there: what will have its name is another."""
        self._vanished.add(partition)

    def left(self, partition: Partition, newest: DeliveredMessage) -> None:
        """Note the last message of a stream that ended under our hands. The stream of that name may be another."""
        self._newest[partition] = newest

    async def start(self, wire: Wire, queues: Mapping[Partition, str], start: StartAt) -> None:
        """Commit where to begin in each stream without a place. ``start`` is for topics in which the group has no
        place at all; a partition that came later begins at its earliest (rule 10)."""
        known = await self._offsets.offsets(self._broker, self._group, list(queues))
        begun = {place.topic for place in known}
        fresh = {
            place: Commit(
                await _resolve(wire, place, queue, EARLIEST if place.topic in begun else start)
            )
            for place, queue in queues.items()
            if place not in known
        }
        if fresh:
            await self._offsets.start_offsets(self._broker, self._group, fresh)

    async def own(self, wire: Wire, partition: Partition, queue: str, epoch: int) -> Commit:
        """Become the owner under ``epoch``, and return where to begin. A position that retention took stops the
        subscription, and asks (rule 10)."""
        known = await self._offsets.own_offsets(self._broker, self._group, epoch, [partition])
        commit = known[partition]
        if await self._is_another(wire, partition, queue, commit):
            log.warning(
                "group %s: %s is another stream, read from its start", self._group, partition
            )
            commit = Commit((await ends_of(wire, queue)).earliest)
            await self._offsets.save_offsets(self._broker, self._group, epoch, {partition: commit})
        ends = await ends_of(wire, queue)
        if ends.latest:
            checked(partition, str(commit.offset), *ends)
        self._vanished.discard(partition)
        self._newest.pop(partition, None)
        return commit

    async def _is_another(
        self, wire: Wire, partition: Partition, queue: str, commit: Commit
    ) -> bool:
        """Return True if the commit is a place in a stream that is gone."""
        if not commit.offset:
            return False
        if partition in self._vanished or not (await ends_of(wire, queue)).latest:
            return True  # a stream keeps its last messages, whatever its retention
        newest = self._newest.get(partition)
        return newest is not None and not await _holds(wire, queue, newest)


async def _holds(wire: Wire, queue: str, newest: DeliveredMessage) -> bool:
    """Return False if another message, or none, has the offset of this one. Retention may have taken it."""
    offset = offset_in(newest)
    if (await ends_of(wire, queue)).latest <= offset:
        return False
    found = await peek(wire, queue, offset, 1)
    if not found or offset_in(found[0]) != offset:
        return True
    return found[0].body == newest.body and _identity(found[0]) == _identity(newest)


def _identity(message: DeliveredMessage) -> tuple[object, ...]:
    properties = message.header.properties
    return properties.message_id, properties.timestamp, properties.content_type


async def _resolve(wire: Wire, partition: Partition, queue: str, start: StartAt) -> int:
    if start.kind == "time":
        return await offset_at(wire, queue, start.time_ms)
    ends = await ends_of(wire, queue)
    if start.kind == "latest":
        return ends.latest
    text = start.positions.get(partition.number) if start.kind == "position" else None
    return ends.earliest if text is None else checked(partition, text, *ends)
