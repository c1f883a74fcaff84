"""The only source of time in the shell."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The only source of time in the shell, so that tests can move it."""

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back; for timers and leases."""

    async def sleep(self, seconds: float) -> None: ...
