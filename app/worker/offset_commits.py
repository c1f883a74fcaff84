"""What is finished goes back to the log, and what may not be read is held back there."""

from __future__ import annotations

from collections.abc import Collection

from app.errors import BrokerError
from app.interfaces import Clock, Consumer
from app.model.message import Message, Partition

RECOMMIT = 86_400.0  # seconds; a group that commits nothing for long is forgotten (rule 10)


class OffsetCommits:
    """Of one consumer. Only the task that polls may call ``settle`` and ``hold_back``.

    ``paused``  partitions that hand out nothing now.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed = clock.monotonic()
        self._finished: list[Message] = []
        self.paused: set[Partition] = set()

    def __len__(self) -> int:
        """Messages that are finished and not settled."""
        return len(self._finished)

    def add(self, message: Message) -> None:
        self._finished.append(message)

    async def settle(self, consumer: Consumer) -> None:
        """Raises BrokerError; what was not settled then is kept, for settling is idempotent."""
        now = self._clock.monotonic()
        if self._finished:
            finished, self._finished = self._finished, []
            try:
                await consumer.settle(finished)
            except BrokerError:
                self._finished += finished
                raise
            self._committed = now
        elif now - self._committed >= RECOMMIT:
            self._committed = now
            await consumer.commit()

    def hold_back(self, consumer: Consumer, wanted: set[Partition]) -> None:
        """These, and no others, hand out nothing from now on."""
        if resumed := self.paused - wanted:
            consumer.resume(resumed)
        if paused := wanted - self.paused:
            consumer.pause(paused)
        self.paused = wanted

    def forget(self, gone: Collection[Partition]) -> None:
        """They are no longer ours to hold back, nor to settle."""
        self.paused = self.paused.difference(gone)
        self._finished = [done for done in self._finished if done.partition not in gone]
