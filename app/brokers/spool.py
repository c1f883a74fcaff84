"""Publish to the target of a route, or to the route's spool while the target's broker is away.

In this module a *lane* is a partition of the spool. The record key chooses the lane. Each lane has one of
three states:

* direct: The spool has no record of the lane, so new records go to the target. A publish may fail because
  the broker is away, or with an unknown result. Then all unfinished records of the lane move to the spool
  in their order. A record that was on the wire may then be stored twice. All lanes move if one makes no
  progress and the broker fails two health checks in a row. Without this, senders would wait for the
  client's retries until the publish time-out.
* spooled: The spool has records of the lane, so new records are appended after them.
* held: The spool has few records of the lane, and they are being drained. New records wait in memory for a
  moment, until the drain has committed the last record. Then the lane is direct again, in order.

All decisions are made on the event loop without an ``await``, so no other task can interfere. A restart
needs only the end and the commit position of the spool. Records without a key have no order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from app.bindings.record import Record
from app.bindings.spooled import to_spooled
from app.brokers.delegate import DelegatingLog
from app.brokers.portable import size_of
from app.brokers.spool_capacity import SpoolBacklog, SpoolCapacity
from app.errors import BoundReached, BrokerUnavailable, PublishUnknown
from app.interfaces import Log, PublishResult, ResultCallback, results_of
from app.routing.identity import Identity
from app.routing.partitions import partition_of

When = Literal["outage", "always", "never"]
Stored = asyncio.Future[list[PublishResult]]
ToldAll = Callable[[list[PublishResult]], None]

HANDOVER = 500  # most records of a lane in the spool for which the lane is held
HOLD = 2.0  # most seconds for which a lane is held; it is not held again for as long
HELD = 10_000  # most records that wait in a held lane
LOOK = 0.02  # seconds between checks of held lanes
STALL = 0.25  # seconds without progress before a health check of the target, and between two checks


class _Entry:
    """The records of one spool partition (lane) from one call of submit, with their results. ``on_results``
    is called once, with all results."""

    __slots__ = ("direct", "on_results", "records", "results", "topic")

    def __init__(self, topic: str, records: Sequence[Record], on_results: ToldAll) -> None:
        self.topic = topic
        self.records = records
        self.on_results = on_results
        self.results: list[PublishResult | None] = [None] * len(records)
        self.direct: Stored | None = None

    def conclude(self) -> None:
        self.on_results(self.results)  # type: ignore[arg-type]  # all have a result now


class _Lane:
    """One partition of the spool, and its records in flight.

    Attributes:
        number: The number of the partition. None is the lane of records without a key.
        open: Entries in flight to the target, in their order.
        appends: The count of records in flight to the spool.
        held: Entries that wait in memory.
    """

    __slots__ = ("appends", "held", "hold_from", "hold_until", "number", "open")

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.open: dict[_Entry, None] = {}
        self.appends = 0
        self.held: list[_Entry] = []
        self.hold_from = self.hold_until = 0.0


class SpoolingLog(DelegatingLog):
    """A ``Log`` that publishes to the spool while the target's broker is away, and to the target otherwise.

    Args:
        name: The name of this log.
        target: The log of the route's target.
        spool: The embedded log that holds the spool.
        topic: The topic of the spool on ``spool``.
        waits: The records in the spool that have not been published to the target.
        when: The setting of the route. "never" means that the setting was removed: new records follow those
            in the spool, and the sender receives the target's errors again.
        most: Most bytes in the spool.
        began: Called with the cause when an outage puts the first record into an empty spool.
    """

    def __init__(
        self,
        name: str,
        target: Log,
        spool: Log,
        topic: str,
        waits: SpoolBacklog,
        *,
        when: When,
        most: int,
        began: Callable[[str], None] = lambda _cause: None,
    ) -> None:
        super().__init__(name, target)
        self.when: When = when
        self.room = SpoolCapacity(target, waits, most)
        self.cause = ""  # why records went to the spool most recently
        self.repeats = 0  # records that may be stored twice at the target
        self.spooling = False
        self._spool = spool
        self._topic = topic
        self._waits = waits
        self._began = began
        self._away = False
        self._oldest: frozenset[_Entry] = (
            frozenset()
        )  # the first entry of each lane at the last check
        self._unwell = 0  # failed health checks in a row, while a lane makes no progress
        self._lanes: dict[int | None, _Lane] = {}
        self._holding: dict[_Lane, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._appends = 0

    # Publishing.

    def submit(
        self,
        topic: str,
        records: Sequence[Record],
        identities: Sequence[Identity | None] | None = None,  # noqa: ARG002 - `check` rejects a route with both settings
    ) -> Stored:
        stored: Stored = asyncio.get_running_loop().create_future()
        on_results = partial(_resolve, stored)
        if len(records) == 1:
            self._enter(self._lane(records[0].key), _Entry(topic, records, on_results))
        else:
            self._submit_many(topic, records, on_results)
        return stored

    def submit_one(
        self, topic: str, record: Record, on_result: ResultCallback
    ) -> PublishResult | None:
        known: list[PublishResult] = []
        entry = _Entry(topic, (record,), known.extend)
        self._enter(self._lane(record.key), entry)
        if known:
            return known[0]
        entry.on_results = lambda results: on_result(results[0])
        return None

    def _submit_many(self, topic: str, records: Sequence[Record], on_results: ToldAll) -> None:
        """Submit one entry for each spool partition (lane) of the records, so that the lanes do not wait for
        each other."""
        lanes: dict[_Lane, list[int]] = {}
        for index, record in enumerate(records):
            lanes.setdefault(self._lane(record.key), []).append(index)
        whole = _Entry(topic, records, on_results)
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
            return True  # a later record must not overtake these
        if lane.number is None:
            return not self.away
        return not self._behind(lane) and not self.away

    @property
    def away(self) -> bool:
        """Return True if the last publish to the target failed and the spool has records. These records will
        test the target again."""
        if self._away and (self.when == "never" or not (self._appends or self._waits.records)):
            self._away = False
        return self._away

    def _behind(self, lane: _Lane) -> bool:
        return lane.appends > 0 or (
            lane.number is not None and self._waits.waiting(lane.number) > 0
        )

    # Publishing to the target.

    def _publish(self, lane: _Lane, entry: _Entry) -> None:
        entry.direct = direct = self.target.submit(entry.topic, entry.records)
        lane.open[entry] = None
        if direct.done():
            self._on_published(lane, entry)
        else:
            direct.add_done_callback(lambda _: self._on_published(lane, entry))

    def _on_published(self, lane: _Lane, entry: _Entry) -> None:
        if entry not in lane.open:
            return  # the entry has moved to the spool
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
        """Move entries of one spool partition (lane) from the target to the spool. Records that are known to
        be stored or rejected are left out."""
        for entry in entries:
            del lane.open[entry]
        for entry in entries:
            assert entry.direct is not None  # noqa: S101 - an open entry was published
            if entry.direct.done():
                for index, result in enumerate(_results(entry)):
                    entry.results[index] = None if _is_away(result) else result
                    self.repeats += isinstance(result, PublishUnknown)
            else:
                entry.direct.cancel()  # stops the driver from sending records that are not on the wire yet
                self.repeats += len(entry.records)
            self._append(lane, entry)

    def _went_away(self, cause: str) -> None:
        self._away = True
        self.cause = cause

    async def look_after_target(self) -> None:
        """Check the target's health if any spool partition (lane) makes no progress. Called every ``STALL``
        seconds.

        All records in flight move to the spool if no progress was made and two checks in a row failed. So
        an outage is noticed before a publish times out.
        """
        if self.when == "never" or not self._is_stalled():
            self._unwell = 0
            return
        health = await self.target.health()
        if health.healthy or not self._is_stalled():
            self._unwell = 0
            return
        self._unwell += 1
        if self._unwell > 1:
            self._went_away(health.cause)
            for lane in self._lanes.values():
                self._take_back(lane, list(lane.open))

    def _is_stalled(self) -> bool:
        """Return True if the first entry of any spool partition (lane) is the same as at the last check."""
        before = self._oldest
        self._oldest = frozenset(
            next(iter(lane.open)) for lane in self._lanes.values() if lane.open
        )
        return not before.isdisjoint(self._oldest)

    # Appending to the spool.

    def _append(self, lane: _Lane, entry: _Entry) -> None:
        places = [place for place, result in enumerate(entry.results) if result is None]
        for place in places:
            entry.results[place] = self.room.refusal(entry.topic, entry.records[place])
        places = [place for place in places if entry.results[place] is None]
        records = [to_spooled(entry.records[n], self.target.name, entry.topic) for n in places]
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
        results = results_of(stored, len(places))
        for place, result in zip(places, results, strict=True):
            entry.results[place] = result
        entry.conclude()

    def _full(self, size: int) -> BoundReached | None:
        if self.room.has(size):
            return None
        why = (
            f"{self.target.name} is away ({self.cause})"
            if self._away
            else "the target takes records too slowly"
        )
        text = f"the spool has reached its {self.room.most} bytes: {why}"
        return BoundReached(text, broker=self.name)

    def _note_begin(self) -> None:
        if not self.spooling:
            self.spooling = True
            if self.when == "outage":
                self._began(self.cause)

    # From the spool back to the target.

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

    # Calls of the drain and of the runtime.

    def drained(self, topic: str, record: Record, result: PublishResult) -> None:
        """Handle the target's result for a record that was read from the spool."""
        if _is_away(result):
            self._went_away(str(result))
            self.repeats += isinstance(result, PublishUnknown)
        else:
            self._away = False
            self.room.learn(topic, record, result)

    @property
    def idle(self) -> bool:
        """Return True if no record waits in the spool or in memory."""
        return not (self._appends or self._holding or self._waits.records)

    def ended(self) -> bool:
        """Return True if a period of spooling has ended since the last call."""
        if not self.spooling or not self.idle:
            return False
        self.spooling = False
        return True

    def set(self, when: When, most: int) -> None:
        """Apply a changed configuration.

        With "always", records in flight to the target move to the spool too. Otherwise later records could
        overtake them.

        Args:
            when: The new setting of the route.
            most: Most bytes in the spool.
        """
        self.when, self.room.most = when, most
        if when == "always":
            for lane in self._lanes.values():
                self._take_back(lane, list(lane.open))

    async def stop(self) -> None:
        """Append the entries that wait in memory to the spool."""
        for lane in list(self._holding):
            self._give_up_holding(lane, asyncio.get_running_loop().time())


def _resolve(stored: Stored, results: list[PublishResult]) -> None:
    if not stored.done():  # a done future has no waiting caller
        stored.set_result(results)


def _is_away(result: PublishResult | None) -> bool:
    """Return True if the sender would get 503 for this result. The broker is away, the result is unknown, or
    the limit of records in flight is reached."""
    return isinstance(result, BrokerUnavailable)


def _results(entry: _Entry) -> Sequence[PublishResult]:
    assert entry.direct is not None  # noqa: S101 - the entry was published
    return results_of(entry.direct, len(entry.records))
