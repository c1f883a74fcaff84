"""When: one sleeper for all that is due, and how fast a target may be sent to."""

from __future__ import annotations

import sys
from collections.abc import Callable

from app.delivery.rate import RateLimit
from app.interfaces import Clock, Sink
from app.model.rates import event_rate
from app.model.subscription import Subscription
from app.worker.waiting import Alarm


class Timekeeper:
    """Does what is due, then sleeps until something else is.

    ``act``  does what is due at a moment (monotonic seconds), and returns the next such moment, or None.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarm = Alarm(clock)

    async def keep(self, act: Callable[[float], float | None]) -> None:
        while True:
            self._alarm.clear()
            await self._alarm.sleep_until(act(self._clock.monotonic()))

    def at(self, moment: float | None) -> None:
        """Something is due then: sleep no longer."""
        if moment is not None:
            self._alarm.no_later_than(moment)

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
