"""When a record is due."""

from __future__ import annotations

from app.interfaces import Clock

CATCH_UP = 5.0
"""Seconds that a replay may be behind and make good: beyond, what was lost is not sent in a burst."""

TURN = 0.05
"""Seconds of records that leave together."""


class Pace:
    """``rate``: events a second. ``speed``: how many times as fast as they came. None and None: at once."""

    def __init__(self, clock: Clock, rate: float | None = None, speed: float | None = None) -> None:
        self._clock = clock
        self._rate, self._speed = rate, speed
        self._begun: float | None = None
        self._first: int | None = None
        self._sent = 0

    @property
    def most(self) -> int | None:
        """Records that may leave at once; None: any number."""
        if self._speed is not None:
            return 1
        return None if self._rate is None else max(1, int(self._rate * TURN))

    async def wait(self, records: int, moment: int) -> None:
        """Until the next ``records`` may leave, of which the first came at ``moment`` (microseconds)."""
        now = self._clock.monotonic()
        if self._begun is None or self._first is None:
            self._begun, self._first = now, moment
        due = self._begun + self._after(moment, self._first)
        self._sent += records
        if due > now:
            await self._clock.sleep(due - now)
        elif now - due > CATCH_UP:
            self._begun += now - due - CATCH_UP

    def _after(self, moment: int, first: int) -> float:
        by_rate = self._sent / self._rate if self._rate else 0.0
        by_time = (moment - first) / 1e6 / self._speed if self._speed else 0.0
        return max(by_rate, by_time)
