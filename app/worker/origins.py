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

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from app.bindings.record import Record
from app.errors import BrokerError, StaleOwner
from app.interfaces import Clock, Consumer, DeadLetter, DeadLetters
from app.model.message import Message, Partition

if TYPE_CHECKING:
    from app.worker.delivery import Delivery
    from app.worker.parking import Parking

Item = TypeVar("Item")

RECOMMIT = 86_400.0  # seconds; a group that commits nothing for long is forgotten (rule 10)

_NOTHING = Record(None, (), None)
_log = logging.getLogger("skybridge.worker")


class OwnedPartition:
    """A partition while this process owns it, under one epoch.

    ``lost``  it was revoked or lost: what is left of its deliveries concerns its next owner.
    """

    __slots__ = ("_any", "_consumer", "_half", "epoch", "lost", "partition")

    def __init__(self, partition: Partition, epoch: int, consumer: Consumer, window: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.lost = False
        self._consumer = consumer
        self._half = window / 2
        self._any = Message(_NOTHING, partition, "", 0, 0, epoch)  # logs are asked about messages

    def holds(self) -> bool:
        """Whether its log says now, without asking anybody, that it is ours (rule 5)."""
        return self._consumer.holds(self._any)

    def replaced(self, error: StaleOwner) -> None:
        """The store knows a newer owner, and what is left of ours concerns it. Raises StaleOwner where the
        log says that it is ours all the same."""
        if not self.lost and self.holds():
            raise StaleOwner(
                f"{self.partition}: the store and the log differ on its owner"
            ) from error
        _log.warning("%s", error)

    def crowded(self) -> bool:
        """Whether half of its window is used (rule 4)."""
        return self._consumer.window(self.partition) >= self._half


class Origin:
    """``owned``      the partition of its messages, with our ownership of it.
    ``since_ms``   since when it waits in the store; None where it does not: then its wait may hold its lane.
    ``ages``       whether its age counts: an event that is read again on purpose may be old.
    ``holds_lane`` whether the live events behind it wait for it while it is in the store.
    """

    since_ms: int | None = None
    ages = True
    holds_lane = True

    def __init__(self, owned: OwnedPartition) -> None:
        self.owned = owned

    def finish(self, delivery: Delivery) -> None:
        """It was delivered, has expired, or is a row of the store from now on."""
        raise NotImplementedError

    async def save(self, delivery: Delivery, due: float) -> None:
        """Its row says how often it was tried, and that it waits until ``due`` (monotonic); without a row
        there is nothing to say. StoreUnavailable, StaleOwner."""

    def retry_at(self, delivery: Delivery, due: float) -> None:
        """It leaves the memory, and is tried again at ``due``."""
        raise NotImplementedError

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:
        """It is stored as this when this returns, and finished in the same step. StoreUnavailable,
        StaleOwner: it is not."""
        raise NotImplementedError

    def release(self, delivery: Delivery) -> None:
        """It is held no more, and nothing was decided: its next owner gets it."""


class Unstored(Origin):
    """Of messages that are no rows yet."""

    def __init__(self, owned: OwnedPartition, letters: DeadLetters, parking: Parking) -> None:
        super().__init__(owned)
        self._letters = letters
        self._parking = parking

    def retry_at(self, delivery: Delivery, due: float) -> None:
        """Its lane parks. Once it is a row it is finished here."""
        self._parking.follow(delivery, due)

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
        parking: Parking,
        commits: OffsetCommits,
    ) -> None:
        super().__init__(owned, letters, parking)
        self._commits = commits

    def finish(self, delivery: Delivery) -> None:
        self._commits.add(delivery.message)


def by_owner(
    items: Iterable[Item], owned: Callable[[Item], OwnedPartition]
) -> dict[OwnedPartition, list[Item]]:
    """A partition may have been taken from us and given back: then its old items stand apart."""
    found: dict[OwnedPartition, list[Item]] = {}
    for item in items:
        found.setdefault(owned(item), []).append(item)
    return found
