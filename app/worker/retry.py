"""Try waiting events before they are due, because an operator requested it (``:retry``).

The parts of the dispatcher send as always: the breaker probes first, and the slow start bounds what follows. This
module only ends waits. It notes the earlier due time at the head of each lane, which a failed try restores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.delivery.endpoint import BreakerState
from app.delivery.lane_id import order_value
from app.delivery.lanes import Lane, Lanes
from app.interfaces import RetryRequest, RetryResult
from app.model.message import Partition
from app.worker.delivery import SETTLED, Delivery
from app.worker.gate import EndpointState
from app.worker.owned_partition import OwnedPartition
from app.worker.parking import KeyParking
from app.worker.redrive import Redrive
from app.worker.shared import DispatcherPart

KEYS = 1_000  # keys of redriven rows that are counted
AT_A_TIME = 10_000  # lanes before the event loop gets a turn

LaneChoice = Callable[[bytes], bool]
"""A function that returns True for the id of a wanted lane."""


@dataclass(eq=False, repr=False)
class RetryNow(DispatcherPart):
    """Ends the waits of lanes, parked lanes, redriven rows and the endpoint of one subscription.

    ``_ready`` are the owned partitions that may be delivered from."""

    _lanes: Lanes[Delivery]
    _gate: EndpointState
    _parking: KeyParking
    _redrive: Redrive
    _ready: Mapping[Partition, OwnedPartition]

    async def run(self, request: RetryRequest) -> RetryResult:
        """End the waits that the request selects, and return how many keys waited.

        Raises:
            StoreUnavailable: the store could not be read, so nothing was changed.
        """
        wanted = await self._choice(request)
        found = await self._redriven_lanes(wanted)
        if self._gate.halted:
            return RetryResult()
        first = request.selects
        found |= self._retry_lanes(wanted, first=first)
        found |= await self._retry_parked(wanted, first=first)
        self._redrive.retry(wanted)
        if first and not found:
            return RetryResult()
        return self._retry_endpoint(len(found), request)

    async def _choice(self, request: RetryRequest) -> LaneChoice:
        """Return the function that selects the lanes of the request."""
        key = None if request.key is None else request.key.encode("utf-8", "surrogatepass")
        lanes = None if request.event is None else await self._lanes_of(request.event)

        def wanted(lane: bytes) -> bool:
            return (key is None or order_value(lane) == key) and (lanes is None or lane in lanes)

        return wanted

    async def _lanes_of(self, event: str) -> set[bytes]:
        """Return the lanes that hold an event with this id, in the store or in memory."""
        rows = await self._store.parked.find(self._subscription.id, event_id=event)
        return {row.lane for row in rows} | {
            each.lane for items in self._lanes.queues() for each in items if each.name.id == event
        }

    async def _redriven_lanes(self, wanted: LaneChoice) -> set[bytes]:
        """Return the wanted lanes of redriven rows that wait for another attempt."""
        keys = await self._store.parked.keys(self._subscription.id, KEYS)
        oldest = [each.oldest for each in keys if each.redriven]
        return {
            row.lane
            for row in oldest
            if row.attempts and row.message.partition in self._ready and wanted(row.lane)
        }

    def _retry_lanes(self, wanted: LaneChoice, *, first: bool) -> set[bytes]:
        """Let the waiting lanes in memory be ready. Return the wanted lanes whose head has failed."""
        found = set()
        for lane in self._lanes.all():
            head = lane.head
            if not wanted(head.lane):
                continue
            if first or head.last is not SETTLED:
                found.add(head.lane)
            self._retry_lane(lane, first=first)
        return found

    def _retry_lane(self, lane: Lane[Delivery], *, first: bool) -> None:
        """End the wait of a lane, unless its head waits for the store. If its head is in flight, perhaps to a target
        that hung, the next try is due when this one fails."""
        head, until = lane.head, lane.until
        if head.store_pending:
            return
        head.retry_requested = self._lanes.find(lane.key) is None
        if self._lanes.retry(lane, first=first):
            head.earlier_due = until

    async def _retry_parked(self, wanted: LaneChoice, *, first: bool) -> set[bytes]:
        """Let the wanted parked lanes be due, and return them."""
        found, lanes = set(), self._parking.lanes
        for number, lane in enumerate(tuple(lanes), 1):
            if not lane.gone and wanted(lane.key):
                found.add(lane.key)
                lanes.retry(lane, self._clock.monotonic(), first=first)
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
        return found

    def _retry_endpoint(self, keys: int, request: RetryRequest) -> RetryResult:
        """Let the next probe be due, or start slowly if the endpoint is not paused and several keys are tried."""
        endpoint, now = self._gate.endpoint, self._clock.monotonic()
        endpoint.retry(now, force=request.force)
        paused = endpoint.flow is not BreakerState.FLOWING
        if not paused and keys > 1 and endpoint.allowed is None:
            endpoint.start_slowly()
        self._timekeeper.wake_now()
        waits = paused and endpoint.until > now
        return RetryResult(
            keys=keys,
            probe=paused and not waits,
            retry_after=round(endpoint.until - now, 3) if waits else None,
        )
