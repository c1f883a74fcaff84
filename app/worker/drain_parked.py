"""What waits in the store, on its way out again: parked lanes whose head is due.

A parked lane is drained in turns: its head alone, then a page of what follows, then it is others' turn.
Rows go through the same lanes, courier, attempt log and dead letters as live messages do. Behind the
last row the lane is asked once more, with nothing being written or deleted, and is live in the step
that finds it empty (rule 5).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from app.delivery.parked_lanes import START, ParkedLane
from app.errors import StoreUnavailable
from app.interfaces import Clock, Parked, Store
from app.model.message import Partition
from app.model.subscription import Subscription
from app.worker.courier import Courier
from app.worker.intake import Held, Intake
from app.worker.parking import Parking
from app.worker.redriven import Redriven
from app.worker.sweeping import pause_after
from app.worker.timing import Timekeeper

PAGE = 10  # rows of one lane at a time: they may be large, and many lanes are drained at once
PAGE_BYTES = 2**18  # and no more than these, but for one that is larger
AGAIN = 0.05  # seconds until a lane that is being written is asked again
AT_A_TIME = 10_000  # lanes noted before others have the loop

_log = logging.getLogger("skybridge.worker")


class Page:
    """Rows of one lane that are held together. ``deferred``: when the lane is to be tried again, if one
    of them went back to the store."""

    def __init__(self, lane: ParkedLane, rows: int) -> None:
        self._lane = lane
        self._left = rows
        self.over = asyncio.Event()
        self.deferred = 0.0

    def landed(self, held: Held) -> None:
        self._left -= 1
        self._lane.open -= not held.done  # else when its row is gone
        self.deferred = max(self.deferred, held.until)
        if not self._left:
            self.over.set()


class Drain:
    """Of one subscription."""

    def __init__(
        self,
        subscription: Subscription,
        store: Store,
        clock: Clock,
        intake: Intake,
        courier: Courier,
        parking: Parking,
        timekeeper: Timekeeper,
        jitter: Callable[[], float],
    ) -> None:
        self._subscription = subscription
        self._broker = subscription.source.broker
        self._most = 2 * subscription.concurrency  # lanes at a time
        self._rows = store.parked
        self._clock = clock
        self._intake = intake
        self._courier = courier
        self._parking = parking
        self._timekeeper = timekeeper
        self._jitter = jitter
        self._epochs: dict[Partition, int] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._turns: set[asyncio.Task[None]] = set()
        self._probing: ParkedLane | None = None
        self._failures = 0
        self._trouble = ""
        self._redriven = Redriven(
            subscription,
            store,
            clock,
            courier,
            parking,
            timekeeper,
            self._held,
            lambda: self._epochs,
        )

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def end(self) -> None:
        self._tasks = None
        self._redriven.end()
        for turn in self._turns:
            turn.cancel()

    @property
    def trouble(self) -> str:
        return self._trouble or self._redriven.trouble

    @property
    def epochs(self) -> Mapping[Partition, int]:
        """Of the partitions that are ours and loaded."""
        return self._epochs

    async def load(self, partitions: Collection[Partition], epoch: int) -> None:
        """Which lanes of these partitions are parked, before anything of them is delivered (rule 5).
        StoreUnavailable: it is not known, and nothing may be."""
        found = await self._rows.lanes(self._subscription.id, self._broker, partitions)
        now, wall_ms = self._clock.monotonic(), self._clock.now() * 1000
        noted = 0
        for partition, lanes in found.items():
            for key, lane in lanes.items():
                due = now + (lane.due_ms - wall_ms) / 1000
                self._parking.lanes.count(self._parking.lanes.park(key, partition, due), lane.rows)
                noted += 1
                if noted % AT_A_TIME == 0:
                    await asyncio.sleep(0)
        self._epochs.update(dict.fromkeys(partitions, epoch))
        self.look()

    def drop(self, partitions: set[Partition]) -> None:
        """They are others' now."""
        for partition in partitions:
            self._epochs.pop(partition, None)

    def look(self) -> None:
        """The store changed: there may be redriven rows."""
        self._redriven.look()

    def act(self, now: float) -> float | None:
        """Begin what is due now, and when something is next. Nothing is while the endpoint is at fault
        (rule 6)."""
        if not self._courier.flows or self._tasks is None or not self._epochs:
            return None
        lanes = self._parking.lanes
        while self._has_room() and (lane := lanes.take_due(now)) is not None:
            self._start(lane)
        moments = (
            lanes.next_due() if self._has_room() else None,
            self._redriven.act(now, self._tasks),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def probe(self, lane: ParkedLane) -> None:
        """The head of this lane is what the endpoint is tried with (rule 6)."""
        self._probing = self._parking.lanes.take_this(lane)
        self._start(lane)

    def _has_room(self) -> bool:
        """One lane at a time at least: what is parked must not wait for what is held, which may be
        waiting for it."""
        return not self._turns or (len(self._turns) < self._most and self._courier.may_hold)

    def _start(self, lane: ParkedLane) -> None:
        if self._tasks is not None:
            turn = self._tasks.create_task(self._turn(lane), name=f"{self._subscription.id} drain")
            self._turns.add(turn)
            turn.add_done_callback(self._turns.discard)

    async def _turn(self, lane: ParkedLane) -> None:
        try:
            await self._drain(lane)
        except StoreUnavailable as error:
            self._failures += 1
            self._trouble = f"parked events cannot be read: {error}"
            due = self._clock.monotonic() + pause_after(self._failures, self._jitter)
            self._parking.lanes.wait(lane, due, self._courier.lanes.next_turn())
        else:
            self._failures, self._trouble = 0, ""
        if self._probing is lane:  # there was nothing to try it with
            self._probing = None
            self._courier.no_probe()
        self._timekeeper.soon()

    async def _drain(self, lane: ParkedLane) -> None:
        if lane.after == START:
            await self._swept(lane)  # else what was delivered a moment ago would be read again
        for most in (1, PAGE):
            held = [] if lane.gone else await self._read(lane, most)
            if not held:
                await self._end(lane)
                return
            page = self._hand_over(lane, held)
            await page.over.wait()
            if page.deferred:
                lane.after = START
                self._parking.lanes.wait(lane, page.deferred, self._courier.lanes.next_turn())
                return
        self._again(lane, 0.0)

    def _hand_over(self, lane: ParkedLane, rows: Sequence[Held]) -> Page:
        page = Page(lane, len(rows))
        lane.open += len(rows)
        for held in rows:
            held.parked, held.landed = lane, page.landed
            self._courier.add(held)
        if self._probing is lane:
            self._probing = None
            if not self._courier.probe(lane.key):
                self._courier.no_probe()
        self._courier.wake()
        return page

    async def _read(self, lane: ParkedLane, most: int) -> list[Held]:
        while lane.open > PAGE and not lane.gone:
            await self._left()
        place = lane.places[0]
        rows = await self._rows.rows(
            self._subscription.id, self._broker, place, lane.key, after=lane.after, limit=most
        )
        if lane.gone or not rows or lane.places[0] != place or place not in self._epochs:
            return []
        page = self._page(rows)
        lane.after = page[-1].message.offset
        return page

    async def _end(self, lane: ParkedLane) -> None:
        """Nothing was found behind the last row: live it is, unless something is there after all."""
        await self._swept(lane)
        if lane.writing:
            self._again(lane, AGAIN)
            return
        lane.ending = True
        try:
            place = await self._place_with_rows(lane)
        finally:
            lane.ending = False
        if place is not None:
            lane.after = START
            lane.places = (place, *(each for each in lane.places if each != place))
            self._again(lane, 0.0)
        elif not lane.gone:
            for held in self._parking.live(lane):
                self._courier.lanes.add(held.lane, held)
            self._courier.wake()

    async def _place_with_rows(self, lane: ParkedLane) -> Partition | None:
        for place in lane.places:
            rows = await self._rows.rows(
                self._subscription.id, self._broker, place, lane.key, after=START, limit=1
            )
            if rows and place in lane.places:  # else it went meanwhile
                return place
        return None

    async def _swept(self, lane: ParkedLane) -> None:
        """Until the rows of this lane that were delivered are gone."""
        while lane.open and not lane.gone:
            await self._left()

    async def _left(self) -> None:
        self._parking.sweeper.left.clear()
        await self._parking.sweeper.left.wait()

    def _again(self, lane: ParkedLane, pause: float) -> None:
        self._parking.lanes.wait(lane, self._clock.monotonic() + pause, lane.since)

    def _page(self, rows: Sequence[Parked]) -> list[Held]:
        """As many of them as may be held; the others are read again."""
        page: list[Held] = []
        size = 0
        for row in rows:
            held = self._held(row)
            size += held.size
            if page and size > PAGE_BYTES:
                break
            page.append(held)
        return page

    def _held(self, row: Parked) -> Held:
        """Under the present epoch, whatever it was stored under."""
        epoch = self._epochs[row.message.partition]
        message = replace(row.message, epoch=epoch)
        return self._intake.read_back(replace(row, message=message))
