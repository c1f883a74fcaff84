"""Periodic upkeep of a log: delete expired segments, producers, identities and groups.

Segments are dropped as a whole, oldest first. A segment that a declared group still needs is never
dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import apsw

from app.log.groups.coordinator import Coordinator
from app.log.known import LogState
from app.log.partitions import PartitionLog, Segment
from app.log.settings import EngineSettings, RetentionLimits
from app.log.writer import Writer

_PAUSE = (
    0.02  # seconds between two steps of merging, so that appends have most of the writer's time
)


class LogUpkeep:
    """The periodic upkeep, on the event loop. Each step returns the number of deleted items."""

    def __init__(
        self,
        settings: EngineSettings,
        known: LogState,
        coordinator: Coordinator,
        writer: Callable[[], Writer],
    ) -> None:
        self._settings = settings
        self._known = known
        self._coordinator = coordinator
        self._writer = writer

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._settings.retention_interval)
            await self.retain()
            await self.forget_producers()
            await self.forget_identities()
            await self.tidy_prints()
            await self.forget_groups()

    async def retain(self) -> int:
        """Drop the segments that the retention allows to drop."""
        partitions = list(self._known.catalogue.partitions())
        return sum([await self._retain_one(partition) for partition in partitions])

    async def forget_producers(self) -> int:
        """Drop producers that have sent nothing for ``producer_age``."""
        producers, before = self._known.producers, self._before(self._settings.producer_age)
        if producers.oldest_ms >= before:
            return 0
        return await self._writer().run(lambda db: producers.forget_before(db, before))

    async def forget_identities(self) -> int:
        """Delete identities whose window is over, some thousand rows at a time."""
        gone, identities = 0, self._known.identities
        while identities.oldest_ms < self._settings.now_ms():
            gone += await self._writer().run(identities.forget)
        return gone

    async def tidy_prints(self) -> int:
        """Merge the fingerprints of each closed segment into one row, or delete them, in steps between which the
        writer appends."""
        due = self._known.events.due(self._known.catalogue)
        for segment in due:
            while not await self._writer().run(partial(self._known.events.tidy, segment)):  # noqa: ASYNC110 - a pace
                await asyncio.sleep(_PAUSE)
        return len(due)

    async def forget_groups(self) -> int:
        """Drop groups that have not been used for ``group_age``."""
        return await self._coordinator.forget_idle(self._before(self._settings.group_age))

    def _before(self, age: float) -> int:
        return self._settings.now_ms() - round(age * 1000)

    async def _retain_one(self, partition: PartitionLog) -> int:
        def drop(db: apsw.Connection) -> int:
            count = self._droppable(
                partition
            )  # computed again: a group may have been declared meanwhile
            if count:
                self._known.catalogue.drop_segments(db, partition, count)
            return count

        return await self._writer().run(drop) if self._droppable(partition) else 0

    def _droppable(self, partition: PartitionLog) -> int:
        return droppable(
            partition.segments,
            partition.next_offset,
            self._settings.retention_of(partition.place.topic),
            self._settings.now_ms(),
            self._known.positions.keeps(partition.place),
        )


def droppable(
    segments: Sequence[Segment],
    next_offset: int,
    retention: RetentionLimits,
    now_ms: int,
    needed: int | None,
) -> int:
    """Return how many of the oldest segments may be dropped.

    Args:
        segments: the segments, oldest first.
        next_offset: the offset of the next record.
        retention: the retention of the topic.
        now_ms: the wall clock in ms.
        needed: the lowest offset that a declared group still needs, or None.
    """
    count = 0
    total = sum(segment.bytes for segment in segments)
    for at, segment in enumerate(segments):
        end = segments[at + 1].base if at + 1 < len(segments) else next_offset
        empty = end == segment.base
        newest = at + 1 == len(segments)
        too_much = retention.max_bytes is not None and total > retention.max_bytes and not newest
        if empty or not (too_much or _too_old(segment, retention, now_ms)):
            break
        if needed is not None and needed < end:
            break
        total -= segment.bytes
        count += 1
    return count


def _too_old(segment: Segment, retention: RetentionLimits, now_ms: int) -> bool:
    return retention.max_age is not None and segment.last_ms < now_ms - retention.max_age * 1000
