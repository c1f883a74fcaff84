"""The real clock of a service. Tests use their own."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """The clock of the system, as ``interfaces.Clock``."""

    now = staticmethod(time.time)  # noqa: TID251 - all other code uses this Clock
    """Return the wall clock in seconds since the epoch."""

    monotonic = staticmethod(time.monotonic)
    """Return the monotonic clock in seconds."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        await asyncio.sleep(seconds)
