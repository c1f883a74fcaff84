"""What waits in the store, on its way out again: parked lanes whose head is due.

A parked lane is drained in turns: its head alone, then a page of what follows, then it is others' turn.
Rows go through the same lanes, scheduler, attempt log and dead letters as live messages do. Behind the
last row the lane is asked once more, with nothing being written or deleted, and is live in the step
that finds it empty (rule 5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app.delivery.endpoint import BreakerState
from app.delivery.parked_lanes import START, ParkedLane, ParkedLanes
from app.errors import StoreUnavailable
from app.interfaces import Parked
from app.model.message import Partition
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.gate import Gate
from app.worker.owned_partition import OwnedPartition
from app.worker.parking import Parking
from app.worker.scheduler import Scheduler
from app.worker.shared import LEASE_RECHECK, DispatcherPart, Shared
from app.worker.stored_rows import StoredRow, StoredRows

PAGE = 10  # rows of one lane at a time: they may be large, and many lanes are drained at once
PAGE_BYTES = 2**18  # and no more than these, but for one that is larger
AGAIN = 0.05  # seconds until a lane that is being written is asked again
AT_A_TIME = 10_000  # lanes noted before others have the loop


class Page:
    """Rows of one lane that are held together. ``deferred``: when the lane is to be tried again, if one
    of them went back to the store."""

    def __init__(self, lane: ParkedLane, lanes: ParkedLanes) -> None:
        self._lane = lane
        self._lanes = lanes
        self._left = 0
        self.over = asyncio.Event()
        self.deferred = 0.0

    def begin(self, rows: int) -> None:
        self._left = rows
        self._lane.open += rows

    def landed(self, row: Parked, *, done: bool, due: float = 0.0) -> None:  # noqa: ARG002
        self._left -= 1
        self._lane.open -= not done  # else when its row is gone
        self.deferred = max(self.deferred, due)
        if not self._left:
            self.over.set()

    def left(self, row: Parked) -> None:  # noqa: ARG002 - one is as good as another
        self._lane.open -= 1
        self._lanes.count(self._lane, -1)


@dataclass(eq=False, repr=False)
class Drain(DispatcherPart):
    """``ready``: the partitions that are ours and loaded."""

    _reader: DeliveryReader
    _scheduler: Scheduler
    _gate: Gate
    _parking: Parking
    _rows: StoredRows
    _ready: Mapping[Partition, OwnedPartition]

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        self._broker = shared.subscription.source.broker
        self._most = 2 * shared.subscription.concurrency  # lanes at a time
        self._parked = shared.store.parked
        self._turns: set[asyncio.Task[None]] = set()
        self._probing: ParkedLane | None = None

    async def load(self, partitions: Collection[Partition]) -> None:
        """Which lanes of these partitions are parked, before anything of them is delivered (rule 5).
        StoreUnavailable: it is not known, and nothing may be."""
        found = await self._parked.lanes(self._subscription.id, self._broker, partitions)
        now, wall_ms = self._clock.monotonic(), self._clock.now() * 1000
        noted = 0
        for partition, lanes in found.items():
            for key, lane in lanes.items():
                due = now + (lane.due_ms - wall_ms) / 1000
                self._parking.lanes.count(self._parking.lanes.park(key, partition, due), lane.rows)
                noted += 1
                if noted % AT_A_TIME == 0:
                    await asyncio.sleep(0)

    def act(self, now: float) -> float | None:
        """Begin what is due now, and when something is next. Nothing is while the endpoint is at fault
        (rule 6)."""
        if not self._gate.is_open or not self._ready:
            return None
        lanes = self._parking.lanes
        while self._has_room() and (lane := lanes.take_due(now)) is not None:
            self._start(lane)
        return lanes.next_due() if self._has_room() else None

    def probe_if_due(self, now: float) -> float | None:
        """A paused endpoint is tried once its pause is over (rule 6); when that is, if not now."""
        endpoint = self._gate.endpoint
        if self._gate.halted or endpoint.flow is not BreakerState.PAUSED:
            return None
        if now < endpoint.until:
            return endpoint.until
        if not self._scheduler.paced() and endpoint.probe_if_due(now):
            self._probe(now)
        return endpoint.until if endpoint.until > now else None

    def _probe(self, now: float) -> None:
        """With one delivery, in memory or parked: the one tried longest ago."""
        lanes, endpoint = self._scheduler.lanes, self._gate.endpoint
        untried = lanes.oldest(lambda head: not head.attempts) if endpoint.doubtful else None
        lane, parked = untried or lanes.oldest(), self._parking.lanes.oldest()
        if not untried and parked is not None and (lane is None or parked.since < lane.since):
            self._probing = self._parking.lanes.take_this(parked)
            self._start(parked)
        elif lane is not None:
            self._scheduler.probe(lane)
        elif lanes.held:  # all of it is still on the wire
            self._gate.nothing_sent(now + LEASE_RECHECK)
        else:
            endpoint.nothing_to_probe()
            self._scheduler.wake()

    def _has_room(self) -> bool:
        """One lane at a time at least: what is parked must not wait for what is held, which may be
        waiting for it."""
        return not self._turns or (len(self._turns) < self._most and self._part.may_hold())

    def _start(self, lane: ParkedLane) -> None:
        turn = self._scope.spawn(self._turn(lane), f"{self._subscription.id} drain")
        if turn is not None:
            self._turns.add(turn)
            turn.add_done_callback(self._turns.discard)

    async def _turn(self, lane: ParkedLane) -> None:
        try:
            await self._drain(lane)
        except StoreUnavailable as error:
            self.trouble = f"parked events cannot be read: {error}"
            due = self._clock.monotonic() + self.pause()
            self._parking.lanes.wait(lane, due, self._scheduler.lanes.next_turn())
        else:
            self.well()
        if self._probing is lane:  # there was nothing to try it with
            self._probing = None
            self._scheduler.no_probe()
        self._timekeeper.soon()

    async def _drain(self, lane: ParkedLane) -> None:
        if lane.after == START:
            await self._swept(lane)  # else what was delivered a moment ago would be read again
        for most in (1, PAGE):
            page = None if lane.gone else await self._read(lane, most)
            if page is None:
                await self._end(lane)
                return
            await page.over.wait()
            if page.deferred:
                lane.after = START
                self._parking.lanes.wait(lane, page.deferred, self._scheduler.lanes.next_turn())
                return
        self._again(lane, 0.0)

    async def _read(self, lane: ParkedLane, most: int) -> Page | None:
        """Some rows on their way; None: none are left."""
        while lane.open > PAGE and not lane.gone:
            await self._left()
        place = lane.places[0]
        owned = self._ready.get(place)
        if owned is None:
            return None
        rows = await self._parked.rows(
            self._subscription.id,
            self._broker,
            place,
            lane.key,
            after=lane.after,
            limit=most,
            epoch=owned.epoch,
        )
        if lane.gone or not rows or lane.places[0] != place or self._ready.get(place) is not owned:
            return None
        return self._send(lane, rows, owned)

    def _send(self, lane: ParkedLane, rows: Sequence[Parked], owned: OwnedPartition) -> Page:
        """As many of them as may be held together; the others are read again."""
        page, size = Page(lane, self._parking.lanes), 0
        sent: list[Delivery] = []
        for row in rows:
            delivery = self._reader.read_back(row, StoredRow(row, owned, self._rows, page))
            size += delivery.size
            if sent and size > PAGE_BYTES:
                break
            sent.append(delivery)
        lane.after = sent[-1].message.offset
        page.begin(len(sent))
        for delivery in sent:
            self._scheduler.add(delivery)
        if self._probing is lane:
            self._probing = None
            self._scheduler.probe_parked(lane.key)
        self._scheduler.wake()
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
            for delivery in self._parking.live(lane):
                self._scheduler.lanes.add(delivery.lane, delivery)
            self._scheduler.wake()

    async def _place_with_rows(self, lane: ParkedLane) -> Partition | None:
        for place in lane.places:
            rows = await self._parked.rows(
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
        self._rows.left.clear()
        await self._rows.left.wait()

    def _again(self, lane: ParkedLane, pause: float) -> None:
        self._parking.lanes.wait(lane, self._clock.monotonic() + pause, lane.since)
