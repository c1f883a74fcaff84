"""How much is taken of the log (rules 4 to 6): of which partitions nothing more, and the wait for room."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.interfaces import Consumer
from app.model.message import Partition
from app.worker.budget import MOST_HELD
from app.worker.components import Components
from app.worker.shared import DispatcherPart
from app.worker.timing import happened

BRIEF = 0.5  # seconds that it may be full without a pause, which throws away what was read ahead


@dataclass(eq=False, repr=False)
class Intake(DispatcherPart):
    _components: Components
    _full_since: float | None = field(default=None, init=False)

    def full(self, consumer: Consumer) -> set[Partition]:
        """Of which nothing more may be taken; once full, until an eighth of it is free."""
        components = self._components
        owned, paused = components.ownership.partitions, components.commits.paused
        held = MOST_HELD * 7 // 8 if paused else MOST_HELD
        crowded = self._part.held > held or not self._part.may_hold() or components.parking.full
        if crowded or not components.scheduler.takes:
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
        """All that could be read is full, and attempts are under way that will make room."""
        scheduler = self._components.scheduler
        all_full = bool(full) and full == self._components.ownership.partitions.keys()
        if not all_full or not (scheduler.busy or scheduler.waits):
            self._full_since = None
        elif self._full_since is None:
            self._full_since = self._clock.monotonic()
        return all_full and scheduler.busy

    @property
    def is_brief(self) -> bool:
        """Nothing is paused yet, and it has been full for a moment only."""
        since, now = self._full_since, self._clock.monotonic()
        if since is None or self._components.commits.paused:
            return False
        return now - since < BRIEF or self._components.scheduler.waits

    async def room(self, seconds: float) -> None:
        """Until an eighth of what is held came down, or so many seconds are over."""
        scheduler = self._components.scheduler
        scheduler.tell_after(max(1, scheduler.lanes.held // 8))
        await happened(scheduler.landed, self._clock, seconds)
