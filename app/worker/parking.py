"""Where waits go: keys that cannot be delivered now become rows of the store (rules 4 and 5).

A lane parks in one step: from then on what arrives for it goes behind it. Its rows are written, head
and followers in one transaction, and only then are their messages finished. Rows of many lanes share
a transaction. No write is made of a partition whose ownership is in doubt, and all of them carry its
epoch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from app.delivery.lanes import Lanes
from app.delivery.parked_lanes import ParkedLane, ParkedLanes
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Parked
from app.model.message import Partition
from app.worker.delivery import Delivery
from app.worker.owned_partition import OwnedPartition, by_owner
from app.worker.shared import DispatcherPart, Shared

AT_ONCE = 1_000  # rows of one transaction, but for a lane whose followers are more

_Queued = tuple[Delivery, float]  # with when its row may be tried (monotonic); 0.0: behind another


@dataclass(eq=False, repr=False)
class Parking(DispatcherPart):
    """``lanes``     those that are parked. ``live``: those in memory.
    ``lasting``   whether a message has the same position when it is delivered again; where it has not,
                  the store numbers rows in the order in which they come.
    """

    _live: Lanes[Delivery]
    _lasting: bool

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        self._most = shared.subscription.parked.max_rows
        self._full = False
        self._queued: dict[ParkedLane, deque[_Queued]] = {}  # to be written
        self._in_queue = 0
        self._writing: list[_Queued] = []
        self._writer: asyncio.Task[None] | None = None
        self.lanes = ParkedLanes()

    @property
    def kept(self) -> int:
        """Rows in the store, and those on their way there."""
        return self.lanes.rows + self.unwritten

    @property
    def unwritten(self) -> int:
        """Messages that are to be rows, and are not yet."""
        return self._in_queue + len(self._writing)

    @property
    def full(self) -> bool:
        """Whether nothing more should be taken; once full, until an eighth of the bound is free."""
        self._full = self.kept >= (self._most - self._most // 8 if self._full else self._most)
        return self._full

    @property
    def full_cause(self) -> str:
        if not self.full:
            return ""
        return f"{self.kept} events are parked: nothing more is taken until some are gone"

    def room(self, rows: int) -> bool:
        """Whether so many more may park: below the bound, and into a store that answers."""
        return not self.trouble and self.kept + rows <= self._most

    def busy_with(self, partitions: set[Partition]) -> bool:
        """Whether rows of these partitions are being written."""
        return any(each.message.partition in partitions for each, _ in self._writing)

    def follow(self, delivery: Delivery, due: float = 0.0) -> None:
        """Behind the rows of its lane. If the lane is not parked, it parks and is tried at ``due``."""
        place = delivery.message.partition
        known = self.lanes.find(delivery.lane) is not None
        lane = self.lanes.park(delivery.lane, place, due, 0 if known else self._live.next_turn())
        self._queue(lane, delivery, 0.0 if known else due)

    def live(self, lane: ParkedLane) -> list[Delivery]:
        """The lane has no rows any more; what came meanwhile and is not written, in order."""
        self.lanes.live(lane)
        return [delivery for delivery, _ in self._unqueue(lane)]

    def drop(self, partitions: set[Partition]) -> None:
        for lane in self.lanes.drop(partitions):
            self._release(self._unqueue(lane))
        for lane in tuple(self._queued):  # of a lane that has places elsewhere
            items = self._unqueue(lane)
            self._release([each for each in items if each[0].message.partition in partitions])
            for delivery, due in items:
                if delivery.message.partition not in partitions:
                    self._queue(lane, delivery, due)

    def _release(self, items: Sequence[_Queued]) -> None:
        for delivery, _ in items:
            self._part.release(delivery.size)
            delivery.origin.release(delivery)

    def _queue(self, lane: ParkedLane, delivery: Delivery, due: float) -> None:
        self._queued.setdefault(lane, deque()).append((delivery, due))
        self._in_queue += 1
        if self._writer is None:
            self._writer = self._scope.spawn(self._write(), f"{self._subscription.id} writer")

    def _unqueue(self, lane: ParkedLane) -> list[_Queued]:
        items = self._queued.pop(lane, ())
        self._in_queue -= len(items)
        return list(items)

    async def _write(self) -> None:
        try:
            while self._queued:
                lanes = self._next_lanes()
                self._writing = [each for lane in lanes for each in self._unqueue(lane)]
                left = await self._write_all()
                for lane in lanes:
                    lane.writing = 0
                self._writing = []
                self._requeue(left)
                if left or not lanes:
                    await self._clock.sleep(self.pause())
            self.well()  # nothing is to be written, so nothing is in trouble
        finally:
            self._writer = None

    def _next_lanes(self) -> list[ParkedLane]:
        """Whole lanes, as many as there is room for."""
        chosen: list[ParkedLane] = []
        rows, room = 0, self._most - self.lanes.rows
        for lane, queue in self._queued.items():
            count = len(queue)
            if lane.ending or rows + count > room or (rows and rows + count > AT_ONCE):
                continue
            lane.writing = count
            rows += count
            chosen.append(lane)
        return chosen

    async def _write_all(self) -> list[_Queued]:
        """One partition after the other, so that a newer owner of one is no matter to the others; what
        could not be written."""
        left: list[_Queued] = []
        for owned, items in by_owner(self._writing, lambda each: each[0].origin.owned).items():
            refused = left and self.trouble
            if refused or not await self._written(owned, items):
                left += items
        return left

    async def _written(self, owned: OwnedPartition, items: Sequence[_Queued]) -> bool:
        if not owned.holds():  # rule 5; a Revoked or Lost will say more
            return False
        try:
            rows = [self._row(*each) for each in items]
            await self._store.parked.park(rows, numbered=not self._lasting)
        except StaleOwner as error:
            owned.replaced(error)
            self._release(items)
        except StoreUnavailable as error:
            self.trouble = f"keys cannot be parked: {error}"
            return False
        else:
            for delivery, _ in items:
                self._stored(delivery)
        self.well()
        return True

    def _stored(self, delivery: Delivery) -> None:
        """It is a row now, and finished: also where its partition is being handed over."""
        self._part.release(delivery.size)
        delivery.origin.finish(delivery)
        self._attempts.parked()
        lane = None if delivery.origin.owned.lost else self.lanes.find(delivery.lane)
        if lane is not None:
            self.lanes.count(lane, 1)

    def _requeue(self, left: Sequence[_Queued]) -> None:
        """Before what came meanwhile."""
        for each in reversed(left):
            delivery = each[0]
            lane = None if delivery.origin.owned.lost else self.lanes.find(delivery.lane)
            if lane is None:
                self._release([each])
                continue
            self._queued.setdefault(lane, deque()).appendleft(each)
            self._in_queue += 1

    def _row(self, delivery: Delivery, due: float) -> Parked:
        now = self._clock.now()
        due_ms = int((now + due - self._clock.monotonic()) * 1000) if due else 0
        return Parked(
            subscription=self._subscription.id,
            broker=self._subscription.source.broker,
            message=delivery.message,
            lane=delivery.lane,
            steps=delivery.steps,
            attempts=delivery.attempts,
            due_ms=due_ms,
            cause=delivery.last.cause,
            detail=delivery.last.detail,
            at_ms=int(now * 1000),
            event=delivery.name,
        )
