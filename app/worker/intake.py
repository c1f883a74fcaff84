"""Decide how much is read from the log: which partitions pause, and when the dispatcher waits for room."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.interfaces import Consumer
from app.model.message import Partition
from app.worker.budget import MOST_HELD
from app.worker.components import Components
from app.worker.shared import DispatcherPart
from app.worker.timing import wait_for_event

BRIEF = 0.5  # seconds that all partitions may be full without a pause, which discards prefetched messages


@dataclass(eq=False, repr=False)
class Backpressure(DispatcherPart):
    """Pauses partitions while memory, window, parking or endpoint allow no more messages."""

    _components: Components
    _full_since: float | None = field(default=None, init=False)

    def full_partitions(self, consumer: Consumer) -> set[Partition]:
        """Return the partitions from which no more may be read.

        A paused partition resumes when an eighth of its window, or of the held bytes, is free."""
        components = self._components
        owned, paused = components.ownership.partitions, components.commits.paused
        held = MOST_HELD * 7 // 8 if paused else MOST_HELD
        crowded = self._budget.held > held or not self._budget.may_hold() or components.parking.full
        if crowded or not components.scheduler.accepts_messages:
            return set(owned)
        most = self._subscription.window
        eighth = max(1, most // 8) - 1
        return {
            each
            for each in owned
            if each not in components.ownership.ready
            or consumer.window(each) >= (most - eighth if each in paused else most)
        }

    def at_bound(self, full: set[Partition]) -> bool:
        """Return True if no partition may be read now, and requests in flight will change that."""
        scheduler = self._components.scheduler
        all_full = bool(full) and full == self._components.ownership.partitions.keys()
        if not all_full or not (scheduler.busy or scheduler.only_sink_waits):
            self._full_since = None
        elif self._full_since is None:
            self._full_since = self._clock.monotonic()
        return all_full and scheduler.busy

    @property
    def briefly_full(self) -> bool:
        """Return True if no partition is paused yet and all have been full only for a moment."""
        since, now = self._full_since, self._clock.monotonic()
        if since is None or self._components.commits.paused:
            return False
        return now - since < BRIEF or self._components.scheduler.only_sink_waits

    async def wait_for_room(self, seconds: float) -> None:
        """Wait until an eighth of the held deliveries has been attempted, at most the given seconds."""
        scheduler = self._components.scheduler
        scheduler.notify_after(max(1, scheduler.lanes.held // 8))
        await wait_for_event(scheduler.concluded, self._clock, seconds)
