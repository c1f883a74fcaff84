"""Record the points of ``/v1/history`` in a ring buffer in memory. They are lost when the process ends.

A point has rates since the previous point, and backlogs in logs and store at its time. The rates are sums of
existing counters. A backlog must be requested from a broker or the store. Its value is cached for a hundred
times the duration of the request. While this process is idle without viewers, the backlog is requested once a
minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from app.api.asked.subscriptions import Subscriptions
from app.api.status.subscription_history import SubscriptionHistories
from app.errors import SkybridgeError
from app.interfaces import Clock, DeadLetterFilter, Store
from app.model.pull import HANDED_OUT
from app.telemetry import Counters
from app.telemetry.histograms import QUICK

EVERY = 10  # seconds between points of the ring
POINTS = 360  # points of the ring, for an hour
LIVE = 1.0  # seconds between points of the stream
SPARED = 100  # an answer is kept for this multiple of the time that it took
CACHED_AT_LEAST = 2.0  # seconds that an answer is kept at least
CACHED_AT_MOST = 60.0  # seconds that an answer is kept at most

_SUCCESSES = frozenset({"2xx", HANDED_OUT})  # outcomes of successful attempts

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class CounterTotals(NamedTuple):
    """Totals of the counters since the start. ``at`` is in seconds of the monotonic clock, and ``publishes``
    has the count of each bucket of the histogram ``publish_seconds``."""

    at: float
    received: int
    published: int
    refused: int
    delivered: int
    failed: int
    publishes: Sequence[int]


RATES = ("received", "published", "refused", "delivered", "failed")


def counts_of(counters: Counters, at: float) -> CounterTotals:
    """Return the totals of the counters now. ``at`` is the time of the monotonic clock in seconds."""
    deliveries, attempts = counters.series("deliveries"), counters.series("attempts")
    timings = counters.histogram("publish_seconds").values()
    return CounterTotals(
        at=at,
        received=counters.total("events_received"),
        published=counters.total("events_published"),
        refused=counters.total("events_refused"),
        delivered=sum(each for labels, each in deliveries.items() if labels[-1] == "delivered"),
        failed=sum(each for labels, each in attempts.items() if labels[-1] not in _SUCCESSES),
        publishes=[sum(each) for each in zip(*(timing.buckets for timing in timings), strict=True)],
    )


def rates(now: CounterTotals, before: CounterTotals) -> dict[str, float]:
    """Return events per second between two totals, by name."""
    seconds = max(now.at - before.at, 1e-3)
    return {
        name: round((getattr(now, name) - getattr(before, name)) / seconds, 3) for name in RATES
    }


def quantile(share: float, now: CounterTotals, before: CounterTotals) -> float | None:
    """Return a quantile of the publish duration between two totals, in milliseconds.

    Values are assumed to be spread evenly inside a bucket. Above the last bound, that bound is returned.
    Without publishes, the result is None.
    """
    earlier = before.publishes or [0] * len(now.publishes)
    added = [new - old for new, old in zip(now.publishes, earlier, strict=True)]
    wanted = share * sum(added)
    lower, seen = 0.0, 0
    for bound, count in zip(QUICK, added, strict=False):
        if count and seen + count >= wanted:
            return round((lower + (bound - lower) * (wanted - seen) / count) * 1000, 3)
        lower, seen = bound, seen + count
    return lower * 1000 if sum(added) else None


class CachedNumber:
    """A number that is slow to obtain. It is cached in proportion to the time that the last request took."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[int | None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._until = self._until_at_rest = -math.inf
        self._work: Sequence[object] | None = None  # counts of the work at the last call
        self._value: int | None = None

    async def value(self, work: Sequence[object] | None = None) -> int | None:
        """Return the number. Request it again if the cached value is too old.

        Args:
            work: Counts of the work that this process has done. While they do not change, the cached value is
                kept for a minute. None means that a viewer waits, so a value that is too old is always
                requested again.
        """
        begun = self._monotonic()
        if begun < self._until or (begun < self._until_at_rest and work == self._work):
            return self._value
        try:
            async with asyncio.timeout(LIVE):
                self._value = await self._ask()
        except (SkybridgeError, TimeoutError):
            self._value = None
        now = self._monotonic()
        self._until = now + min(CACHED_AT_MOST, max(CACHED_AT_LEAST, SPARED * (now - begun)))
        at_rest = work is not None and work == self._work and self._value is not None
        self._until_at_rest = begun + CACHED_AT_MOST if at_rest else -math.inf
        self._work = work
        return self._value


class Recorder:
    """A recorder of the history of a process. ``run`` is its task. ``stopped`` ends the task and the streams."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        store: Store,
        counters: Counters,
        clock: Clock,
        stopped: asyncio.Event,
    ) -> None:
        self._subscriptions = subscriptions
        self._store = store
        self._counters = counters
        self._clock = clock
        self._stopped = stopped
        self._turn = asyncio.Event()
        self._watchers = 0
        self._newest: Mapping[str, object] = {}
        self.points: deque[Mapping[str, object]] = deque(maxlen=POINTS)
        self.subscriptions = SubscriptionHistories()
        self._lags: dict[str, int] = {}
        asked = {"lag": self._lag, "parked": self._parked, "dead_letters": self._dead_letters}
        self._standing = {name: CachedNumber(ask) for name, ask in asked.items()}

    async def run(self) -> None:
        """Record points until the service stops."""
        clock, counters = self._clock, self._counters
        every = second = counts_of(counters, clock.monotonic())
        lags: list[float] = []
        try:
            while True:
                begun = clock.monotonic()
                if await self._has_stopped():
                    return
                now = counts_of(counters, clock.monotonic())
                lags.append(max(0.0, now.at - begun - LIVE))
                if self._watchers:
                    self._newest = await self._point(now, second, lags[-1])
                if now.at - every.at >= EVERY - LIVE / 2:
                    self.points.append(await self._point(now, every, max(lags)))
                    self.subscriptions.add(clock.now(), counters, self._lags)
                    every, lags = now, []
                second = now
                self._wake_viewers()
        finally:
            self._wake_viewers()

    async def follow(self) -> AsyncGenerator[Mapping[str, object], None]:
        """Yield every new point of the stream until the service stops."""
        self._watchers += 1
        try:
            while not self._stopped.is_set():
                before = self._newest
                await self._turn.wait()
                if self._newest is not before:
                    yield self._newest
        finally:
            self._watchers -= 1

    async def _has_stopped(self) -> bool:
        """Wait a second, or until the service stops. Return True if it has stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIVE):
                await self._stopped.wait()
        return self._stopped.is_set()

    def _wake_viewers(self) -> None:
        """Wake the viewers that wait for the next point of the stream."""
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    async def _point(
        self, now: CounterTotals, before: CounterTotals, lag: float
    ) -> Mapping[str, object]:
        """Return a point with the rates between two totals and with the current backlogs."""
        work = None if self._watchers else now[1:]
        return {
            "at": round(self._clock.now(), 3),
            **rates(now, before),
            **{name: await each.value(work) for name, each in self._standing.items()},
            "publish_p50_ms": quantile(0.5, now, before),
            "publish_p99_ms": quantile(0.99, now, before),
            "loop_lag_ms": round(lag * 1000, 3),
            "rss_bytes": resident_bytes(),
        }

    async def _lag(self) -> int | None:
        """Return the lag of all groups, with the events in pull queues, or None if the lag of a group is
        unknown. Such a group gets no sample of its own."""
        self._lags = {}  # a failure below leaves no earlier lags as present ones
        lags = (await self._subscriptions.lag()).totals()
        known = {group: lag for group, lag in lags.items() if lag is not None}
        for group, waiting in (await self._queues()).items():
            if group in known or group not in lags:
                known[group] = known.get(group, 0) + waiting
        self._lags = known
        return sum(known.values()) if lags.keys() <= known.keys() else None

    async def _queues(self) -> Mapping[str, int]:
        """Return the number of events in each pull queue, by the group of its subscription."""
        queues = await self._store.pulled.count_all()
        if not queues:
            return {}
        statuses = await self._subscriptions.statuses()
        return {each.group: queues[each.id].rows for each in statuses if each.id in queues}

    async def _parked(self) -> int | None:
        counts = await self._store.parked.count()
        return sum(each.rows for each in counts.values())

    async def _dead_letters(self) -> int | None:
        return sum((await self._store.letters.count(DeadLetterFilter())).values())


def resident_bytes() -> int | None:
    """Return the resident memory of the process in bytes, or None if the system does not report it."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except OSError:
        return None
