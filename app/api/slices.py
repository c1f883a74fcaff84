"""Long computations of the API, in slices: between two of them the event loop serves everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

SLICE = 64  # units between two turns of the loop: some tenths of a millisecond


class Slices:
    """One request's turns. ``longest``: most units that were ever done between two turns of the loop."""

    longest = 0

    def __init__(self) -> None:
        self._done = 0

    async def run(self, steps: Generator[int, None, T]) -> T:
        """Return what the steps return. Each yields the units that it took."""
        while True:
            try:
                units = next(steps)
            except StopIteration as end:
                found: T = end.value
                return found
            await self.spend(units)

    async def spend(self, units: int) -> None:
        """Count units that were done, and let the loop turn when a slice is full."""
        self._done += units
        Slices.longest = max(Slices.longest, self._done)
        if self._done >= SLICE:
            self._done = 0
            await asyncio.sleep(0)
