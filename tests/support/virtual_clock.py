"""A clock that moves only when a test says so."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

BEGIN = 1_700_000_000.0
TURNS = 30  # of the loop, for what a timer sets going to come to rest
QUIET = 3  # turns that nobody else wanted: between two timers that is rest


class VirtualClock:
    """Fills ``interfaces.Clock``. Wall clock and monotonic clock move together. ``ahead``: seconds by which
    the wall clock differs from other people's, which a test may change."""

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
        """Move on, waking sleepers in the order of their moments."""
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
