"""Long computations: on the event loop in slices, between which the loop serves everything else, or in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

SLICE = 64  # units between two turns of the loop: some tenths of a millisecond

T = TypeVar("T")

_THREAD = ThreadPoolExecutor(
    1, "computation"
)  # one: each thread that computes delays the loop by 5 ms a turn


async def in_thread(compute: Callable[[], T]) -> T:
    """Return what ``compute`` returns. Only one computation of the process runs at a time, in their order."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, compute)


class Turns:
    """The slices of one computation. ``longest``: most units that were ever done between two turns of the loop."""

    longest = 0

    def __init__(self) -> None:
        self._done = 0

    async def spend(self, units: int) -> None:
        """Count units that were done, and let the loop turn when a slice is full."""
        self._done += units
        if self._done > self.longest:
            type(self).longest = self._done
        if self._done >= SLICE:
            self._done = 0
            await asyncio.sleep(0)
