"""Long computations on the event loop, in slices between which the loop serves everything else."""

from __future__ import annotations

import asyncio

SLICE = 64  # units between two turns of the loop: some tenths of a millisecond


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
