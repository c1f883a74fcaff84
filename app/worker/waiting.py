"""Waiting for something to happen, but not for ever."""

from __future__ import annotations

import asyncio
from math import inf

from app.interfaces import Clock


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


class Alarm:
    """Sleeps until a moment that others may bring forward, also before the sleep begins."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment = inf
        self._sooner = asyncio.Event()

    def clear(self) -> None:
        """What was asked for until now has been seen to."""
        self._sooner.clear()
        self._moment = inf

    def no_later_than(self, moment: float) -> None:
        if moment < self._moment:
            self._moment = moment
            self._sooner.set()

    async def sleep_until(self, moment: float | None) -> None:
        self._moment = min(self._moment, inf if moment is None else moment)
        self._sooner.clear()
        seconds = self._moment - self._clock.monotonic()
        if seconds <= 0:
            await asyncio.sleep(0)  # others have their turn all the same
        else:
            await happened(self._sooner, self._clock, None if seconds == inf else seconds)
