"""Which partitions are ours, and which of those are ready to be delivered from (rule 5).

Between the assignment and the first message of a partition lie two steps that need the store: our
epoch is noted, so that nobody before us can write any more; and the lanes that are parked there are
loaded, so that nothing overtakes them. Until both are done the partition is paused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Consumer
from app.model.message import Assigned, Lost, Partition, Revoked
from app.worker.drain_parked import Drain
from app.worker.origins import LogPartition, OffsetCommits
from app.worker.owned_partition import OwnedPartition
from app.worker.parking import Parking
from app.worker.redrive import Redrive
from app.worker.replay import Replays
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherPart, Shared
from app.worker.stored_rows import StoredRows
from app.worker.timing import happened

CONFIRMED = 5.0  # seconds after which a member that was replaced knows it
LOOK = 0.05  # seconds between looks at whether what was on the wire is down, and written


@dataclass(eq=False, repr=False)
class Ownership(DispatcherPart):
    """``ready``: those that may be delivered from. ``sources``: where what the log hands out comes from.
    ``hand_over``: seconds for what is on the wire when partitions are taken from us. ``generations``: as the
    log's capability."""

    _commits: OffsetCommits
    _scheduler: Scheduler
    _parking: Parking
    _rows: StoredRows
    _drain: Drain
    _redrive: Redrive
    _replays: Replays
    ready: dict[Partition, OwnedPartition]
    _hand_over: float
    _generations: bool

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        self._refused: int | None = None  # the epoch that the store holds for an older one
        self._waiting: dict[Partition, OwnedPartition] = {}
        self._next_try = 0.0
        self.partitions: dict[Partition, OwnedPartition] = {}
        self.sources: dict[Partition, LogPartition] = {}

    @property
    def settled(self) -> bool:
        """Whether all that is ours is ready."""
        return not self._waiting

    async def follow(self, change: Assigned | Revoked | Lost, consumer: Consumer) -> None:
        match change:
            case Assigned(partitions, epoch):
                self._attempts.assigned()
                self._forget(set(partitions))
                self._own(partitions, epoch, consumer)
                await self.make_ready()
            case Revoked(partitions):
                gone = set(partitions)
                self._drop(gone)
                await self.land(gone, self._hand_over)
                await self._commits.settle(consumer)
                self._forget(gone)
            case Lost(partitions):
                self._forget(set(partitions))

    async def make_ready(self) -> None:
        """What is ours and may be delivered from now."""
        if not self._waiting or self._clock.monotonic() < self._next_try:
            return
        before = len(self._waiting)
        for epoch in {each.epoch for each in self._waiting.values()}:
            mine = [each for each in self._waiting.values() if each.epoch == epoch and each.holds()]
            if mine:
                await self._load(mine, epoch)
        if len(self._waiting) < before:
            self._redrive.look()
            self._replays.look()

    async def land(self, partitions: set[Partition], seconds: float) -> None:
        """Wait for the attempts of these partitions that are on the wire, at most so long."""
        deadline = self._clock.monotonic() + seconds
        while self._busy(partitions) and (left := deadline - self._clock.monotonic()) > 0:
            self._scheduler.tell_after(1)
            await happened(self._scheduler.landed, self._clock, min(left, LOOK))

    def _own(self, partitions: Collection[Partition], epoch: int, consumer: Consumer) -> None:
        letters, window = self._store.letters, self._subscription.window
        for each in partitions:
            owned = OwnedPartition(each, epoch, consumer, window)
            self.sources[each] = LogPartition(owned, letters, self._parking.follow, self._commits)
            self.partitions[each] = self._waiting[each] = owned
        self._next_try = 0.0

    def _drop(self, gone: set[Partition]) -> None:
        """What is left of these partitions concerns others: what is held or being parked of them goes, what is
        on the wire lands by itself, and no more begins."""
        for partition in gone & self.partitions.keys():
            self.partitions[partition].lost = True
            self.ready.pop(partition, None)
        self._parking.drop(gone)
        self._rows.look()
        self._replays.drop(gone)
        self._scheduler.drop(gone)

    def _forget(self, gone: set[Partition]) -> None:
        """All of these partitions concerns others now."""
        self._drop(gone)
        self._commits.forget(gone)
        for partition in gone:
            self.partitions.pop(partition, None)
            self._waiting.pop(partition, None)

    def _busy(self, partitions: set[Partition]) -> bool:
        """Whether something of these partitions is on the wire, or on its way to the store."""
        parts = (self._scheduler, self._parking, self._rows)
        return any(part.busy_with(partitions) for part in parts)

    async def _load(self, owned: list[OwnedPartition], epoch: int) -> None:
        name, broker = self._subscription.id, self._subscription.source.broker
        partitions = [each.partition for each in owned]
        try:
            newest = self._generations and epoch != self._refused
            await self._store.owners.own(name, broker, partitions, epoch, newest=newest)
            await self._drain.load(partitions)
        except StaleOwner as error:
            self._doubt(epoch, error)
        except StoreUnavailable as error:
            self.trouble = f"what is parked is not known, so nothing is delivered: {error}"
            self._next_try = self._clock.monotonic() + self.pause()
        else:
            self.well()
            self._refused = None
            for each in owned:
                if self._waiting.get(each.partition) is each:
                    self.ready[each.partition] = self._waiting.pop(each.partition)

    def _doubt(self, epoch: int, error: StaleOwner) -> None:
        """Either we were replaced, which a Lost will say, or the log has forgotten the group and counts from one
        again: then the partitions are still ours later, and we own them whatever is noted."""
        self._refused = epoch
        self._next_try = self._clock.monotonic() + CONFIRMED
        self.trouble = f"asked again in {CONFIRMED:g} s: {error}"
