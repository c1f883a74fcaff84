"""Where waits go: keys that cannot be delivered now become rows of the store (rules 4 and 5).

A lane parks in one step: from then on what arrives for it goes behind it. Its rows are written, head
and followers in one transaction, and only then are their messages finished. Rows of many lanes share
a transaction. No write is made of a partition whose
ownership is in doubt, and all of them carry its epoch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from app.delivery.parked_lanes import ParkedLane, ParkedLanes
from app.delivery.plan import SETTLE
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Clock, Parked, Store
from app.model.message import Message, Partition
from app.model.subscription import Subscription
from app.worker.intake import Held, Verdict, name_of
from app.worker.sweeping import Sweeper, by_partition, pause_after, replaced

AT_ONCE = 1_000  # rows of one transaction, but for a lane whose followers are more


class Parking:
    """Of one subscription.

    ``lasting``   whether a message has the same position when it is delivered again; where it has not,
                  the store numbers rows in the order in which they come.
    """

    def __init__(
        self,
        subscription: Subscription,
        store: Store,
        clock: Clock,
        jitter: Callable[[], float],
        *,
        lasting: bool,
    ) -> None:
        self._subscription = subscription
        self._store = store
        self._clock = clock
        self._jitter = jitter
        self._lasting = lasting
        self._stored: Callable[[Held], None] = lambda _: None
        self._passed_on: Callable[[Held], None] = lambda _: None
        self._full = False
        self._queued: dict[ParkedLane, None] = {}
        self._in_queue = 0
        self._writing: list[Held] = []
        self._tasks: asyncio.TaskGroup | None = None
        self._writer: asyncio.Task[None] | None = None
        self._holds: Callable[[Message], bool] = lambda _: False
        self.lanes = ParkedLanes()
        self.sweeper = Sweeper(store, clock, jitter, self.lanes)
        self._trouble = ""

    def begin(
        self,
        tasks: asyncio.TaskGroup,
        holds: Callable[[Message], bool],
        stored: Callable[[Held], None],
        passed_on: Callable[[Held], None],
    ) -> None:
        """Of a message that is held here no more are told: ``stored``, it is a row now, and finished;
        ``passed_on``, it concerns others."""
        self._tasks, self._holds = tasks, holds
        self._stored, self._passed_on = stored, passed_on
        self.sweeper.begin(tasks, holds)

    def end(self) -> None:
        self._tasks = None
        self.sweeper.end()
        if self._writer is not None:
            self._writer.cancel()

    @property
    def trouble(self) -> str:
        return self._trouble or self.sweeper.trouble

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
        bound = self._subscription.parked.max_rows
        self._full = self.kept >= (bound - bound // 8 if self._full else bound)
        return self._full

    @property
    def full_cause(self) -> str:
        if not self.full:
            return ""
        return f"{self.kept} events are parked: nothing more is taken until some are gone"

    def room(self, rows: int) -> bool:
        """Whether so many more may park: below the bound, and into a store that answers."""
        return not self._trouble and self.kept + rows <= self._subscription.parked.max_rows

    def busy(self, partitions: set[Partition]) -> bool:
        """Whether rows of these partitions are being written or deleted."""
        writing = any(held.message.partition in partitions for held in self._writing)
        return writing or self.sweeper.busy(partitions)

    def park(self, items: Sequence[Held], due: float, turn: int) -> None:
        """All that is held of a lane, the head first; that is tried again at ``due`` (monotonic)."""
        head = items[0]
        head.until = due
        self.lanes.park(head.lane, head.message.partition, due, turn)
        for held in items:
            self.follow(held)

    def follow(self, held: Held) -> None:
        """Behind the rows of its lane, which is parked."""
        lane = self.lanes.park(held.lane, held.message.partition, 0.0)
        if lane.queue is None:
            lane.queue = deque()
        lane.queue.append(held)
        self._in_queue += 1
        self._queued[lane] = None
        if self._writer is None and self._tasks is not None:
            name = f"{self._subscription.id} writer"
            self._writer = self._tasks.create_task(self._write(), name=name)

    async def defer(self, held: Held, due: float) -> None:
        """The row waits again, with the steps and attempts that it has now. StoreUnavailable,
        StaleOwner."""
        if held.row is not None:
            await self._store.parked.defer(
                replace(
                    self._row(held),
                    id=held.row.id,
                    message=held.message,
                    redriven=held.row.redriven,
                    at_ms=held.row.at_ms,
                    due_ms=self._wall_ms(due),
                )
            )

    def live(self, lane: ParkedLane) -> list[Held]:
        """The lane has no rows any more; what came meanwhile and is not written, in order."""
        self.lanes.live(lane)
        return self._unqueue(lane)

    def drop(self, partitions: set[Partition]) -> list[Held]:
        """Forget what concerns these partitions; what was to be written and now is not."""
        dropped: list[Held] = []
        for lane in self.lanes.drop(partitions):
            dropped += self._unqueue(lane)
        for lane in tuple(self._queued):  # of a lane that has places elsewhere
            items = self._unqueue(lane)
            dropped += [held for held in items if held.message.partition in partitions]
            for held in items:
                if held.message.partition not in partitions:
                    self.follow(held)
        for held in (*self._writing, *dropped):
            held.gone = held.gone or held.message.partition in partitions
        self.sweeper.drop(partitions)
        return dropped

    def _unqueue(self, lane: ParkedLane) -> list[Held]:
        self._queued.pop(lane, None)
        items = list(lane.queue or ())
        lane.queue = None
        self._in_queue -= len(items)
        return items

    async def _write(self) -> None:
        failures = 0
        try:
            while self._queued:
                lanes = self._next_lanes()
                self._writing = [held for lane in lanes for held in self._unqueue(lane)]
                left = await self._write_all()
                for lane in lanes:
                    lane.writing = 0
                self._writing = []
                self._requeue(left)
                failures = failures + 1 if self._trouble else 0
                if left or not lanes:
                    await self._clock.sleep(pause_after(failures, self._jitter))
            self._trouble = ""  # nothing is to be written, so nothing is in trouble
        finally:
            self._writer = None

    def _next_lanes(self) -> list[ParkedLane]:
        """Whole lanes, as many as there is room for."""
        chosen: list[ParkedLane] = []
        rows, room = 0, self._subscription.parked.max_rows - self.lanes.rows
        for lane in self._queued:
            count = len(lane.queue or ())
            if lane.ending or rows + count > room or (rows and rows + count > AT_ONCE):
                continue
            lane.writing = count
            rows += count
            chosen.append(lane)
        return chosen

    async def _write_all(self) -> list[Held]:
        """One partition after the other, so that a newer owner of one is no matter to the others; what
        could not be written."""
        left: list[Held] = []
        for partition, items in by_partition(self._writing).items():
            refused = left and self._trouble
            if refused or not await self._written(partition, items):
                left += items
        return left

    async def _written(self, partition: Partition, items: Sequence[Held]) -> bool:
        if not self._holds(items[0].message):  # rule 5; a Revoked or Lost will say more
            return False
        try:
            rows = [self._row(held) for held in items]
            await self._store.parked.park(rows, numbered=not self._lasting)
        except StaleOwner as error:
            replaced(partition, items, self._holds, error)
            for held in items:
                self._passed_on(held)
        except StoreUnavailable as error:
            self._trouble = f"keys cannot be parked: {error}"
            return False
        else:
            for held in items:
                self._stored(held)
                lane = None if held.gone else self.lanes.find(held.lane)
                if lane is not None:
                    self.lanes.count(lane, 1)
        self._trouble = ""
        return True

    def _requeue(self, left: Sequence[Held]) -> None:
        """Before what came meanwhile."""
        for held in reversed(left):
            lane = None if held.gone else self.lanes.find(held.lane)
            if lane is None:
                self._passed_on(held)
                continue
            lane.queue = lane.queue or deque()
            lane.queue.appendleft(held)
            self._in_queue += 1
            self._queued[lane] = None

    def _row(self, held: Held) -> Parked:
        """``until`` is that of the head; followers may be tried as soon as it is done with."""
        due_ms = self._wall_ms(held.until) if held.until else 0
        last = held.last or Verdict(SETTLE)
        return Parked(
            subscription=self._subscription.id,
            broker=self._subscription.source.broker,
            message=held.message,
            lane=held.lane,
            steps=held.steps,
            attempts=held.attempts,
            due_ms=due_ms,
            cause=last.cause,
            detail=last.detail,
            at_ms=int(self._clock.now() * 1000),
            event=name_of(held),
        )

    def _wall_ms(self, moment: float) -> int:
        return int((self._clock.now() + moment - self._clock.monotonic()) * 1000)
