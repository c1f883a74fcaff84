"""The sources of deliveries. Each source knows how its messages are finished.

==================  ===========================================  ===============================
origin              a message is finished by                     a wait is
==================  ===========================================  ===============================
``LogPartition``    the group's commit position                  a row: the key parks
``ReplayedRange``   the progress of the range, never the group   a row: the key parks
``StoredRow``       the deletion of its row                      the row; of a parked lane, its turn
==================  ===========================================  ===============================

Each delivery ends with one of the methods ``finish``, ``retry_at``, ``dead_letter`` and ``release``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from app.errors import BrokerError
from app.interfaces import Clock, Consumer, DeadLetter, DeadLetters
from app.model.message import Message, Partition
from app.worker.delivery import Delivery, DeliveryOrigin
from app.worker.owned_partition import OwnedPartition

Park: TypeAlias = Callable[[Delivery, float], None]
"""A function that queues a delivery to be stored as a row, due at the given time (monotonic seconds)."""

RECOMMIT = 86_400.0  # seconds; a broker forgets a group that commits nothing for long


class UnstoredOrigin(DeliveryOrigin):
    """The source of messages that are not rows of the store yet."""

    __slots__ = ("_letters", "_park")

    def __init__(self, owned: OwnedPartition, letters: DeadLetters, park: Park) -> None:
        super().__init__(owned)
        self._letters = letters
        self._park = park

    def retry_at(self, delivery: Delivery, due: float) -> None:
        """Park the delivery and the later events of its key in the store. The message is finished here as soon as
        its row is stored."""
        self._park(delivery, due)

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:
        await self._letters.add(letter)
        self.finish(delivery)


class OffsetCommits:
    """The finished messages of one consumer that are not committed yet, and the partitions that it has paused.

    Only the task that polls the consumer may call ``settle`` and ``hold_back``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed = clock.monotonic()
        self._finished: list[Message] = []
        self.paused: set[Partition] = set()

    def __len__(self) -> int:
        """Return the number of finished messages that are not committed yet."""
        return len(self._finished)

    def add(self, message: Message) -> None:
        """Add a finished message to the next commit."""
        self._finished.append(message)

    async def settle(self, consumer: Consumer) -> None:
        """Commit the finished messages, or commit again after a day without a new one.

        Raises:
            BrokerError: the commit failed. The messages are kept for the next call, because commits are idempotent.
        """
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
        """Pause exactly the partitions in ``wanted`` and resume all other paused partitions."""
        if resumed := self.paused - wanted:
            consumer.resume(resumed)
        if paused := wanted - self.paused:
            consumer.pause(paused)
        self.paused = wanted

    def forget(self, gone: Collection[Partition]) -> None:
        """Drop the paused state and the uncommitted messages of partitions that this process no longer owns."""
        self.paused = self.paused.difference(gone)
        self._finished = [done for done in self._finished if done.partition not in gone]


class LogPartition(UnstoredOrigin):
    """The source of messages that the consumer reads from a log for the first time."""

    __slots__ = ("_commits",)

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
