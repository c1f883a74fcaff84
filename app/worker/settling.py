"""What is finished goes back to the log, and what may not be read is held back there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from app.errors import BrokerError
from app.interfaces import Clock, Consumer
from app.model.message import Message, Partition

RECOMMIT = 86_400.0  # seconds; a group that commits nothing for long is forgotten (rule 10)


class Finishing(Protocol):
    """Whoever finishes messages: ``finished`` are those that wait to be settled."""

    finished: list[Message]


class Settling:
    """One consumer's. Only the task that polls may call it."""

    def __init__(self, finishing: Finishing, clock: Clock) -> None:
        self._finishing = finishing
        self._clock = clock
        self._committed = clock.monotonic()
        self.paused: set[Partition] = set()

    async def settle(self, consumer: Consumer) -> None:
        """Raises BrokerError; what was not settled then is kept, for settling is idempotent."""
        finishing, now = self._finishing, self._clock.monotonic()
        if finishing.finished:
            finished, finishing.finished = finishing.finished, []
            try:
                await consumer.settle(finished)
            except BrokerError:
                finishing.finished += finished
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
        """They are no longer ours to hold back."""
        self.paused = self.paused.difference(gone)
