"""Deliver parked lanes: keys whose events wait in the store. A lane is drained once its first event is due. It is drained in turns: the first event alone, then a page of
rows, then other lanes have their turn. Rows use the same lanes,
scheduler, attempt log and dead letters as live messages. After the last row, the store is asked once more while
nothing is written or deleted. If it has no row, the lane becomes live in the same step."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app.delivery.endpoint import BreakerState
from app.delivery.parked_lanes import START, ParkedLanes, ParkedLaneState
from app.errors import StoreUnavailable
from app.interfaces import Parked
from app.model.message import Partition
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.gate import EndpointState
from app.worker.owned_partition import OwnedPartition
from app.worker.parking import KeyParking
from app.worker.scheduler import Scheduler
from app.worker.shared import LEASE_RECHECK, DispatcherContext, DispatcherPart
from app.worker.stored_rows import StoredRow, StoredRows

PAGE = (
    10  # rows of one lane at a time, because rows may be large and many lanes are drained at once
)
PAGE_BYTES = 2**18  # bytes of one page; a larger row is a page of its own
AGAIN = 0.05  # seconds until a lane with unwritten rows is drained again
AT_A_TIME = 10_000  # lanes that are loaded before the event loop gets a turn


class RowPage:
    """Rows of one parked key (its lane) that are held in memory together.

    ``over`` is set when all rows are closed. ``deferred`` is the due time (monotonic seconds) of a row that
    returned to the store, else 0."""

    def __init__(self, lane: ParkedLaneState, lanes: ParkedLanes) -> None:
        self._lane = lane
        self._lanes = lanes
        self._remaining = 0
        self.over = asyncio.Event()
        self.deferred = 0.0

    def begin(self, rows: int) -> None:
        """Count the rows of the page before they are queued."""
        self._remaining = rows
        self._lane.open += rows

    def row_closed(self, row: Parked, *, done: bool, due: float = 0.0) -> None:  # noqa: ARG002
        """Count a row that is no longer held in memory. The last such row ends the page."""
        self._remaining -= 1
        self._lane.open -= not done  # a finished row counts until it is deleted
        self.deferred = max(self.deferred, due)
        if not self._remaining:
            self.over.set()

    def row_deleted(self, row: Parked) -> None:  # noqa: ARG002 - rows are only counted
        """Count down the rows of the key."""
        self._lane.open -= 1
        self._lanes.count(self._lane, -1)


@dataclass(eq=False, repr=False)
class ParkedDrain(DispatcherPart):
    """Delivers the parked keys (lanes) of one subscription from the partitions that this process owns.

    ``_ready`` are the owned partitions that may be delivered from."""

    _reader: DeliveryReader
    _scheduler: Scheduler
    _gate: EndpointState
    _parking: KeyParking
    _rows: StoredRows
    _ready: Mapping[Partition, OwnedPartition]

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._broker = shared.subscription.source.broker
        self._most = 2 * shared.subscription.concurrency  # lanes that are drained at once
        self._parked = shared.store.parked
        self._turns: set[asyncio.Task[None]] = set()
        self._probing: ParkedLaneState | None = None

    async def load(self, partitions: Collection[Partition]) -> None:
        """Load the parked keys (lanes) of these partitions, before any message of them is delivered.

        Raises:
            StoreUnavailable: the parked keys are unknown, so nothing may be delivered.
        """
        found = await self._parked.lanes(self._subscription.id, self._broker, partitions)
        now, wall_ms = self._clock.monotonic(), self._store.clock.now() * 1000
        noted = 0
        for partition, lanes in found.items():
            for key, lane in lanes.items():
                due = now + (lane.due_ms - wall_ms) / 1000
                self._parking.lanes.count(self._parking.lanes.park(key, partition, due), lane.rows)
                noted += 1
                if noted % AT_A_TIME == 0:
                    await asyncio.sleep(0)

    def act(self, now: float) -> float | None:
        """Start to deliver the parked keys (lanes) that are due at ``now``. Return when the next key is due, or
        None.

        Nothing is drained while the endpoint is at fault."""
        if not self._gate.is_open or not self._ready:
            return None
        lanes = self._parking.lanes
        while self._has_room() and (lane := lanes.take_due(now)) is not None:
            self._start(lane)
        return lanes.next_due() if self._has_room() else None

    def probe_if_due(self, now: float) -> float | None:
        """Probe a paused endpoint whose pause is over. Return the end of the pause if it is in the future, else
        None."""
        endpoint = self._gate.endpoint
        if self._gate.halted or endpoint.flow is not BreakerState.PAUSED:
            return None
        if now < endpoint.until:
            return endpoint.until
        if not self._scheduler.rate_limited() and endpoint.probe_if_due(now):
            self._probe(now)
        return endpoint.until if endpoint.until > now else None

    def _probe(self, now: float) -> None:
        """Probe the endpoint with the delivery that was tried longest ago, in memory or parked."""
        lanes, endpoint = self._scheduler.lanes, self._gate.endpoint
        untried = lanes.oldest(lambda head: not head.attempts) if endpoint.doubtful else None
        lane, parked = untried or lanes.oldest(), self._parking.lanes.oldest()
        if not untried and parked is not None and (lane is None or parked.since < lane.since):
            self._probing = self._parking.lanes.take_lane(parked)
            self._start(parked)
        elif lane is not None:
            self._scheduler.probe(lane)
        elif lanes.held:  # all held deliveries are in flight
            self._gate.nothing_sent(now + LEASE_RECHECK)
        else:
            endpoint.nothing_to_probe()
            self._scheduler.wake()

    def _has_room(self) -> bool:
        """Return True if another parked key (lane) may be drained. One key always may, because held deliveries can
        wait for its parked events."""
        return not self._turns or (len(self._turns) < self._most and self._budget.may_hold())

    def _start(self, lane: ParkedLaneState) -> None:
        turn = self._scope.spawn(self._run_turn(lane), f"{self._subscription.id} drain")
        if turn is not None:
            self._turns.add(turn)
            turn.add_done_callback(self._turns.discard)

    async def _run_turn(self, lane: ParkedLaneState) -> None:
        try:
            await self._drain(lane)
        except StoreUnavailable as error:
            self.trouble = f"parked events cannot be read: {error}"
            due = self._clock.monotonic() + self.retry_delay()
            self._parking.lanes.wait(lane, due, self._scheduler.lanes.next_turn())
        else:
            self.clear_trouble()
        if self._probing is lane:  # the lane had no row for the probe
            self._probing = None
            self._scheduler.no_probe()
        self._timekeeper.wake_now()

    async def _drain(self, lane: ParkedLaneState) -> None:
        if lane.after == START:
            # else rows that were just delivered would be read again
            await self._wait_until_deleted(lane)
        for most in (1, PAGE):
            page = None if lane.gone else await self._read_page(lane, most)
            if page is None:
                await self._finish_lane(lane)
                return
            await page.over.wait()
            if page.deferred:
                lane.after = START
                self._parking.lanes.wait(lane, page.deferred, self._scheduler.lanes.next_turn())
                return
        self._requeue(lane, 0.0)

    async def _read_page(self, lane: ParkedLaneState, most: int) -> RowPage | None:
        """Read and queue the next rows of a parked key (its lane). Return None if there are none or the partition
        was lost."""
        while lane.open > PAGE and not lane.gone:
            await self._wait_for_deletion()
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

    def _send(
        self, lane: ParkedLaneState, rows: Sequence[Parked], owned: OwnedPartition
    ) -> RowPage:
        """Queue as many rows as may be held together and return their page. The other rows are read again later."""
        page, size = RowPage(lane, self._parking.lanes), 0
        sent: list[Delivery] = []
        for row in rows:
            delivery = self._reader.read_back(row, StoredRow(row, owned, self._rows, page))
            size += delivery.size
            if sent and size > PAGE_BYTES:
                break
            sent.append(delivery)
        sent[0].earlier_due, lane.earlier_due = lane.earlier_due, None
        lane.after = sent[-1].message.offset
        page.begin(len(sent))
        for delivery in sent:
            self._scheduler.add(delivery)
        if self._probing is lane:
            self._probing = None
            self._scheduler.probe_parked(lane.key)
        self._scheduler.wake()
        return page

    async def _finish_lane(self, lane: ParkedLaneState) -> None:
        """Make the key (lane) live if the store has no more rows of it, else continue to drain it."""
        await self._wait_until_deleted(lane)
        if lane.writing:
            self._requeue(lane, AGAIN)
            return
        lane.ending = True
        try:
            place = await self._place_with_rows(lane)
        finally:
            lane.ending = False
        if place is not None:
            lane.after = START
            lane.places = (place, *(each for each in lane.places if each != place))
            self._requeue(lane, 0.0)
        elif not lane.gone:
            for delivery in self._parking.make_live(lane):
                self._scheduler.lanes.add(delivery.lane, delivery)
            self._scheduler.wake()

    async def _place_with_rows(self, lane: ParkedLaneState) -> Partition | None:
        for place in lane.places:
            rows = await self._parked.rows(
                self._subscription.id, self._broker, place, lane.key, after=START, limit=1
            )
            if rows and place in lane.places:  # else the partition was lost meanwhile
                return place
        return None

    async def _wait_until_deleted(self, lane: ParkedLaneState) -> None:
        """Wait until the delivered rows of this key (its lane) are gone from the store."""
        while lane.open and not lane.gone:
            await self._wait_for_deletion()

    async def _wait_for_deletion(self) -> None:
        self._rows.deleted.clear()
        await self._rows.deleted.wait()

    def _requeue(self, lane: ParkedLaneState, pause: float) -> None:
        self._parking.lanes.wait(lane, self._clock.monotonic() + pause, lane.since)
