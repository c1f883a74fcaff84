"""A clock that only a test moves."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

BEGIN = 1_700_000_000.0
TURNS = 30  # turns of the loop after which everything that a timer started is done
QUIET = 3  # turns without ready callbacks that count as rest between two timers


class VirtualClock:
    """A clock that implements ``interfaces.Clock``. Wall clock and monotonic clock move together.

    Attributes:
        ahead: Seconds by which the wall clock is ahead of other machines. A test may change it.
    """

    def __init__(self) -> None:
        self.ahead = 0.0
        self._now = 1_000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> float:
        return BEGIN + self._now + self.ahead

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), done))
        await done

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and wake sleepers in the order of their deadlines."""
        await self.rest()
        end = self._now + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, done = heapq.heappop(self._sleepers)
            self._now = max(self._now, moment)
            if not done.done():
                done.set_result(None)
                await self._rest_soon()
        self._now = end
        await self.rest()

    def suspend(self, seconds: float) -> None:
        """Let time pass without waking sleepers, as for a process that is suspended."""
        self._now += seconds

    async def rest(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def _rest_soon(self) -> None:
        loop, quiet = asyncio.get_running_loop(), 0
        for _ in range(TURNS):
            await asyncio.sleep(0)
            quiet = 0 if loop._ready else quiet + 1  # type: ignore[attr-defined]
            if quiet == QUIET:
                return
