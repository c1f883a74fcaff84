"""The keys of a subscription whose events wait in the store (parked lanes), and when each may be tried.

The events of a parked lane are rows of the store. Memory has only one small entry per lane, so that very many
lanes may wait.

::

                parks                its head is due             its rows are gone
    (live) ──────────────► WAITING ───────────────────► DRAINED ──────────────────► (live)
                              ▲                            |
                              └────────────────────────────┘
                    its head failed, or other lanes have a turn

New events of a parked lane are queued after its rows, so that they stay in order."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from app.delivery.lane_id import has_key
from app.delivery.lanes import REQUESTED
from app.model.message import Partition

START = -1  # before the first offset
OWED = 0  # the turn of lanes that an earlier owner parked: they count as tried longest ago


class ParkedLaneState:
    """The state of one parked key: its events wait in the store (parked lane). Only ``ParkedLanes`` changes
    ``places``, ``due``, ``since``, ``wait`` and ``gone``.

    ``places`` are the partitions with rows of the lane: one, unless an attribute orders across partitions. ``rows``
    is the known number of rows; a repeated write counts twice. ``due`` is when the head may be tried, in monotonic
    seconds. ``since`` is the turn of the last try (``lanes``). ``wait`` identifies the current wait; 0 means that
    the lane is being drained. ``earlier_due`` is ``due`` before an operator requested a try, else None.

    ``after`` is the offset of the last row that was read in ``places[0]``, or START. ``open`` counts rows
    that were read and are neither deleted nor returned to the store. ``writing`` counts rows that are being
    written. While ``ending`` is True, the store is searched for remaining rows, and no row is written.
    ``gone`` is True after this process has lost all partitions of the lane."""

    __slots__ = (
        *(
            "after",
            "due",
            "earlier_due",
            "ending",
            "gone",
            "key",
            "open",
            "places",
            "rows",
            "since",
        ),
        *("wait", "writing"),
    )

    def __init__(self, key: bytes, place: Partition) -> None:
        self.key = key
        self.places: tuple[Partition, ...] = (place,)
        self.rows = 0
        self.due = 0.0
        self.earlier_due: float | None = None
        self.since = OWED
        self.wait = 0
        self.after = START
        self.open = 0
        self.writing = 0
        self.ending = False
        self.gone = False


class ParkedLanes:
    """The keys of one subscription whose events wait in the store (parked lanes), in the partitions that this
    process owns."""

    def __init__(self) -> None:
        self._lanes: dict[bytes, ParkedLaneState] = {}
        self._waits: list[tuple[float, int, ParkedLaneState]] = []
        self._wait = 0
        self.rows = 0
        self.keys = 0  # lanes of a key, and not of a message without one

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[ParkedLaneState]:
        return iter(self._lanes.values())

    def find(self, key: bytes) -> ParkedLaneState | None:
        """Return the state of the parked events of ``key`` (its parked lane), or None."""
        return self._lanes.get(key)

    def park(self, key: bytes, place: Partition, due: float, since: int = OWED) -> ParkedLaneState:
        """Return the parked lane of ``key``. If the key was not parked, add a lane that waits until ``due``
        (monotonic seconds)."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = ParkedLaneState(key, place)
            self.keys += has_key(key)
            self.wait(lane, due, since)
        elif place not in lane.places:
            lane.places += (place,)
        return lane

    def count(self, lane: ParkedLaneState, rows: int) -> None:
        """Add a positive or negative number of rows to the lane and the total."""
        if not lane.gone:
            lane.rows += rows
            self.rows += rows

    def wait(self, lane: ParkedLaneState, due: float, since: int) -> None:
        """Let the parked lane wait until ``due`` (monotonic seconds). ``since`` is the number of its last
        turn."""
        if lane.gone:
            return
        self._wait += 1
        lane.due, lane.since, lane.wait = due, since, self._wait
        heapq.heappush(self._waits, (due, lane.wait, lane))

    def retry(self, lane: ParkedLaneState, now: float, *, first: bool = False) -> bool:
        """Let a lane be due at ``now`` (monotonic seconds). Return False if it does not wait or is due already.

        Args:
            lane: the lane.
            now: the monotonic time in seconds.
            first: whether a probe prefers this lane.
        """
        if first:
            lane.since = REQUESTED
        if not lane.wait or lane.due <= now:
            return False
        lane.earlier_due = lane.due
        self.wait(lane, now, lane.since)
        return True

    def take_due(self, now: float) -> ParkedLaneState | None:
        """Take the parked lane whose wait ended first. Return None if no wait has ended at ``now``.

        The lane is now being drained, until it waits again or has no rows."""
        due = self.next_due()
        if due is None or due > now:
            return None
        return self.take_lane(self._waits[0][2])

    def oldest(self) -> ParkedLaneState | None:
        """Return the waiting parked lane that was tried longest ago, to send its head as a probe. Return None
        if no lane waits."""
        waiting = (lane for lane in self._lanes.values() if lane.wait)
        return min(waiting, key=lambda lane: (lane.since, lane.due), default=None)

    def take_lane(self, lane: ParkedLaneState) -> ParkedLaneState:
        """Take this parked lane before its wait ends."""
        lane.wait = 0
        return lane

    def next_due(self) -> float | None:
        """Return when the next wait of a parked lane ends (monotonic seconds), or None if no lane waits."""
        while self._waits and self._waits[0][1] != self._waits[0][2].wait:
            heapq.heappop(self._waits)
        return self._waits[0][0] if self._waits else None

    def make_live(self, lane: ParkedLaneState) -> None:
        """Remove a parked lane whose rows are gone. New events of its key are then held in memory again."""
        self._forget(lane)

    def drop(self, partitions: set[Partition]) -> list[ParkedLaneState]:
        """Remove these partitions from all parked lanes. Return the lanes that have no partition left."""
        dropped = []
        for lane in tuple(self._lanes.values()):
            left = tuple(place for place in lane.places if place not in partitions)
            if left == lane.places:
                continue
            if left:
                lane.after = START if left[0] != lane.places[0] else lane.after
                lane.places = left
            else:
                self._forget(lane)
                dropped.append(lane)
        return dropped

    def _forget(self, lane: ParkedLaneState) -> None:
        self.count(lane, -lane.rows)
        lane.gone, lane.wait = True, 0
        del self._lanes[lane.key]
        self.keys -= has_key(lane.key)
