"""The real clock of a service. Tests use their own."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """The clock of the system, as ``interfaces.Clock``."""

    def now(self) -> float:
        """Return the wall clock in seconds since the epoch."""
        return time.time()  # noqa: TID251 - all other code uses this Clock

    def monotonic(self) -> float:
        """Return the monotonic clock in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        await asyncio.sleep(seconds)
