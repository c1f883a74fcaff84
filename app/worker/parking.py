"""Park keys: store the events of a key that cannot be delivered now as rows.

All events of a key (its lane) are parked in one step; from then on new events of the key are queued after its rows.
The first event and its followers are written in one transaction, and only then are their messages finished. Rows of
many keys share a transaction. Every write has the epoch of the partition, and no write is made while the ownership
is in doubt."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from app.delivery.lanes import Lanes
from app.delivery.parked_lanes import ParkedLanes, ParkedLaneState
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Parked
from app.model.message import Partition
from app.worker.delivery import Delivery
from app.worker.owned_partition import OwnedPartition, group_by_ownership
from app.worker.shared import DispatcherContext, DispatcherPart

AT_ONCE = 1_000  # rows of one transaction; a lane with more is written whole

_Queued = tuple[
    Delivery, float
]  # with the due time of its row (monotonic s); 0.0: after another row


@dataclass(eq=False, repr=False)
class KeyParking(DispatcherPart):
    """Writes the rows of parked keys of one subscription.

    ``lanes`` are the parked keys; ``_live`` are the keys with events in memory. ``_lasting`` is True if a message
    has the same position when it is delivered again. Otherwise the store numbers the rows in their order of
    arrival."""

    _live: Lanes[Delivery]
    _lasting: bool

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._most = shared.subscription.parked.max_rows
        self._full = False
        self._queued: dict[ParkedLaneState, deque[_Queued]] = {}  # rows to write
        self._in_queue = 0
        self._writing: list[_Queued] = []
        self._writer: asyncio.Task[None] | None = None
        self.lanes = ParkedLanes()

    @property
    def row_count(self) -> int:
        """Return the number of rows in the store, including those being written."""
        return self.lanes.rows + self.unwritten

    @property
    def unwritten(self) -> int:
        """Return the number of messages whose rows are not stored yet."""
        return self._in_queue + len(self._writing)

    @property
    def full(self) -> bool:
        """Return True if no more messages should be read. Once full, an eighth of the bound must become free."""
        self._full = self.row_count >= (self._most - self._most // 8 if self._full else self._most)
        return self._full

    @property
    def full_cause(self) -> str:
        """Return why the store has no room for more parked events, or "" if it has room."""
        if not self.full:
            return ""
        return f"{self.row_count} events are parked: no more messages are read until some are delivered or discarded"

    def has_room(self, rows: int) -> bool:
        """Return True if the store works and has room for this number of additional rows."""
        return not self.trouble and self.row_count + rows <= self._most

    def busy_with(self, partitions: set[Partition]) -> bool:
        """Return True if rows of these partitions are being written."""
        return any(each.message.partition in partitions for each, _ in self._writing)

    def add(self, delivery: Delivery, due: float = 0.0) -> None:
        """Queue a delivery after the rows of its key. If the key is not parked, park it now; its first row is due
        at ``due``."""
        place = delivery.message.partition
        known = self.lanes.find(delivery.lane) is not None
        lane = self.lanes.park(delivery.lane, place, due, 0 if known else self._live.next_turn())
        self._queue(lane, delivery, 0.0 if known else due)

    def make_live(self, lane: ParkedLaneState) -> list[Delivery]:
        """Mark a key (lane) without rows as live, and return its events that were queued but not written, in order."""
        self.lanes.make_live(lane)
        return [delivery for delivery, _ in self._unqueue(lane)]

    def drop(self, partitions: set[Partition]) -> None:
        """Drop the parked keys and the unwritten events of partitions that this process no longer owns."""
        for lane in self.lanes.drop(partitions):
            self._release(self._unqueue(lane))
        for lane in tuple(self._queued):  # a lane with rows in other partitions stays
            items = self._unqueue(lane)
            self._release([each for each in items if each[0].message.partition in partitions])
            for delivery, due in items:
                if delivery.message.partition not in partitions:
                    self._queue(lane, delivery, due)

    def _release(self, items: Sequence[_Queued]) -> None:
        for delivery, _ in items:
            self._budget.release(delivery.size)
            delivery.origin.release(delivery)

    def _queue(self, lane: ParkedLaneState, delivery: Delivery, due: float) -> None:
        self._queued.setdefault(lane, deque()).append((delivery, due))
        self._in_queue += 1
        if self._writer is None:
            self._writer = self._scope.spawn(self._write(), f"{self._subscription.id} writer")

    def _unqueue(self, lane: ParkedLaneState) -> list[_Queued]:
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
                    await self._clock.sleep(self.retry_delay())
            self.clear_trouble()  # no row is left to write
        finally:
            self._writer = None

    def _next_lanes(self) -> list[ParkedLaneState]:
        """Return whole keys (lanes) to write, as many as the row bound and one transaction allow."""
        chosen: list[ParkedLaneState] = []
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
        """Write the rows partition by partition, so that a stale epoch affects one partition only. Return the
        unwritten rows."""
        left: list[_Queued] = []
        for owned, items in group_by_ownership(
            self._writing, lambda each: each[0].origin.owned
        ).items():
            refused = left and self.trouble
            if refused or not await self._written(owned, items):
                left += items
        return left

    async def _written(self, owned: OwnedPartition, items: Sequence[_Queued]) -> bool:
        if not owned.holds():  # the lease is in doubt; a Revoked or Lost may follow
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
        self.clear_trouble()
        return True

    def _stored(self, delivery: Delivery) -> None:
        """Finish the message of a stored row, also while its partition is being handed over."""
        self._budget.release(delivery.size)
        delivery.origin.finish(delivery)
        self._attempts.count_parked()
        lane = None if delivery.origin.owned.lost else self.lanes.find(delivery.lane)
        if lane is not None:
            self.lanes.count(lane, 1)

    def _requeue(self, left: Sequence[_Queued]) -> None:
        """Return unwritten rows to the front of their queues."""
        for each in reversed(left):
            delivery = each[0]
            lane = None if delivery.origin.owned.lost else self.lanes.find(delivery.lane)
            if lane is None:
                self._release([each])
                continue
            self._queued.setdefault(lane, deque()).appendleft(each)
            self._in_queue += 1

    def _row(self, delivery: Delivery, due: float) -> Parked:
        now = self._store.clock.now()
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
