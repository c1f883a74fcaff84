"""The switch before the log of a route's target: straight to it, or into the route's spool.

A *lane* is a partition of the spool, by the key of the record. Of each lane one of these holds:

direct   nothing of it is in the spool: its records go to the target. If one of them fails because the broker
         is away, or because nobody knows its fate, then all of the lane that are under way are taken back and
         go to the spool, in the order in which they came. A record that was on the wire may come twice. The
         same happens to every lane if one stands still and the broker twice gives no sign of health: most
         clients try again until the publish time-out, and the senders would wait as long.
spooled  something of it is in the spool: what comes goes behind it.
held     little of it is in the spool, and that is being drained: what comes waits in memory, for a moment,
         until the commit position of the drain is at the end; then the lane is direct, in order.

Everything is decided on the event loop without an ``await``, so nothing comes between a look and a step. A
restart needs nothing but the spool's own end and commit position. Records without a key have no order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from app.bindings.record import Record
from app.bindings.spooled import spooled
from app.brokers.delegate import DelegatingLog
from app.brokers.portable import size_of
from app.brokers.spool_room import SpoolRoom, Waits
from app.errors import BoundReached, BrokerUnavailable, PublishUnknown
from app.interfaces import Log, PublishResult, Told, fates_of
from app.routing.identity import Identity
from app.routing.partitions import partition_of

When = Literal["outage", "always", "never"]
Stored = asyncio.Future[list[PublishResult]]
ToldAll = Callable[[list[PublishResult]], None]

HANDOVER = 500  # records of a lane in the spool, below which the lane is held
HOLD = 2.0  # seconds that a lane is held at most, and then not again for as long
HELD = 10_000  # records of a lane that is held at most
LOOK = 0.02  # seconds between looks at lanes that are held
STALL = 0.25  # seconds without progress after which the target is asked how it is, and between two questions


class _Entry:
    """Records of one lane and one submit, with their fates so far. ``told``: gets all of them, once."""

    __slots__ = ("direct", "records", "results", "told", "topic")

    def __init__(self, topic: str, records: Sequence[Record], told: ToldAll) -> None:
        self.topic = topic
        self.records = records
        self.told = told
        self.results: list[PublishResult | None] = [None] * len(records)
        self.direct: Stored | None = None

    def conclude(self) -> None:
        self.told(self.results)  # type: ignore[arg-type]  # none is open any more


class _Lane:
    """``number`` of the spool's partition; None: of records without a key. ``open``: under way to the
    target, in the order they came. ``appends``: records under way to the spool."""

    __slots__ = ("appends", "held", "hold_from", "hold_until", "number", "open")

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.open: dict[_Entry, None] = {}
        self.appends = 0
        self.held: list[_Entry] = []
        self.hold_from = self.hold_until = 0.0


class SpoolingLog(DelegatingLog):
    """``target``  the log that is spared; ``spool`` the embedded log, and ``topic`` the spool on it.
    ``waits``   of that topic. ``most``: bytes that may wait.
    ``when``    ``never``: the setting is gone; what comes goes behind what waits still, and the target's
                answers are the sender's again.
    ``began``   is called when an outage puts the first record into an empty spool.
    """

    def __init__(
        self,
        name: str,
        target: Log,
        spool: Log,
        topic: str,
        waits: Waits,
        *,
        when: When,
        most: int,
        began: Callable[[str], None] = lambda _cause: None,
    ) -> None:
        super().__init__(name, target)
        self.when: When = when
        self.room = SpoolRoom(target, waits, most)
        self.cause = ""  # why records went to the spool last
        self.repeats = 0  # records that may be at the target twice
        self.spooling = False
        self._spool = spool
        self._topic = topic
        self._waits = waits
        self._began = began
        self._away = False
        self._oldest: frozenset[_Entry] = frozenset()  # the first of each lane at the last look
        self._unwell = 0  # bad answers of the target in a row, while a lane stands still
        self._lanes: dict[int | None, _Lane] = {}
        self._holding: dict[_Lane, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._appends = 0

    # publishing

    def submit(
        self,
        topic: str,
        records: Sequence[Record],
        identities: Sequence[Identity | None] | None = None,  # noqa: ARG002 - lint refuses them here
    ) -> Stored:
        stored: Stored = asyncio.get_running_loop().create_future()
        told = partial(_resolve, stored)
        if len(records) == 1:
            self._enter(self._lane(records[0].key), _Entry(topic, records, told))
        else:
            self._submit_many(topic, records, told)
        return stored

    def submit_one(self, topic: str, record: Record, told: Told) -> PublishResult | None:
        known: list[PublishResult] = []
        entry = _Entry(topic, (record,), known.extend)
        self._enter(self._lane(record.key), entry)
        if known:
            return known[0]
        entry.told = lambda results: told(results[0])
        return None

    def _submit_many(self, topic: str, records: Sequence[Record], told: ToldAll) -> None:
        """One entry a lane, so that each goes its own way."""
        lanes: dict[_Lane, list[int]] = {}
        for index, record in enumerate(records):
            lanes.setdefault(self._lane(record.key), []).append(index)
        whole = _Entry(topic, records, told)
        left = len(lanes)

        def settle(places: list[int], results: Sequence[PublishResult]) -> None:
            nonlocal left
            for place, result in zip(places, results, strict=True):
                whole.results[place] = result
            left -= 1
            if not left:
                whole.conclude()

        for lane, places in lanes.items():
            part = [records[place] for place in places]
            self._enter(lane, _Entry(topic, part, partial(settle, places)))
        if not lanes:
            whole.conclude()

    def _lane(self, key: bytes | None) -> _Lane:
        number = None if key is None else partition_of(key, self._waits.partitions)
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = _Lane(number)
        return lane

    def _enter(self, lane: _Lane, entry: _Entry) -> None:
        if lane.held:
            self._hold(lane, entry)
        elif self._is_direct(lane):
            self._publish(lane, entry)
        elif self._may_hold(lane):
            self._hold(lane, entry)
        else:
            self._append(lane, entry)

    def _is_direct(self, lane: _Lane) -> bool:
        if self.when == "always":
            return False
        if lane.open:
            return True  # what comes later must not overtake these
        if lane.number is None:
            return not self.away
        return not self._behind(lane) and not self.away

    @property
    def away(self) -> bool:
        """Whether the target failed last, and the spool has something to try it with."""
        if self._away and (self.when == "never" or not (self._appends or self._waits.records)):
            self._away = False
        return self._away

    def _behind(self, lane: _Lane) -> bool:
        return lane.appends > 0 or (
            lane.number is not None and self._waits.waiting(lane.number) > 0
        )

    # straight to the target

    def _publish(self, lane: _Lane, entry: _Entry) -> None:
        entry.direct = direct = self.target.submit(entry.topic, entry.records)
        lane.open[entry] = None
        if direct.done():
            self._landed(lane, entry)
        else:
            direct.add_done_callback(lambda _: self._landed(lane, entry))

    def _landed(self, lane: _Lane, entry: _Entry) -> None:
        if entry not in lane.open:
            return  # it was taken back
        failure = next(filter(_is_away, _results(entry)), None)
        if failure is None or self.when == "never":
            del lane.open[entry]
            entry.results[:] = _results(entry)
            for record, result in zip(entry.records, entry.results, strict=True):
                self.room.learn(entry.topic, record, result)
            entry.conclude()
            return
        self._went_away(str(failure))
        self._take_back(lane, [entry] if lane.number is None else list(lane.open))

    def _take_back(self, lane: _Lane, entries: Sequence[_Entry]) -> None:
        """Into the spool, but for what is known to be stored or refused."""
        for entry in entries:
            del lane.open[entry]
        for entry in entries:
            assert entry.direct is not None  # noqa: S101 - it is open
            if entry.direct.done():
                for index, result in enumerate(_results(entry)):
                    entry.results[index] = None if _is_away(result) else result
                    self.repeats += isinstance(result, PublishUnknown)
            else:
                entry.direct.cancel()  # what is not on the wire is not sent any more (rule 9)
                self.repeats += len(entry.records)
            self._append(lane, entry)

    def _went_away(self, cause: str) -> None:
        self._away = True
        self.cause = cause

    async def look_after_target(self) -> None:
        """One look, every ``STALL`` seconds. What is under way goes to the spool if it stands still and the target
        is not well twice in a row: it is known to be away before a publish has timed out."""
        if self.when == "never" or not self._stands_still():
            self._unwell = 0
            return
        health = await self.target.health()
        if health.healthy or not self._stands_still():
            self._unwell = 0
            return
        self._unwell += 1
        if self._unwell > 1:
            self._went_away(health.cause)
            for lane in self._lanes.values():
                self._take_back(lane, list(lane.open))

    def _stands_still(self) -> bool:
        """Whether the first record of a lane is the same as at the last look."""
        before = self._oldest
        self._oldest = frozenset(
            next(iter(lane.open)) for lane in self._lanes.values() if lane.open
        )
        return not before.isdisjoint(self._oldest)

    # into the spool

    def _append(self, lane: _Lane, entry: _Entry) -> None:
        places = [place for place, result in enumerate(entry.results) if result is None]
        for place in places:
            entry.results[place] = self.room.refusal(entry.topic, entry.records[place])
        places = [place for place in places if entry.results[place] is None]
        records = [spooled(entry.records[n], self.target.name, entry.topic) for n in places]
        size = sum(map(size_of, records))
        if records and (full := self._full(size)) is not None:
            for place in places:
                entry.results[place] = full
            records = []
        if not records:
            entry.conclude()
            return
        self._note_begin()
        lane.appends += len(records)
        self._appends += len(records)
        self.room.add(size)
        stored = self._spool.submit(self._topic, records)
        stored.add_done_callback(partial(self._appended, lane, entry, places, size))

    def _appended(
        self, lane: _Lane, entry: _Entry, places: Sequence[int], size: int, stored: Stored
    ) -> None:
        lane.appends -= len(places)
        self._appends -= len(places)
        self.room.written(size)
        results = fates_of(stored, len(places))
        for place, result in zip(places, results, strict=True):
            entry.results[place] = result
        entry.conclude()

    def _full(self, size: int) -> BoundReached | None:
        if self.room.has(size):
            return None
        why = f"{self.target.name} is away ({self.cause})" if self._away else "it drains too slowly"
        text = f"the spool has reached its {self.room.most} bytes: {why}"
        return BoundReached(text, broker=self.name)

    def _note_begin(self) -> None:
        if not self.spooling:
            self.spooling = True
            if self.when == "outage":
                self._began(self.cause)

    # back to the target

    def _may_hold(self, lane: _Lane) -> bool:
        if self.when == "always" or lane.number is None or self.away:
            return False
        now = asyncio.get_running_loop().time()
        waiting = lane.appends + self._waits.waiting(lane.number)
        return now >= lane.hold_from and waiting <= HANDOVER

    def _hold(self, lane: _Lane, entry: _Entry) -> None:
        loop = asyncio.get_running_loop()
        if not lane.held:
            lane.hold_until = loop.time() + HOLD
            self._holding[lane] = None
        lane.held.append(entry)
        if len(lane.held) >= HELD:
            self._give_up_holding(lane, loop.time())
        elif self._timer is None:
            self._timer = loop.call_later(LOOK, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for lane in list(self._holding):
            if not self._behind(lane):
                self._let_go(lane)
            elif self.away or loop.time() >= lane.hold_until:
                self._give_up_holding(lane, loop.time())
        if self._holding and self._timer is None:
            self._timer = loop.call_later(LOOK, self._look)

    def _let_go(self, lane: _Lane) -> None:
        held, lane.held = lane.held, []
        self._holding.pop(lane, None)
        for entry in held:
            self._enter(lane, entry)

    def _give_up_holding(self, lane: _Lane, now: float) -> None:
        lane.hold_from = now + HOLD
        held, lane.held = lane.held, []
        self._holding.pop(lane, None)
        for entry in held:
            self._append(lane, entry)

    # what the drain and the runtime tell

    def drained(self, topic: str, record: Record, result: PublishResult) -> None:
        """What became of a record of the spool at the target."""
        if _is_away(result):
            self._went_away(str(result))
            self.repeats += isinstance(result, PublishUnknown)
        else:
            self._away = False
            self.room.learn(topic, record, result)

    @property
    def idle(self) -> bool:
        """Whether nothing of it waits, in the spool or here."""
        return not (self._appends or self._holding or self._waits.records)

    def ended(self) -> bool:
        """Whether a time of spooling is over; True once for each."""
        if not self.spooling or not self.idle:
            return False
        self.spooling = False
        return True

    def set(self, when: When, most: int) -> None:
        """By another configuration. With ``always`` what is under way to the target goes through the spool too,
        or what follows could overtake it."""
        self.when, self.room.most = when, most
        if when == "always":
            for lane in self._lanes.values():
                self._take_back(lane, list(lane.open))

    async def stop(self) -> None:
        """What is held goes to the spool."""
        for lane in list(self._holding):
            self._give_up_holding(lane, asyncio.get_running_loop().time())


def _resolve(stored: Stored, results: list[PublishResult]) -> None:
    if not stored.done():  # else nobody waits any more
        stored.set_result(results)


def _is_away(result: PublishResult | None) -> bool:
    """What the sender would be answered 503 for: away, unknown, or no room on the way."""
    return isinstance(result, BrokerUnavailable)


def _results(entry: _Entry) -> Sequence[PublishResult]:
    assert entry.direct is not None  # noqa: S101 - it was published
    return fates_of(entry.direct, len(entry.records))
