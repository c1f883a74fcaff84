"""The only source of time in packages that do I/O."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The only source of time in packages that do I/O, so that tests can control it."""

    def now(self) -> float:
        """Return the wall-clock time in seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for timers and leases."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
