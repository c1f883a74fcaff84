"""Which partitions are ours, and which of those are ready to be delivered from (rule 5).

Between the assignment and the first message of a partition lie two steps that need the store: our
epoch is noted, so that nobody before us can write any more; and the lanes that are parked there are
loaded, so that nothing overtakes them. Until both are done the partition is paused.
"""

from __future__ import annotations

from collections.abc import Collection

from app.delivery.backoff import try_again_in
from app.errors import StaleOwner, StoreUnavailable
from app.model.message import Partition
from app.worker.drain_parked import Drain
from app.worker.origins import OwnedPartition
from app.worker.shared import DispatcherPart, Shared

CONFIRMED = 5.0  # seconds after which a member that was replaced knows it


class Ownership(DispatcherPart):
    """``ready``: fills with those that may be delivered from. ``generations``: as the log's capability."""

    def __init__(
        self,
        shared: Shared,
        drain: Drain,
        ready: dict[Partition, OwnedPartition],
        *,
        generations: bool = False,
    ) -> None:
        super().__init__(shared)
        self._drain = drain
        self.ready = ready
        self._newest = generations
        self._refused: int | None = None  # the epoch that the store holds for an older one
        self._waiting: dict[Partition, OwnedPartition] = {}
        self._failures = 0
        self._next_try = 0.0
        self.partitions: dict[Partition, OwnedPartition] = {}

    @property
    def settled(self) -> bool:
        """Whether all that is ours is ready."""
        return not self._waiting

    def assigned(self, owned: Collection[OwnedPartition]) -> None:
        """They are ours from now on."""
        for each in owned:
            self.partitions[each.partition] = self._waiting[each.partition] = each
        self._next_try = 0.0

    def lose(self, partitions: set[Partition]) -> None:
        """What is left of their deliveries concerns others, and no more begin."""
        for partition in partitions & self.partitions.keys():
            self.partitions[partition].lost = True
            self.ready.pop(partition, None)

    def drop(self, partitions: set[Partition]) -> None:
        self.lose(partitions)
        for partition in partitions:
            self.partitions.pop(partition, None)
            self._waiting.pop(partition, None)

    async def settle(self) -> bool:
        """Make ready what can be now; whether anything is."""
        if not self._waiting or self._clock.monotonic() < self._next_try:
            return False
        before = len(self._waiting)
        for epoch in {each.epoch for each in self._waiting.values()}:
            mine = [each for each in self._waiting.values() if each.epoch == epoch and each.holds()]
            if mine:
                await self._make_ready(mine, epoch)
        return len(self._waiting) < before

    async def _make_ready(self, owned: list[OwnedPartition], epoch: int) -> None:
        broker = self._subscription.source.broker
        partitions = [each.partition for each in owned]
        try:
            newest = self._newest and epoch != self._refused
            await self._store.owners.own(
                self._subscription.id, broker, partitions, epoch, newest=newest
            )
            await self._drain.load(partitions)
        except StaleOwner as error:
            self._doubt(epoch, error)
        except StoreUnavailable as error:
            self._failures += 1
            pause = try_again_in(self._failures, self._jitter())
            self._next_try = self._clock.monotonic() + pause
            self.trouble = f"what is parked is not known, so nothing is delivered: {error}"
        else:
            self._failures, self.trouble, self._refused = 0, "", None
            for each in owned:
                if self._waiting.get(each.partition) is each:
                    self.ready[each.partition] = self._waiting.pop(each.partition)

    def _doubt(self, epoch: int, error: StaleOwner) -> None:
        """Either we were replaced, which a Lost will say, or the log has forgotten the group and counts from one
        again: then the partitions are still ours later, and we own them whatever is noted."""
        self._refused = epoch
        self._next_try = self._clock.monotonic() + CONFIRMED
        self.trouble = f"asked again in {CONFIRMED:g} s: {error}"
