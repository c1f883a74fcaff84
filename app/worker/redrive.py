"""Send redriven dead letters when they are due, in the queue of their key.

At most one event of a key is in flight. Dead letters with one key are sent in the order in which they were stored.
While one waits in the store for its next attempt, the later ones wait too. Live events of the key, and letters
without a key, do not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from app.delivery.backoff import LONGEST_WAIT
from app.errors import StoreUnavailable
from app.interfaces import Parked
from app.model.message import Partition
from app.worker.decode_and_filter import DeliveryReader
from app.worker.owned_partition import OwnedPartition
from app.worker.request_bounds import read_ahead
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherContext, DispatcherPart
from app.worker.stored_rows import StoredRow, StoredRows

LOOK = 300.0  # seconds between searches without a notification; a thousand subscriptions may search


@dataclass(eq=False, repr=False)
class Redrive(DispatcherPart):
    """Sends the redriven rows of one subscription from the partitions that this process owns.

    ``_ready`` are the owned partitions that may be delivered from."""

    _reader: DeliveryReader
    _scheduler: Scheduler
    _rows: StoredRows
    _ready: Mapping[Partition, OwnedPartition]

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._most = read_ahead(self._subscription)  # rows that are held at once
        self._search: asyncio.Task[None] | None = None
        self._look_at = 0.0
        self._loaded: set[int] = set()  # ids of the held rows
        self._landed: set[int] = set()  # ids of rows that were closed since the last search began
        self._returned: set[bytes] = set()  # lanes with rows that returned to the store since then
        self._blocked: set[bytes] = set()  # lanes whose first row waits in the store
        self._more = False  # more rows are due than were loaded
        self._requested: Callable[[bytes], bool] | None = None  # lanes to try before they are due
        self._requested_rows: set[int] = set()  # ids of the rows that were tried by this request

    def look(self) -> None:
        """Search for redriven rows soon, because there may be new ones."""
        self._look_at = self._clock.monotonic()
        self._timekeeper.wake_now()

    def retry(self, wanted: Callable[[bytes], bool]) -> None:
        """Try the rows of the wanted lanes whose last attempt failed before they are due.

        Rows without an attempt keep the rate of their redrive."""
        self._requested = wanted
        self._requested_rows.clear()
        self.look()

    def act(self, now: float) -> float | None:
        """Start a search for redriven rows if it is due. Return the time of the next search, or None during a
        search."""
        if now >= self._look_at and self._search is None:
            self._search = self._scope.spawn(self._find(), f"{self._subscription.id} redrive")
        return self._look_at if self._search is None else None

    def row_closed(self, row: Parked, *, done: bool, due: float = 0.0) -> None:
        """Free the memory of a row, and schedule the search for its next attempt or for more rows."""
        self._loaded.discard(row.id)
        self._landed.add(row.id)
        if not done:
            self._returned.add(row.lane)
            self._blocked.add(row.lane)
            self._look_at = min(self._look_at, due or self._clock.monotonic())
        elif self._more and len(self._loaded) <= self._most // 2:
            self._look_at = self._clock.monotonic()
        self._timekeeper.wake_at(self._look_at)

    def row_deleted(self, row: Parked) -> None:
        """Search for the letters that waited for this row, because it is gone from the store."""
        waited = row.lane in self._blocked or row.attempts > 0
        if waited or self._loaded <= {row.id}:
            self._blocked.discard(row.lane)
            self.look()

    async def _find(self) -> None:
        """Read the due rows, queue them, and schedule the next search."""
        known = {*self._loaded, *self._rows.leaving()}
        most = len(known) + self._most
        self._landed.clear()
        self._returned.clear()
        self._look_at = inf  # a notification during the search lowers it again
        rows: Sequence[Parked] = ()
        pause, self.trouble = LOOK, ""
        try:
            rows = await self._store.parked.redriven(
                self._subscription.id,
                self._subscription.source.broker,
                {partition: owned.epoch for partition, owned in self._ready.items()},
                limit=most,
            )
        except StoreUnavailable as error:
            pause, self.trouble = LONGEST_WAIT, f"redriven events cannot be read: {error}"
        self._search = None
        self._look_at = min(self._look_at, self._clock.monotonic() + pause)
        known |= self._landed
        self._more = len(rows) == most and (self._requested is not None or self._is_due(rows[-1]))
        new = [row for row in rows if row.id not in known]
        self._send(sorted(new, key=lambda row: (row.due_ms, row.letter, row.id)))
        self._scheduler.wake()
        self._timekeeper.wake_at(self._look_at)

    def _send(self, rows: Sequence[Parked]) -> None:
        now, wall_ms = self._clock.monotonic(), self._store.clock.now() * 1000
        tried = len(self._requested_rows)
        for row in rows:
            owned = self._ready.get(row.message.partition)
            if owned is None or owned.epoch != row.message.epoch:
                continue
            if row.lane in self._returned:  # the answer may be older than the return; search again
                self._look_at = now
                continue
            due = now + (row.due_ms - wall_ms) / 1000
            if due > now and not self._is_requested(row):
                self._look_at = min(self._look_at, due)
                continue
            crowded = self._loaded and not self._budget.may_hold()
            if len(self._loaded) >= self._most or crowded:
                self._more = True
                return
            self._load(row, owned, due if due > now else None)
        if not self._more or len(self._requested_rows) == tried:
            self._requested = None  # no other row can be tried early

    def _is_due(self, row: Parked) -> bool:
        return row.due_ms <= self._store.clock.now() * 1000

    def _load(self, row: Parked, owned: OwnedPartition, earlier_due: float | None) -> None:
        """Queue a row. ``earlier_due`` is its due time if an operator requested an earlier try, else None."""
        origin = StoredRow(row, owned, self._rows, self)
        self._loaded.add(row.id)
        delivery = self._reader.read_back(row, origin)
        if earlier_due is not None:
            self._requested_rows.add(row.id)
            delivery.earlier_due = earlier_due
        self._scheduler.add(delivery, origin.goes_before)

    def _is_requested(self, row: Parked) -> bool:
        """Return True if an operator requested a try of this row and it was not tried since."""
        asked = self._requested is not None and self._requested(row.lane)
        return asked and row.attempts > 0 and row.id not in self._requested_rows
