"""What is done when partitions become ours, or others' (rule 5)."""

from __future__ import annotations

from collections.abc import Collection

from app.interfaces import Consumer
from app.model.message import Assigned, Lost, Partition, Revoked
from app.worker.offset_commits import OffsetCommits
from app.worker.origins import LogPartition, OwnedPartition
from app.worker.ownership import Ownership
from app.worker.parking import Parking
from app.worker.redrive import Redrive
from app.worker.replay import Replays
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherPart, Shared
from app.worker.stored_rows import StoredRows
from app.worker.waiting import happened

LOOK = 0.05  # seconds between looks at whether what was on the wire is down, and written


class PartitionChanges(DispatcherPart):
    """Of one subscription. ``sources``: where what the log hands out comes from, by partition.
    ``hand_over``: seconds for what is on the wire when partitions are taken from us."""

    def __init__(
        self,
        shared: Shared,
        scheduler: Scheduler,
        parking: Parking,
        rows: StoredRows,
        commits: OffsetCommits,
        ownership: Ownership,
        redrive: Redrive,
        replays: Replays,
        hand_over: float,
    ) -> None:
        super().__init__(shared)
        self._scheduler = scheduler
        self._parking = parking
        self._rows = rows
        self._commits = commits
        self._ownership = ownership
        self._redrive = redrive
        self._replays = replays
        self._hand_over = hand_over
        self.sources: dict[Partition, LogPartition] = {}

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
        if await self._ownership.settle():
            self._redrive.look()
            self._replays.look()

    async def land(self, partitions: set[Partition], seconds: float) -> None:
        """Wait for the attempts of these partitions that are on the wire, at most so long."""
        landed = self._scheduler.landed
        deadline = self._clock.monotonic() + seconds
        while self._busy(partitions) and (left := deadline - self._clock.monotonic()) > 0:
            self._scheduler.tell_after(1)
            await happened(landed, self._clock, min(left, LOOK))

    def _own(self, partitions: Collection[Partition], epoch: int, consumer: Consumer) -> None:
        window, letters = self._subscription.window, self._store.letters
        owned = [OwnedPartition(each, epoch, consumer, window) for each in partitions]
        for each in owned:
            self.sources[each.partition] = LogPartition(each, letters, self._parking, self._commits)
        self._ownership.assigned(owned)

    def _drop(self, gone: set[Partition]) -> None:
        """What is held or being parked of these partitions; what is on the wire lands by itself."""
        self._ownership.lose(gone)
        self._parking.drop(gone)
        self._rows.look()
        self._scheduler.drop(gone)

    def _forget(self, gone: set[Partition]) -> None:
        """All of these partitions concerns others now."""
        self._drop(gone)
        self._commits.forget(gone)
        self._ownership.drop(gone)
        self._replays.drop(gone)

    def _busy(self, partitions: set[Partition]) -> bool:
        """Whether something of these partitions is on the wire, or on its way to the store."""
        parts = (self._parking, self._rows)
        return self._scheduler.flying(partitions) or any(part.busy(partitions) for part in parts)
