"""Who may be sent next: one in flight per key, many keys at once (rule 3 of delivery).

A lane is the queue of one key. It is *ready*, *in flight* (its head is being sent) or *waiting* (its
head is to be tried again later), never two of these, which is the whole guarantee of order.
Ready lanes take turns, so that a key with many events cannot starve the others. All steps are O(1)
but for waits, which cost O(log waiting), and ``take_oldest`` and ``drop``, which walk the lanes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")
_READY, _IN_FLIGHT, _WAITING = "ready", "in flight", "waiting"


class Lane(Generic[Item]):
    """The queue of one key; its head is the event being delivered. Only ``Lanes`` changes it."""

    __slots__ = ("items", "key", "since", "state", "wait")

    def __init__(self, key: Hashable, since: int) -> None:
        self.key = key
        self.items: deque[Item] = deque()
        self.state = _READY
        self.since = since  # the turn at which it was last tried, or made
        self.wait = 0  # which of the waits is its own; 0: none

    @property
    def head(self) -> Item:
        return self.items[0]


class Lanes(Generic[Item]):
    """The lanes of one subscription, at most ``concurrency`` of them in flight at a time."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._lanes: dict[Hashable, Lane[Item]] = {}
        self._ready: deque[Lane[Item]] = deque()
        self._in_flight: set[Lane[Item]] = set()
        self._waits: list[tuple[float, int, Lane[Item]]] = []
        self._waiting = 0
        self._held = 0
        self._turn = 0

    def add(self, key: Hashable, item: Item) -> None:
        """Queue ``item`` behind the others of its key."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key, self._next_turn())
            self._ready.append(lane)
        lane.items.append(item)
        self._held += 1

    def take(self) -> Lane[Item] | None:
        """The lane whose turn it is, now in flight; None when none is ready or the cap is reached."""
        if not self._ready or len(self._in_flight) >= self._concurrency:
            return None
        return self._fly(self._ready.popleft())

    def take_oldest(self) -> Lane[Item] | None:
        """The lane not tried for the longest time, ready or waiting: what a probe should send.

        Longest untried rather than lowest position, so that one event that always fails cannot be
        the only probe there ever is.
        """
        still = [lane for lane in self._lanes.values() if lane.state != _IN_FLIGHT]
        if not still or len(self._in_flight) >= self._concurrency:
            return None
        lane = min(still, key=lambda lane: lane.since)
        if lane.state == _READY:
            self._ready.remove(lane)
        else:
            self._end_wait(lane)
        return self._fly(lane)

    def finish(self, lane: Lane[Item]) -> None:
        """The head is done with; the next of its key may follow when its turn comes."""
        self._land(lane)
        lane.items.popleft()
        self._held -= 1
        if lane.items:
            self._make_ready(lane)
        else:
            del self._lanes[lane.key]

    def give_back(self, lane: Lane[Item]) -> None:
        """The head was not finished and may be sent again as soon as its turn comes."""
        self._land(lane)
        self._make_ready(lane)

    def hold(self, lane: Lane[Item], until: float) -> None:
        """The head is to be tried again at ``until``; its lane waits, the others go on."""
        self._land(lane)
        lane.state = _WAITING
        lane.since = lane.wait = self._next_turn()
        self._waiting += 1
        heapq.heappush(self._waits, (until, lane.wait, lane))

    def wake(self, now: float) -> int:
        """Make ready the lanes whose wait is over; how many there were."""
        woken = 0
        while (due := self.next_due()) is not None and due <= now:
            lane = heapq.heappop(self._waits)[2]
            self._end_wait(lane)
            self._make_ready(lane)
            woken += 1
        return woken

    def next_due(self) -> float | None:
        """When the next wait is over; None when nothing waits."""
        while self._waits and self._waits[0][1] != self._waits[0][2].wait:
            heapq.heappop(self._waits)  # ended early, by a probe or a drop
        return self._waits[0][0] if self._waits else None

    def drop(self, gone: Callable[[Item], bool]) -> list[Item]:
        """Forget the items that are ``gone``, but for heads in flight, which land by themselves."""
        dropped: list[Item] = []
        for lane in tuple(self._lanes.values()):
            dropped += self._drop_from(lane, gone)
        self._ready = deque(lane for lane in self._ready if lane.items)
        self._held -= len(dropped)
        return dropped

    def in_flight(self) -> Iterable[Item]:
        """The heads being sent at this moment."""
        return [lane.head for lane in self._in_flight]

    def heads(self) -> Iterable[Item]:
        """The first of every lane: the oldest that is held is among them."""
        return (lane.head for lane in self._lanes.values())

    @property
    def flying(self) -> int:
        return len(self._in_flight)

    @property
    def ready(self) -> int:
        return len(self._ready)

    @property
    def waiting(self) -> int:
        return self._waiting

    @property
    def held(self) -> int:
        """All items not yet finished."""
        return self._held

    def _drop_from(self, lane: Lane[Item], gone: Callable[[Item], bool]) -> list[Item]:
        first = 1 if lane.state == _IN_FLIGHT else 0
        head_is_gone = not first and gone(lane.head)
        kept = [item for at, item in enumerate(lane.items) if at < first or not gone(item)]
        if len(kept) == len(lane.items):
            return []
        dropped = [item for at, item in enumerate(lane.items) if at >= first and gone(item)]
        lane.items = deque(kept)
        if head_is_gone and lane.state == _WAITING:  # the wait belonged to the head
            self._end_wait(lane)
            self._make_ready(lane)
        if not kept:
            del self._lanes[lane.key]
        return dropped

    def _fly(self, lane: Lane[Item]) -> Lane[Item]:
        lane.state = _IN_FLIGHT
        self._in_flight.add(lane)
        return lane

    def _land(self, lane: Lane[Item]) -> None:
        self._in_flight.remove(lane)  # KeyError: concluded twice, which is a bug

    def _make_ready(self, lane: Lane[Item]) -> None:
        lane.state = _READY
        lane.since = self._next_turn()
        self._ready.append(lane)

    def _end_wait(self, lane: Lane[Item]) -> None:
        lane.wait = 0
        self._waiting -= 1

    def _next_turn(self) -> int:
        self._turn += 1
        return self._turn
