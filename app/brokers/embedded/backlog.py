"""What one group has not finished of one topic, as it is on the disk: read on the event loop, without waiting."""

from __future__ import annotations

from app.brokers.embedded.driver import EmbeddedDriver
from app.log.partitions import PartitionLog
from app.model.message import Partition


class Backlog:
    """``waiting`` and ``bytes`` change only when records, or the group's commit, are durable."""

    def __init__(self, driver: EmbeddedDriver, topic: str, group: str) -> None:
        self._engine = driver.engine
        self._topic = topic
        self._group = group

    @property
    def partitions(self) -> int:
        """0 while there is no such topic."""
        return len(self._logs())

    def waiting(self, number: int) -> int:
        """Records of a partition from the commit position on: 0 says that all of them are finished, and
        that a restart knows it."""
        log = self._logs()[number]
        return log.next_offset - self._position(log)

    def finished(self) -> tuple[int, ...]:
        """Of each partition the commit position: what is before it is finished."""
        return tuple(map(self._position, self._logs()))

    @property
    def records(self) -> int:
        return sum(log.next_offset - self._position(log) for log in self._logs())

    @property
    def bytes(self) -> int:
        """About: of a segment that is finished in part, its share by records."""
        return sum(map(self._bytes, self._logs()))

    async def oldest_ms(self) -> int | None:
        """When the oldest of these records was stored, milliseconds since the epoch; None for no record."""
        times = []
        for log in self._logs():
            position = self._position(log)
            if position < log.next_offset:
                page = await self._engine.page(log.place, position, max_records=1)
                times += [message.time_ms for message in page.messages]
        return min(times, default=None)

    def _logs(self) -> tuple[PartitionLog, ...]:
        topic = self._engine.topics().get(self._topic)
        return () if topic is None else topic.partitions

    def _position(self, log: PartitionLog) -> int:
        committed = self._engine.groups.positions.of(self._group).get(
            Partition(self._topic, log.number)
        )
        return log.earliest if committed is None else max(committed.offset, log.earliest)

    def _bytes(self, log: PartitionLog) -> int:
        position, size = self._position(log), 0
        segments = log.segments
        for at, segment in enumerate(segments):
            end = segments[at + 1].base if at + 1 < len(segments) else log.next_offset
            if end > max(position, segment.base):
                share = (end - max(position, segment.base)) / (end - segment.base)
                size += round(segment.bytes * share)
        return size
