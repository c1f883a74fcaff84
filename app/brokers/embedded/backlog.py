"""The stored records of one topic that one group has not finished. They are counted on the event loop without
waiting."""

from __future__ import annotations

from app.brokers.embedded.driver import EmbeddedDriver
from app.log.partitions import PartitionLog
from app.model.message import Partition


class Backlog:
    """The records of a topic that a group has not finished.

    Its counts change only when records, or a commit of the group, are durable.
    """

    def __init__(self, driver: EmbeddedDriver, topic: str, group: str) -> None:
        self._engine = driver.engine
        self._topic = topic
        self._group = group

    @property
    def partitions(self) -> int:
        """Return the number of partitions, or 0 if the topic does not exist."""
        return len(self._logs())

    def waiting(self, number: int) -> int:
        """Return the number of records of a partition after the commit position.

        The result is 0 if all records are finished, even after a restart.
        """
        log = self._logs()[number]
        return log.next_offset - self._position(log)

    def finished(self) -> tuple[int, ...]:
        """Return the commit position of each partition. All records before it are finished."""
        return tuple(map(self._position, self._logs()))

    @property
    def records(self) -> int:
        return sum(log.next_offset - self._position(log) for log in self._logs())

    @property
    def bytes(self) -> int:
        """Return the approximate size of the unfinished records. A segment that is partly finished counts in
        proportion to its unfinished records."""
        return sum(map(self._bytes, self._logs()))

    async def oldest_ms(self) -> int | None:
        """Return when the oldest unfinished record was stored, in ms since the epoch, or None without a
        record."""
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
