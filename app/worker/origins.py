"""Where deliveries come from. Each origin knows how its message is finished.

==================  ===========================================  ===============================
origin              its message is finished by                   its wait is
==================  ===========================================  ===============================
``LogPartition``    the group's commit position                  a row: its key parks
``ReplayedRange``   the progress of the range, never the group   a row: its key parks
``StoredRow``       the deletion of its row                      the row; of a parked lane, its turn
==================  ===========================================  ===============================

Each delivery ends with one of the verbs ``finish``, ``retry_at``, ``dead_letter`` and ``release``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from app.errors import BrokerError
from app.interfaces import Clock, Consumer, DeadLetter, DeadLetters
from app.model.message import Message, Partition
from app.worker.delivery import Delivery, Origin
from app.worker.owned_partition import OwnedPartition

Park: TypeAlias = Callable[[Delivery, float], None]
"""Queue a delivery as a row of the store, to be tried at a moment (monotonic seconds)."""

RECOMMIT = 86_400.0  # seconds; a group that commits nothing for long is forgotten (rule 10)


class Unstored(Origin):
    """Of messages that are no rows yet."""

    def __init__(self, owned: OwnedPartition, letters: DeadLetters, park: Park) -> None:
        super().__init__(owned)
        self._letters = letters
        self._park = park

    def retry_at(self, delivery: Delivery, due: float) -> None:
        """Its lane parks. Once it is a row it is finished here."""
        self._park(delivery, due)

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:
        await self._letters.add(letter)
        self.finish(delivery)


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


class LogPartition(Unstored):
    """What its log hands out live, and again where it was released."""

    def __init__(
        self,
        owned: OwnedPartition,
        letters: DeadLetters,
        park: Park,
        commits: OffsetCommits,
    ) -> None:
        super().__init__(owned, letters, park)
        self._commits = commits

    def finish(self, delivery: Delivery) -> None:
        self._commits.add(delivery.message)
