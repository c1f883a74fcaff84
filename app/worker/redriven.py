"""Dead letters that were given back: sent again when they are due, in the lane of their key.

No two of a key are on the wire; but a redriven row waits for its next attempt in the store, and nobody
waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from math import inf

from app.errors import StoreUnavailable
from app.interfaces import Clock, Parked, Store
from app.model.message import Partition
from app.model.subscription import Subscription
from app.worker.courier import Courier
from app.worker.intake import Held
from app.worker.parking import Parking
from app.worker.sweeping import LONGEST_WAIT
from app.worker.timing import Timekeeper

LOOK = (
    300.0  # seconds after which they are looked for although the store's revision, which says when
)
# there are any, has not changed: each subscription asks, and there may be a thousand
FOREVER = 2**62  # milliseconds; a moment that all waits end before


class Redriven:
    """``read``: a row as held, under the present epoch. ``ours``: the partitions that are loaded."""

    def __init__(
        self,
        subscription: Subscription,
        store: Store,
        clock: Clock,
        courier: Courier,
        parking: Parking,
        timekeeper: Timekeeper,
        read: Callable[[Parked], Held],
        ours: Callable[[], Collection[Partition]],
    ) -> None:
        self._subscription = subscription
        self._rows = store.parked
        self._clock = clock
        self._courier = courier
        self._parking = parking
        self._timekeeper = timekeeper
        self._read = read
        self._ours = ours
        self._most = 2 * subscription.concurrency  # that are held at a time
        self._search: asyncio.Task[None] | None = None
        self._look_at = 0.0
        self._loaded: set[int] = set()  # ids of those that are held
        self._landed: set[int] = set()  # and of those that came down since the last search began
        self._more = False  # more of them are due than were loaded
        self.trouble = ""

    def end(self) -> None:
        if self._search is not None:
            self._search.cancel()

    def look(self) -> None:
        """There may be some that we do not know of."""
        self._look_at = self._clock.monotonic()
        self._timekeeper.soon()

    def act(self, now: float, tasks: asyncio.TaskGroup) -> float | None:
        """Look for them if it is time, and when it is time next."""
        if now >= self._look_at and self._search is None:
            name = f"{self._subscription.id} redriven"
            self._search = tasks.create_task(self._find(), name=name)
        return self._look_at if self._search is None else None

    async def _find(self) -> None:
        """Those that are due, and when the next is."""
        known = {*self._loaded, *self._parking.sweeper.leaving()}
        most = len(known) + self._most
        self._landed.clear()
        self._look_at = inf  # what is heard meanwhile is not forgotten when this look ends
        rows: Sequence[Parked] = ()
        pause, self.trouble = LOOK, ""
        try:
            rows = await self._rows.redriven(
                self._subscription.id,
                self._subscription.source.broker,
                tuple(self._ours()),
                now_ms=FOREVER,
                limit=most,
            )
        except StoreUnavailable as error:
            pause, self.trouble = LONGEST_WAIT, f"redriven events cannot be read: {error}"
        self._search = None
        self._look_at = min(self._look_at, self._clock.monotonic() + pause)
        known |= self._landed
        self._more = len(rows) == most
        self._send([row for row in rows if row.id not in known])
        self._courier.wake()
        self._timekeeper.at(self._look_at)

    def _send(self, rows: Sequence[Parked]) -> None:
        now, wall_ms = self._clock.monotonic(), self._clock.now() * 1000
        for row in rows:
            if row.message.partition not in self._ours():
                continue
            if row.due_ms > wall_ms:
                self._look_at = min(self._look_at, now + (row.due_ms - wall_ms) / 1000)
                self._more = False
                return
            if len(self._loaded) >= self._most:
                self._more = True
                return
            held = self._read(row)
            held.landed = self._came_down
            self._loaded.add(row.id)
            self._courier.add(held)

    def _came_down(self, held: Held) -> None:
        if held.row is None:
            return
        self._loaded.discard(held.row.id)
        self._landed.add(held.row.id)
        if not held.done:
            self._look_at = min(self._look_at, held.until or self._clock.monotonic())
        elif self._more and len(self._loaded) <= self._most // 2:
            self._look_at = self._clock.monotonic()
        self._timekeeper.at(self._look_at)
