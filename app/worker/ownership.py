"""Prepare the partitions that the log assigns to this process before their messages are delivered.

Two steps precede the first message of a partition, and both need the store. The epoch is recorded, so that earlier
owners can no longer write. The parked keys are loaded, so that no event overtakes a parked one. The partition is
paused until both are done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Consumer
from app.model.message import Assigned, Lost, Partition, Revoked
from app.worker.drain_parked import ParkedDrain
from app.worker.origins import LogPartition, OffsetCommits
from app.worker.owned_partition import OwnedPartition
from app.worker.parking import KeyParking
from app.worker.redrive import Redrive
from app.worker.replay import ReplayRunner
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherContext, DispatcherPart
from app.worker.stored_rows import StoredRows
from app.worker.timing import wait_for_event

CONFIRMED = 5.0  # seconds after which the log has notified a member that was replaced
LOOK = 0.05  # seconds between checks whether requests and writes have ended


@dataclass(eq=False, repr=False)
class Ownership(DispatcherPart):
    """The partitions that this process owns for one subscription.

    ``ready`` are the owned partitions that may be delivered from. ``origins`` are the sources of live messages by
    partition. ``_hand_over`` is the time in seconds for requests in flight when partitions are revoked.
    ``_generations`` is the capability ``generations`` of the log."""

    _commits: OffsetCommits
    _scheduler: Scheduler
    _parking: KeyParking
    _rows: StoredRows
    _drain: ParkedDrain
    _redrive: Redrive
    _replays: ReplayRunner
    ready: dict[Partition, OwnedPartition]
    _hand_over: float
    _generations: bool

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._refused: int | None = None  # the epoch that the store refused as stale
        self._waiting: dict[Partition, OwnedPartition] = {}
        self._next_try = 0.0
        self.partitions: dict[Partition, OwnedPartition] = {}
        self.origins: dict[Partition, LogPartition] = {}

    @property
    def all_ready(self) -> bool:
        """Return True if every owned partition is ready."""
        return not self._waiting

    async def apply_change(self, change: Assigned | Revoked | Lost, consumer: Consumer) -> None:
        """Apply an assignment, revocation or loss of partitions. A revocation waits for requests in flight and
        commits."""
        match change:
            case Assigned(partitions, epoch):
                self._attempts.count_rebalance()
                self._forget(set(partitions))
                self._own(partitions, epoch, consumer)
                await self.make_ready()
            case Revoked(partitions):
                gone = set(partitions)
                self._drop(gone)
                await self.wait_until_idle(gone, self._hand_over)
                await self._commits.settle(consumer)
                self._forget(gone)
            case Lost(partitions):
                self._forget(set(partitions))

    async def make_ready(self) -> None:
        """Record the epoch and load the parked keys of newly assigned partitions, if a try is due."""
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

    async def wait_until_idle(self, partitions: set[Partition], seconds: float) -> None:
        """Wait until no request or write of these partitions is in progress, at most the given seconds."""
        deadline = self._clock.monotonic() + seconds
        while self._busy(partitions) and (left := deadline - self._clock.monotonic()) > 0:
            self._scheduler.notify_after(1)
            await wait_for_event(self._scheduler.concluded, self._clock, min(left, LOOK))

    def _own(self, partitions: Collection[Partition], epoch: int, consumer: Consumer) -> None:
        letters, window = self._store.letters, self._subscription.window
        park = self._parking.add
        for each in partitions:
            owned = OwnedPartition(each, epoch, consumer, window)
            self.origins[each] = LogPartition(owned, letters, park, self._commits)
            self.partitions[each] = self._waiting[each] = owned
        self._next_try = 0.0

    def _drop(self, gone: set[Partition]) -> None:
        """Mark these partitions as lost and drop their held, parking and replayed events. Requests in flight end by
        themselves."""
        for partition in gone & self.partitions.keys():
            self.partitions[partition].lost = True
            self.ready.pop(partition, None)
        self._parking.drop(gone)
        self._rows.look()
        self._replays.drop(gone)
        self._scheduler.drop(gone)

    def _forget(self, gone: set[Partition]) -> None:
        """Drop these partitions and their uncommitted messages."""
        self._drop(gone)
        self._commits.forget(gone)
        for partition in gone:
            self.partitions.pop(partition, None)
            self._waiting.pop(partition, None)

    def _busy(self, partitions: set[Partition]) -> bool:
        """Return True if a request or a store write of these partitions is in progress."""
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
            self._retry_later(epoch, error)
        except StoreUnavailable as error:
            self.trouble = f"parked keys cannot be loaded, so nothing is delivered: {error}"
            self._next_try = self._clock.monotonic() + self.retry_delay()
        else:
            self.clear_trouble()
            self._refused = None
            for each in owned:
                if self._waiting.get(each.partition) is each:
                    self.ready[each.partition] = self._waiting.pop(each.partition)

    def _retry_later(self, epoch: int, error: StaleOwner) -> None:
        """Schedule another try after the store refused the epoch as stale.

        Either another process is the owner, and a Lost will follow. Or the log has forgotten the group and counts
        epochs from one again; then the next try replaces the stored epoch."""
        self._refused = epoch
        self._next_try = self._clock.monotonic() + CONFIRMED
        self.trouble = f"the store refused the ownership, next try in {CONFIRMED:g} s: {error}"
