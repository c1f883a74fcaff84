"""Timing of a dispatcher: waits that end early, one timer for all that is due, and the rate of requests."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from math import inf

from app.delivery.rate import RateLimit
from app.interfaces import Clock, Sink
from app.model.rates import event_rate
from app.model.subscription import Subscription
from app.telemetry.light_event import AnyEvent, LightEvent


async def wait_for_event(event: AnyEvent, clock: Clock, seconds: float | None) -> bool:
    """Wait for the event, at most the given seconds (None: without limit). Return True if it was set."""
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
    """Runs an action whenever something is due, and sleeps in between."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment = inf
        self._sooner = LightEvent()

    async def run(self, act: Callable[[float], float | None]) -> None:
        """Call ``act`` with the monotonic time whenever something is due.

        Args:
            act: does what is due and returns the next due time, or None.
        """
        while True:
            self._moment = inf
            self.wake_at(act(self._clock.monotonic()))
            self._sooner.clear()
            seconds = self._moment - self._clock.monotonic()
            if seconds <= 0:
                await asyncio.sleep(0)  # other tasks get a turn
            else:
                await wait_for_event(self._sooner, self._clock, None if seconds == inf else seconds)

    def wake_at(self, moment: float | None) -> None:
        """Call the action at this time (monotonic seconds) at the latest."""
        if moment is not None and moment < self._moment:
            self._moment = moment
            self._sooner.set()

    def wake_now(self) -> None:
        """Call the action as soon as possible."""
        self.wake_at(self._clock.monotonic())


class SendRate:
    """The rate of requests that the target and the subscription (``rate_limit``) allow."""

    def __init__(self, subscription: Subscription, sink: Sink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._limit: RateLimit | None = None
        self.wait = sink.pace  # seconds until an attempt may begin; 0 if one may begin now
        if subscription.rate_limit is not None:
            self.wait = self._wait
            self._limit = RateLimit(*event_rate(subscription.rate_limit))

    def _wait(self) -> float:
        limited = 0.0 if self._limit is None else self._limit.wait(self._clock.monotonic())
        return max(limited, self._sink.pace())

    def room(self, now: float) -> int:
        """Return how many events a request may have that is sent at ``now``; at least one."""
        return sys.maxsize if self._limit is None else max(1, self._limit.room(now))

    def begun(self, now: float) -> None:
        """Count an event of an attempt that begins. The sink counts its requests itself."""
        if self._limit is not None:
            self._limit.take(now)
