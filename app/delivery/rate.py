"""How many attempts a span of time may have: what a webhook allows a minute (``WebHook-Allowed-Rate``,
spec 5.3), and what a subscription says itself (``rate_limit``)."""

from __future__ import annotations

MINUTE = 60.0
_ROUNDING = 1e-6
MARGIN = 1.001  # the receiver's clock, and the way to it, are not ours


class RateLimit:
    """In no span of so many seconds, wherever it begins, are there more than ``count``.

    Attempts are spaced evenly, but that what was not used a moment ago, a twentieth of the span and at
    most a second, may be caught up with: timers are late, and a bound of one exact moment each would
    lose what they are late by. The space between two is lengthened by what may be caught up with.
    """

    def __init__(self, count: int, span: float = MINUTE) -> None:
        at_once = max(1, int(count * min(1 / span, 0.05)))
        self._space = span * MARGIN / (count - at_once + 1)
        self._credit = self._space * (at_once - 1)
        self._next = 0.0  # the moment of the next attempt if all are spaced evenly

    def wait(self, now: float) -> float:
        """Seconds until an attempt may begin; 0 when one may now. ``now``: monotonic seconds."""
        seconds = self._next - self._credit - now
        return seconds if seconds > _ROUNDING else 0.0

    def room(self, now: float) -> int:
        """How many may begin at this moment, together."""
        left = now + self._credit - max(self._next, now)
        return int(left / self._space + 1 + _ROUNDING) if left >= 0 else 0

    def take(self, now: float) -> None:
        """One begins now."""
        self._next = max(self._next, now) + self._space
