"""When: waits that end early, one sleeper for all that is due, and how fast a target may be sent to."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from math import inf

from app.delivery.rate import RateLimit
from app.interfaces import Clock, Sink
from app.model.rates import event_rate
from app.model.subscription import Subscription


async def happened(event: asyncio.Event, clock: Clock, seconds: float | None) -> bool:
    """Whether ``event`` was set before ``seconds`` were over; None waits without end."""
    if seconds is None:
        return await event.wait()
    if event.is_set() or seconds <= 0:
        return event.is_set()
    set_ = asyncio.ensure_future(event.wait())
    over = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((set_, over), return_when=asyncio.FIRST_COMPLETED)
    finally:
        set_.cancel()
        over.cancel()
    return event.is_set()


class Timekeeper:
    """Does what is due, then sleeps until something else is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment = inf
        self._sooner = asyncio.Event()

    async def keep(self, act: Callable[[float], float | None]) -> None:
        """``act`` does what is due at a moment (monotonic seconds), and returns the next such moment, or None."""
        while True:
            self._moment = inf
            self.at(act(self._clock.monotonic()))
            self._sooner.clear()
            seconds = self._moment - self._clock.monotonic()
            if seconds <= 0:
                await asyncio.sleep(0)  # others have their turn all the same
            else:
                await happened(self._sooner, self._clock, None if seconds == inf else seconds)

    def at(self, moment: float | None) -> None:
        """Something is due then: sleep no longer, also where the sleep has not begun."""
        if moment is not None and moment < self._moment:
            self._moment = moment
            self._sooner.set()

    def soon(self) -> None:
        self.at(self._clock.monotonic())


class Pace:
    """What the target allows, and what the subscription says itself (``rate_limit``)."""

    def __init__(self, subscription: Subscription, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._limit: RateLimit | None = None
        if subscription.rate_limit is not None:
            self._limit = RateLimit(*event_rate(subscription.rate_limit))

    def wait(self) -> float:
        """Seconds until an attempt may begin; 0 when one may now."""
        if self._limit is None:
            return self._sink.pace()
        return max(self._limit.wait(self._clock.monotonic()), self._sink.pace())

    def room(self, now: float) -> int:
        """How many events a request may have that leaves now; at least one, for it is allowed to."""
        return sys.maxsize if self._limit is None else max(1, self._limit.room(now))

    def begun(self, now: float) -> None:
        """An attempt of an event begins. The sink counts the requests that it makes by itself."""
        if self._limit is not None:
            self._limit.take(now)
