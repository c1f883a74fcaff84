"""The rate of attempts: the rate that a webhook allows (``WebHook-Allowed-Rate``), and ``rate_limit``."""

from __future__ import annotations

MINUTE = 60.0
_ROUNDING = 1e-6
MARGIN = 1.001  # for the receiver's clock and the network delay


class RateLimit:
    """Allows at most ``count`` attempts in any span of ``span`` seconds.

    Attempts are spaced evenly. An attempt that a late timer delayed may be made up for, within a twentieth of
    the span and at most one second. To keep the limit anyway, the space between attempts is a little longer.
    """

    def __init__(self, count: int, span: float = MINUTE) -> None:
        at_once = max(1, int(count * min(1 / span, 0.05)))
        self._space = span * MARGIN / (count - at_once + 1)
        self._credit = self._space * (at_once - 1)
        self._next = 0.0  # the moment of the next attempt if all are spaced evenly

    def wait(self, now: float) -> float:
        """Return the seconds until an attempt may begin at ``now`` (monotonic seconds); 0 if it may begin now."""
        seconds = self._next - self._credit - now
        return seconds if seconds > _ROUNDING else 0.0

    def room(self, now: float) -> int:
        """Return how many attempts may begin together at ``now`` (monotonic seconds)."""
        left = now + self._credit - max(self._next, now)
        return int(left / self._space + 1 + _ROUNDING) if left >= 0 else 0

    def take(self, now: float) -> None:
        """Count one attempt that begins at ``now`` (monotonic seconds)."""
        self._next = max(self._next, now) + self._space
