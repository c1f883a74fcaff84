"""The queues of events by key: one event in flight per key, many keys at once.

A lane is the queue of one key. It is *ready*, *in flight* or *waiting* (for the next attempt of its head). It
is never in two of these states, which guarantees the order. A request in flight contains the head of a lane,
and perhaps some of the events that follow the head.

Ready lanes take turns, so that a key with many events cannot starve the others. All steps are O(1), except waits in
O(log waiting), and ``oldest``, ``holding`` and ``drop`` in O(lanes)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")
REQUESTED = -1  # the turn of a lane that an operator requested: a probe prefers it
_READY, _IN_FLIGHT, _WAITING = "ready", "in flight", "waiting"


class Lane(Generic[Item]):
    """The queue of the events of one key (its lane). Its head is the next event to deliver. Only ``Lanes``
    changes it."""

    __slots__ = ("items", "key", "ready_at", "sending", "since", "state", "until", "wait")

    def __init__(self, key: Hashable, since: int) -> None:
        self.key = key
        self.items: deque[Item] = deque()
        self.state = _READY
        self.since = since  # the turn of the last try, or of the creation
        self.wait = 0  # the number of the current wait; 0: none
        self.until = 0.0  # the end of the wait, in monotonic seconds
        self.sending = 0  # how many of the first items are in flight, in one request
        self.ready_at: float | None = None  # set by ``stamp`` only, in monotonic seconds

    @property
    def head(self) -> Item:
        """Return the first item, which is delivered next."""
        return self.items[0]


class Lanes(Generic[Item]):
    """The queues of one subscription, one for each key (lanes). At most ``concurrency`` of them are in flight
    at a time."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._lanes: dict[Hashable, Lane[Item]] = {}
        self._ready: deque[Lane[Item]] = deque()
        self._in_flight: set[Lane[Item]] = set()
        self._waits: list[tuple[float, int, Lane[Item]]] = []
        self._waiting = 0
        self._held = 0
        self._turn = 0

    def add(self, key: Hashable, item: Item, before: Callable[[Item], bool] | None = None) -> None:
        """Add an item to the queue of its key (its lane). It goes to the end, or before the first unsent item
        for which ``before`` returns True."""
        lane = self._lanes.get(key)
        if lane is None:
            self._turn += 1
            lane = self._lanes[key] = Lane(key, self._turn)
            self._ready.append(lane)
        if before is None:
            lane.items.append(item)
        else:
            lane.items.insert(self._place(lane, before), item)
        self._held += 1

    def take(self) -> Lane[Item] | None:
        """Return the lane (queue of one key) whose turn it is, and mark it as in flight. Return None if no
        lane is ready or the bound of ``concurrency`` is reached."""
        lane = self.next_to_take()
        return None if lane is None else self._begin_sending(self._ready.popleft())

    def oldest(self, among: Callable[[Item], bool] | None = None) -> Lane[Item] | None:
        """Return the lane (queue of one key) to send as a probe: of all ready or waiting lanes, the one that
        was tried longest ago.

        If instead the lane with the oldest event was chosen, one failing event could be every probe.

        Args:
            among: a function that returns True for the head of a lane that may be chosen; None permits all
                lanes.
        """
        still = [lane for lane in self._lanes.values() if lane.state != _IN_FLIGHT]
        if among is not None:
            still = [lane for lane in still if among(lane.head)]
        if not still or len(self._in_flight) >= self._concurrency:
            return None
        return min(still, key=lambda lane: lane.since)

    def take_lane(self, lane: Lane[Item]) -> Lane[Item]:
        """Take a ready or waiting lane (queue of one key) before its turn."""
        if lane.state == _READY:
            self._ready.remove(lane)
        else:
            self._end_wait(lane)
        return self._begin_sending(lane)

    def find(self, key: Hashable) -> Lane[Item] | None:
        """Return the lane (queue) of ``key`` if it is ready or waiting, else None."""
        lane = self._lanes.get(key)
        return None if lane is None or lane.state == _IN_FLIGHT else lane

    def take_next_of(self, lane: Lane[Item]) -> Item | None:
        """Add the next item of a lane in flight to the request of the lane, and return the item. Return None
        if the lane has no more items."""
        if lane.sending >= len(lane.items):
            return None
        lane.sending += 1
        return lane.items[lane.sending - 1]

    def undo_take(self, lane: Lane[Item]) -> None:
        """Undo the last ``take_next_of``, because the item does not fit into the request."""
        lane.sending -= 1

    def sent_items(self, lane: Lane[Item]) -> list[Item]:
        """Return the items of a lane (queue of one key) that are in flight."""
        return [lane.items[0]] if lane.sending == 1 else list(islice(lane.items, lane.sending))

    def head_only(self, lane: Lane[Item]) -> None:
        """Treat only the head of a lane as in flight. The other items of the request return to the queue."""
        lane.sending = 1

    def stamp(self, now: float) -> None:
        """Set ``ready_at`` of each lane that became ready since the last call. The cost is proportional to
        the number of these lanes."""
        for lane in reversed(self._ready):
            if lane.ready_at is not None:
                return
            lane.ready_at = now

    def next_to_take(self) -> Lane[Item] | None:
        """Return the lane (queue of one key) that ``take`` would return, or None. The lane is not taken."""
        if not self._ready or len(self._in_flight) >= self._concurrency:
            return None
        return self._ready[0]

    def next_ready(self) -> Lane[Item] | None:
        """Return the lane (queue of one key) whose turn it is, or None. The lane is not taken."""
        return self._ready[0] if self._ready else None

    def ready_lanes(self) -> Iterable[Lane[Item]]:
        """Return the ready lanes (queues of one key) in the order of their turns."""
        return self._ready

    def drop_sent(self, lane: Lane[Item], gone: Callable[[Item], bool]) -> list[Item]:
        """Remove the items in flight of a lane for which ``gone`` returns True, and return them. The lane
        stays in flight."""
        sending = [lane.items.popleft() for _ in range(lane.sending)]
        kept = [item for item in sending if not gone(item)]
        lane.items.extendleft(reversed(kept))
        lane.sending = len(kept)
        self._held -= len(sending) - len(kept)
        return [item for item in sending if gone(item)]

    def finish(self, lane: Lane[Item]) -> list[Item]:
        """Remove the items in flight of a lane (queue of one key), and return them. The next item of the lane
        becomes ready."""
        items, count = lane.items, lane.sending
        self._end_sending(lane)
        done = [items.popleft() for _ in range(count)]
        self._held -= count
        if items:
            self._make_ready(lane)
        else:
            del self._lanes[lane.key]
        return done

    def finish_one(self, lane: Lane[Item]) -> Item:
        """Remove the only item in flight of a lane (queue of one key), and return it. The next item of the lane
        becomes ready."""
        self._in_flight.remove(lane)
        lane.sending = 0
        self._held -= 1
        done = lane.items.popleft()
        if lane.items:
            self._make_ready(lane)
        else:
            del self._lanes[lane.key]
        return done

    def remove(self, lane: Lane[Item]) -> list[Item]:
        """Remove a lane (queue of one key) that is in flight, and return all its items."""
        self._end_sending(lane)
        del self._lanes[lane.key]
        self._held -= len(lane.items)
        return list(lane.items)

    def holding(self) -> list[Lane[Item]]:
        """Return the lanes (queues of one key) that wait for the next attempt."""
        return [lane for lane in self._lanes.values() if lane.state == _WAITING]

    def all(self) -> list[Lane[Item]]:
        """Return every lane."""
        return list(self._lanes.values())

    def retry(self, lane: Lane[Item], *, first: bool = False) -> bool:
        """End the wait of a lane. Return False if the lane does not wait.

        Args:
            lane: the lane.
            first: whether a probe prefers this lane.
        """
        waits = lane.state == _WAITING
        if waits:
            self._end_wait(lane)
            self._make_ready(lane)
        if first:
            lane.since = REQUESTED
        return waits

    def give_back(self, lane: Lane[Item], *, first: bool = False) -> None:
        """Make a lane (queue of one key) that is in flight ready again. Its head is not finished.

        Args:
            lane: the lane.
            first: whether the lane gets the next turn, because its head was not tried.
        """
        self._end_sending(lane)
        if first:
            lane.state = _READY
            lane.ready_at = self._ready[0].ready_at if self._ready else None  # see ``stamp``
            self._ready.appendleft(lane)
        else:
            self._make_ready(lane)

    def hold(self, lane: Lane[Item], until: float) -> None:
        """Let a lane (queue of one key) that is in flight wait until ``until`` (monotonic seconds). Its head
        is then tried again."""
        self._end_sending(lane)
        lane.state = _WAITING
        lane.since = lane.wait = self.next_turn()
        lane.until = until
        self._waiting += 1
        heapq.heappush(self._waits, (until, lane.wait, lane))

    def wake(self, now: float) -> int:
        """Make the lanes (queues of one key) ready whose wait is over at ``now``. Return their number."""
        woken = 0
        while (due := self.next_due()) is not None and due <= now:
            lane = heapq.heappop(self._waits)[2]
            self._end_wait(lane)
            self._make_ready(lane)
            woken += 1
        return woken

    def next_due(self) -> float | None:
        """Return when the next wait ends (monotonic seconds), or None if no lane waits."""
        while self._waits and self._waits[0][1] != self._waits[0][2].wait:
            heapq.heappop(self._waits)  # ended early, by a probe or a drop
        return self._waits[0][0] if self._waits else None

    def drop(self, gone: Callable[[Item], bool]) -> list[Item]:
        """Remove all items for which ``gone`` returns True, except those in flight. Return the removed
        items."""
        dropped: list[Item] = []
        for lane in tuple(self._lanes.values()):
            dropped += self._drop_from(lane, gone)
        self._ready = deque(lane for lane in self._ready if lane.items)
        self._held -= len(dropped)
        return dropped

    def drop_behind(self, lane: Lane[Item], gone: Callable[[Item], bool]) -> list[Item]:
        """Remove the unsent items of a lane in flight for which ``gone`` returns True. Return the removed
        items."""
        dropped = self._drop_from(lane, gone)
        self._held -= len(dropped)
        return dropped

    def in_flight(self) -> Iterable[Item]:
        """Return the items that are in flight."""
        return [item for lane in self._in_flight for item in islice(lane.items, lane.sending)]

    def heads(self) -> Iterable[Item]:
        """Return the head of every lane (queue of one key). The oldest of all unfinished items is one of
        them."""
        return (lane.head for lane in self._lanes.values())

    def queues(self) -> Iterable[Iterable[Item]]:
        """Return the items of every lane (queue of one key), each lane in its order."""
        return (lane.items for lane in self._lanes.values())

    @property
    def sending(self) -> int:
        """Return the number of lanes (queues of one key) that are in flight."""
        return len(self._in_flight)

    @property
    def ready(self) -> int:
        """Return the number of lanes (queues of one key) that are ready."""
        return len(self._ready)

    @property
    def waiting(self) -> int:
        """Return the number of lanes (queues of one key) that wait for their next attempt."""
        return self._waiting

    @property
    def held(self) -> int:
        """Return the number of unfinished items."""
        return self._held

    @staticmethod
    def _place(lane: Lane[Item], before: Callable[[Item], bool]) -> int:
        behind = (at for at, each in enumerate(lane.items) if at >= lane.sending and before(each))
        return next(behind, len(lane.items))

    def _drop_from(self, lane: Lane[Item], gone: Callable[[Item], bool]) -> list[Item]:
        first = lane.sending
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

    def _begin_sending(self, lane: Lane[Item]) -> Lane[Item]:
        lane.state = _IN_FLIGHT
        lane.sending = 1
        lane.ready_at = None
        self._in_flight.add(lane)
        return lane

    def _end_sending(self, lane: Lane[Item]) -> None:
        self._in_flight.remove(lane)  # a KeyError means that the lane was concluded twice
        lane.sending = 0

    def _make_ready(self, lane: Lane[Item]) -> None:
        lane.state = _READY
        lane.since = self.next_turn()
        self._ready.append(lane)

    def _end_wait(self, lane: Lane[Item]) -> None:
        lane.wait = 0
        self._waiting -= 1

    def next_turn(self) -> int:
        """Return a number that grows with each turn. A lane (queue of one key) with a lower number was tried
        longer ago."""
        self._turn += 1
        return self._turn
