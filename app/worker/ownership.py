"""Which partitions are ours, and which of those are ready to be delivered from (rule 5).

Between the assignment and the first message of a partition lie two steps that need the store: our
epoch is noted, so that nobody before us can write any more; and the lanes that are parked there are
loaded, so that nothing overtakes them. Until both are done the partition is paused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from app.bindings.record import Record
from app.delivery.backoff import doubling
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Clock, Store
from app.model.message import Message, Partition
from app.model.subscription import Subscription

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries at a store that does not answer
CONFIRMED = 5.0  # seconds after which a member that was replaced knows it
_NOTHING = Record(None, (), None)


class Ownership:
    """``load``: reads what is parked in partitions under an epoch. ``generations``: as the log's capability."""

    def __init__(
        self,
        subscription: Subscription,
        store: Store,
        clock: Clock,
        jitter: Callable[[], float],
        load: Callable[[Collection[Partition], int], Awaitable[None]],
        *,
        generations: bool = False,
    ) -> None:
        self._subscription = subscription
        self._store = store
        self._clock = clock
        self._jitter = jitter
        self._load = load
        self._newest = generations
        self._refused: int | None = None  # the epoch that the store holds for an older one
        self._waiting: dict[Partition, int] = {}  # and under which epoch
        self._failures = 0
        self._next_try = 0.0
        self.partitions: set[Partition] = set()
        self.trouble = ""

    @property
    def settled(self) -> bool:
        """Whether all that is ours is ready."""
        return not self._waiting

    def ready(self, partition: Partition) -> bool:
        return partition not in self._waiting

    def assigned(self, partitions: Collection[Partition], epoch: int) -> None:
        self.partitions.update(partitions)
        self._waiting.update(dict.fromkeys(partitions, epoch))
        self._next_try = 0.0

    def drop(self, partitions: set[Partition]) -> None:
        self.partitions -= partitions
        for partition in partitions:
            self._waiting.pop(partition, None)

    async def settle(self, holds: Callable[[Message], bool]) -> None:
        """Make ready what can be now."""
        if not self._waiting or self._clock.monotonic() < self._next_try:
            return
        for epoch in set(self._waiting.values()):
            mine = [
                partition
                for partition, given in self._waiting.items()
                if given == epoch and holds(_of(partition, epoch))
            ]
            if mine:
                await self._make_ready(mine, epoch)

    async def _make_ready(self, partitions: list[Partition], epoch: int) -> None:
        broker = self._subscription.source.broker
        try:
            newest = self._newest and epoch != self._refused
            await self._store.owners.own(
                self._subscription.id, broker, partitions, epoch, newest=newest
            )
            await self._load(partitions, epoch)
        except StaleOwner as error:
            self._doubt(epoch, error)
        except StoreUnavailable as error:
            self._failures += 1
            pause = doubling(FIRST_WAIT, LONGEST_WAIT, self._failures, self._jitter())
            self._next_try = self._clock.monotonic() + pause
            self.trouble = f"what is parked is not known, so nothing is delivered: {error}"
        else:
            self._failures, self.trouble, self._refused = 0, "", None
            for partition in partitions:
                self._waiting.pop(partition, None)

    def _doubt(self, epoch: int, error: StaleOwner) -> None:
        """Either we were replaced, which a Lost will say, or the log has forgotten the group and counts from one
        again: then the partitions are still ours later, and we own them whatever is noted."""
        self._refused = epoch
        self._next_try = self._clock.monotonic() + CONFIRMED
        self.trouble = f"asked again in {CONFIRMED:g} s: {error}"


def _of(partition: Partition, epoch: int) -> Message:
    """Any message of it: whether it is ours is asked of messages."""
    return Message(_NOTHING, partition, "", 0, 0, epoch)
