"""Which lanes are parked, and which of them may be tried when (rules 4 and 5). Their events are rows of
the store; here is one small entry a lane, so that very many may wait.

::

                parks                its head is due             its rows are gone
    (live) ──────────────► WAITING ───────────────────► DRAINED ──────────────────► (live)
                              ▲                            │
                              └────────────────────────────┘
                        its head failed again, or it is others' turn

While a lane is here, what arrives for it goes behind its rows, never past them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from app.model.message import Partition

START = -1  # before the first offset
OWED = 0  # the turn of lanes that somebody parked before us: nobody was tried longer ago


class ParkedLaneState:
    """One lane. Only ``ParkedLanes`` changes ``places``, ``due``, ``since``, ``wait`` and ``gone``.

    ``places``   partitions it has rows in: one, but where an attribute orders across partitions.
    ``rows``     how many there are, as far as we know: a write that was repeated counts twice.
    ``due``      when its head may be tried, monotonic seconds.
    ``since``    the turn at which it was last tried (``lanes``).
    ``wait``     which of the waits is its own; 0: it is drained, not waiting.
    ``after``    the offset of the last row that was read, in ``places[0]``; START: none was.
    ``open``     rows that were read and are not gone from the store, nor given back to it.
    ``writing``  rows being written at this moment.
    ``ending``   it is being asked whether it has rows left: nothing is written meanwhile.
    ``gone``     its partitions are others' now: whatever comes of it concerns them.
    """

    __slots__ = (
        *("after", "due", "ending", "gone", "key", "open", "places", "rows", "since"),
        *("wait", "writing"),
    )

    def __init__(self, key: bytes, place: Partition) -> None:
        self.key = key
        self.places: tuple[Partition, ...] = (place,)
        self.rows = 0
        self.due = 0.0
        self.since = OWED
        self.wait = 0
        self.after = START
        self.open = 0
        self.writing = 0
        self.ending = False
        self.gone = False


class ParkedLanes:
    """The parked lanes of one subscription, of the partitions that this process owns."""

    def __init__(self) -> None:
        self._lanes: dict[bytes, ParkedLaneState] = {}
        self._waits: list[tuple[float, int, ParkedLaneState]] = []
        self._wait = 0
        self.rows = 0

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[ParkedLaneState]:
        return iter(self._lanes.values())

    def find(self, key: bytes) -> ParkedLaneState | None:
        return self._lanes.get(key)

    def park(self, key: bytes, place: Partition, due: float, since: int = OWED) -> ParkedLaneState:
        """The lane of ``key``, which waits from now on if it was not parked before."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = ParkedLaneState(key, place)
            self.wait(lane, due, since)
        elif place not in lane.places:
            lane.places += (place,)
        return lane

    def count(self, lane: ParkedLaneState, rows: int) -> None:
        """So many rows more, or fewer."""
        if not lane.gone:
            lane.rows += rows
            self.rows += rows

    def wait(self, lane: ParkedLaneState, due: float, since: int) -> None:
        """It is to be tried at ``due``, for the last time it was at turn ``since``."""
        if lane.gone:
            return
        self._wait += 1
        lane.due, lane.since, lane.wait = due, since, self._wait
        heapq.heappush(self._waits, (due, lane.wait, lane))

    def take_due(self, now: float) -> ParkedLaneState | None:
        """The lane that is due for longest; drained from now on, until it waits again or is live."""
        due = self.next_due()
        if due is None or due > now:
            return None
        return self.take_lane(self._waits[0][2])

    def oldest(self) -> ParkedLaneState | None:
        """The lane that waits and was not tried for the longest time: what a probe should send."""
        waiting = (lane for lane in self._lanes.values() if lane.wait)
        return min(waiting, key=lambda lane: (lane.since, lane.due), default=None)

    def take_lane(self, lane: ParkedLaneState) -> ParkedLaneState:
        """Out of its turn."""
        lane.wait = 0
        return lane

    def next_due(self) -> float | None:
        """When the next wait is over; None when nothing waits."""
        while self._waits and self._waits[0][1] != self._waits[0][2].wait:
            heapq.heappop(self._waits)
        return self._waits[0][0] if self._waits else None

    def make_live(self, lane: ParkedLaneState) -> None:
        """It has no rows any more: what arrives for it is held in memory again."""
        self._forget(lane)

    def drop(self, partitions: set[Partition]) -> list[ParkedLaneState]:
        """Forget what is in these partitions; the lanes that are gone with them."""
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
