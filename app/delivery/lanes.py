"""What may be sent next: one in flight per key, many keys at once (rule 3 of delivery).

A lane is the queue of one key. It is *ready*, *in flight* (its head is being sent, in one request with
it perhaps a few of those behind) or *waiting* (its head is to be tried again later), never two of
these, which is the whole guarantee of order.
Ready lanes take turns, so that a key with many events cannot starve the others. All steps are O(1)
but for waits, which cost O(log waiting), and ``oldest``, ``holding`` and ``drop``, which walk the lanes.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")
_READY, _IN_FLIGHT, _WAITING = "ready", "in flight", "waiting"


class Lane(Generic[Item]):
    """The queue of one key; its head is the event being delivered. Only ``Lanes`` changes it."""

    __slots__ = ("items", "key", "ready_at", "sending", "since", "state", "until", "wait")

    def __init__(self, key: Hashable, since: int) -> None:
        self.key = key
        self.items: deque[Item] = deque()
        self.state = _READY
        self.since = since  # the turn at which it was last tried, or made
        self.wait = 0  # which of the waits is its own; 0: none
        self.until = 0.0  # when that wait is over
        self.sending = 0  # how many of its first items are on the wire, in one request
        self.ready_at: float | None = None  # when it was first seen ready; only ``stamp`` fills it

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

    def add(self, key: Hashable, item: Item, before: Callable[[Item], bool] | None = None) -> None:
        """Queue ``item`` behind the others of its key. ``before``: and before the first of these that is not on the
        wire."""
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
        """The lane whose turn it is, now in flight; None when none is ready or the cap is reached."""
        if not self._ready or len(self._in_flight) >= self._concurrency:
            return None
        return self._begin_sending(self._ready.popleft())

    def oldest(self, among: Callable[[Item], bool] | None = None) -> Lane[Item] | None:
        """The lane not tried for the longest time, ready or waiting: what a probe should send.
        ``among``: only those with such a head.

        Longest untried rather than lowest position, so that one event that always fails cannot be
        the only probe there ever is.
        """
        still = [lane for lane in self._lanes.values() if lane.state != _IN_FLIGHT]
        if among is not None:
            still = [lane for lane in still if among(lane.head)]
        if not still or len(self._in_flight) >= self._concurrency:
            return None
        return min(still, key=lambda lane: lane.since)

    def take_lane(self, lane: Lane[Item]) -> Lane[Item]:
        """Out of its turn, and whatever it waits for; it must not be in flight."""
        if lane.state == _READY:
            self._ready.remove(lane)
        else:
            self._end_wait(lane)
        return self._begin_sending(lane)

    def find(self, key: Hashable) -> Lane[Item] | None:
        """The lane of ``key`` if it is ready or waiting."""
        lane = self._lanes.get(key)
        return None if lane is None or lane.state == _IN_FLIGHT else lane

    def take_next_of(self, lane: Lane[Item]) -> Item | None:
        """The next item of a lane in flight, to be sent in the same request; None when it has no more."""
        if lane.sending >= len(lane.items):
            return None
        lane.sending += 1
        return lane.items[lane.sending - 1]

    def undo_take(self, lane: Lane[Item]) -> None:
        """Undo the last ``take_next_of``: it does not fit."""
        lane.sending -= 1

    def sent_items(self, lane: Lane[Item]) -> list[Item]:
        """The items of a lane in flight that are being sent."""
        return [lane.items[0]] if lane.sending == 1 else list(islice(lane.items, lane.sending))

    def head_only(self, lane: Lane[Item]) -> None:
        """Those behind the head are on the wire no more."""
        lane.sending = 1

    def stamp(self, now: float) -> None:
        """Note when lanes became ready: those without a moment stand behind those with one. O(those that
        did since the last time)."""
        for lane in reversed(self._ready):
            if lane.ready_at is not None:
                return
            lane.ready_at = now

    def next_ready(self) -> Lane[Item] | None:
        """Whose turn it is: the one ready for longest."""
        return self._ready[0] if self._ready else None

    def ready_lanes(self) -> Iterable[Lane[Item]]:
        """In the order of their turns."""
        return self._ready

    def drop_sent(self, lane: Lane[Item], gone: Callable[[Item], bool]) -> list[Item]:
        """Forget those on the wire that are ``gone``; the lane stays in flight."""
        sending = [lane.items.popleft() for _ in range(lane.sending)]
        kept = [item for item in sending if not gone(item)]
        lane.items.extendleft(reversed(kept))
        lane.sending = len(kept)
        self._held -= len(sending) - len(kept)
        return [item for item in sending if gone(item)]

    def finish(self, lane: Lane[Item]) -> list[Item]:
        """What is on the wire of it, which is done with; the next of its key may follow when its turn
        comes."""
        items, count = lane.items, lane.sending
        self._end_sending(lane)
        done = [items.popleft() for _ in range(count)] if count != 1 else [items.popleft()]
        self._held -= count
        if items:
            self._make_ready(lane)
        else:
            del self._lanes[lane.key]
        return done

    def remove(self, lane: Lane[Item]) -> list[Item]:
        """All of a lane in flight, whose head has come down; the key has none any more."""
        self._end_sending(lane)
        del self._lanes[lane.key]
        self._held -= len(lane.items)
        return list(lane.items)

    def holding(self) -> list[Lane[Item]]:
        """The lanes that wait."""
        return [lane for lane in self._lanes.values() if lane.state == _WAITING]

    def give_back(self, lane: Lane[Item], *, first: bool = False) -> None:
        """The head was not finished and may be sent again as soon as its turn comes. ``first``: it was not
        tried, so its turn is the next."""
        self._end_sending(lane)
        if first:
            lane.state = _READY
            lane.ready_at = self._ready[0].ready_at if self._ready else None  # see ``stamp``
            self._ready.appendleft(lane)
        else:
            self._make_ready(lane)

    def hold(self, lane: Lane[Item], until: float) -> None:
        """The head is to be tried again at ``until``; its lane waits, the others go on."""
        self._end_sending(lane)
        lane.state = _WAITING
        lane.since = lane.wait = self.next_turn()
        lane.until = until
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

    def drop_behind(self, lane: Lane[Item], gone: Callable[[Item], bool]) -> list[Item]:
        """Forget the items of a lane in flight that are ``gone``, but for those on the wire."""
        dropped = self._drop_from(lane, gone)
        self._held -= len(dropped)
        return dropped

    def in_flight(self) -> Iterable[Item]:
        """The items being sent at this moment."""
        return [item for lane in self._in_flight for item in islice(lane.items, lane.sending)]

    def heads(self) -> Iterable[Item]:
        """The first of every lane: the oldest that is held is among them."""
        return (lane.head for lane in self._lanes.values())

    def queues(self) -> Iterable[Iterable[Item]]:
        """All that is held, by lane, its head first."""
        return (lane.items for lane in self._lanes.values())

    @property
    def sending(self) -> int:
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
        self._in_flight.remove(lane)  # KeyError: concluded twice, which is a bug
        lane.sending = 0

    def _make_ready(self, lane: Lane[Item]) -> None:
        lane.state = _READY
        lane.since = self.next_turn()
        self._ready.append(lane)

    def _end_wait(self, lane: Lane[Item]) -> None:
        lane.wait = 0
        self._waiting -= 1

    def next_turn(self) -> int:
        """Turns grow: who was tried at a lower one was tried longer ago."""
        self._turn += 1
        return self._turn
