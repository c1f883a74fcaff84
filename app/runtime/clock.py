"""The one real clock; tests bring their own."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Fills ``interfaces.Clock``."""

    def now(self) -> float:
        return time.time()  # noqa: TID251 - this is the Clock that everybody takes

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
