"""What is done when partitions become ours, or others' (rule 5)."""

from __future__ import annotations

from collections.abc import Collection

from app.interfaces import Consumer
from app.model.message import Assigned, Lost, Partition, Revoked
from app.worker.components import Components
from app.worker.origins import LogPartition, OwnedPartition
from app.worker.shared import DispatcherPart, Shared
from app.worker.timing import happened

LOOK = 0.05  # seconds between looks at whether what was on the wire is down, and written


class PartitionChanges(DispatcherPart):
    """Of one subscription. ``sources``: where what the log hands out comes from, by partition.
    ``hand_over``: seconds for what is on the wire when partitions are taken from us."""

    def __init__(self, shared: Shared, components: Components, hand_over: float) -> None:
        super().__init__(shared)
        self._components = components
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
                await self._components.commits.settle(consumer)
                self._forget(gone)
            case Lost(partitions):
                self._forget(set(partitions))

    async def make_ready(self) -> None:
        """What is ours and may be delivered from now."""
        if await self._components.ownership.settle():
            self._components.redrive.look()
            self._components.replays.look()

    async def land(self, partitions: set[Partition], seconds: float) -> None:
        """Wait for the attempts of these partitions that are on the wire, at most so long."""
        landed = self._components.scheduler.landed
        deadline = self._clock.monotonic() + seconds
        while self._busy(partitions) and (left := deadline - self._clock.monotonic()) > 0:
            self._components.scheduler.tell_after(1)
            await happened(landed, self._clock, min(left, LOOK))

    def _own(self, partitions: Collection[Partition], epoch: int, consumer: Consumer) -> None:
        window, letters = self._subscription.window, self._store.letters
        owned = [OwnedPartition(each, epoch, consumer, window) for each in partitions]
        for each in owned:
            self.sources[each.partition] = LogPartition(
                each, letters, self._components.parking, self._components.commits
            )
        self._components.ownership.assigned(owned)

    def _drop(self, gone: set[Partition]) -> None:
        """What is held or being parked of these partitions; what is on the wire lands by itself."""
        self._components.ownership.lose(gone)
        self._components.parking.drop(gone)
        self._components.rows.look()
        self._components.replays.drop(gone)
        self._components.scheduler.drop(gone)

    def _forget(self, gone: set[Partition]) -> None:
        """All of these partitions concerns others now."""
        self._drop(gone)
        self._components.commits.forget(gone)
        self._components.ownership.drop(gone)

    def _busy(self, partitions: set[Partition]) -> bool:
        """Whether something of these partitions is on the wire, or on its way to the store."""
        parts = (self._components.parking, self._components.rows)
        return self._components.scheduler.flying(partitions) or any(
            part.busy(partitions) for part in parts
        )
