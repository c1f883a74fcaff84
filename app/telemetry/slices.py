"""Long computations: on the event loop in slices, so that the loop serves other tasks between them,
or in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

SLICE = 64  # units between two turns of the loop: some tenths of a millisecond

T = TypeVar("T")

_THREAD = ThreadPoolExecutor(
    1, "computation"
)  # one thread: each computing thread delays a turn of the loop by 5 ms


async def in_thread(compute: Callable[[], T]) -> T:
    """Run ``compute`` in a thread and return its result. The process runs one such computation at a
    time, in order.
    """
    return await asyncio.get_running_loop().run_in_executor(_THREAD, compute)


class Turns:
    """The slices of one computation. ``longest`` is the largest number of units between two turns
    of the loop so far.
    """

    longest = 0

    def __init__(self) -> None:
        self._done = 0

    async def spend(self, units: int) -> None:
        """Count finished units of work, and let the event loop run other tasks when a slice is
        full.
        """
        if self.fills(units):
            await asyncio.sleep(0)

    def fills(self, units: int) -> bool:
        """Count finished units of work. Return True if a slice is full: the caller lets the event loop run other
        tasks."""
        self._done += units
        if self._done > self.longest:
            type(self).longest = self._done
        if self._done < SLICE:
            return False
        self._done = 0
        return True
