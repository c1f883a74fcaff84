"""How many events a caller may send: the generic cell rate algorithm (GCRA), one number per caller.

An allowance of ``burst`` events refills at ``rate`` events a second. A request that does not fit takes
nothing, so a caller that keeps asking too early is not punished for it. Where nothing can be refused
(Kafka's producers), events are charged all the same, and the caller has to wait until its debt is paid.
"""

from __future__ import annotations

import math

import msgspec

_ROUNDING = 1e-9  # of the burst: sums of float times must not refuse the very last event


class Quota(msgspec.Struct, frozen=True):
    """``rate``: events a second, above 0. ``burst``: most events at once, at least 1."""

    rate: float
    burst: int

    @property
    def window(self) -> float:
        """Seconds in which an empty allowance is full again."""
        return self.burst / self.rate


class Allowance:
    """The state of one caller. Times are seconds of one clock that never goes back."""

    __slots__ = ("_full_at", "_most", "quota")

    def __init__(self, quota: Quota) -> None:
        self._full_at = -math.inf
        self._use(quota)

    def become(self, quota: Quota, now: float) -> None:
        """From now on. The events that were taken before stay taken."""
        missing = self.reset(now) * self.quota.rate
        self._use(quota)
        self._full_at = now + missing / quota.rate

    def _use(self, quota: Quota) -> None:
        self.quota = quota
        self._most = quota.window * (1 + _ROUNDING)

    def take(self, count: int, now: float) -> float:
        """0.0: ``count`` events are taken. Otherwise nothing is, and this many seconds from ``now`` it
        would be; infinity for more events than ``burst``, which never fit."""
        quota = self.quota
        full_at = self._full_at
        full_at = max(full_at, now)
        full_at += count / quota.rate
        if full_at - now <= self._most:
            self._full_at = full_at
            return 0.0
        if count > quota.burst:
            return math.inf
        return full_at - now - quota.window

    def wait(self, now: float) -> float:
        """Seconds until one event could be taken; 0.0 where it could now. Nothing is taken."""
        quota = self.quota
        wait = self._full_at + 1 / quota.rate - now
        return 0.0 if wait <= self._most else wait - quota.window

    def charge(self, count: int, now: float) -> None:
        """``count`` events are taken, also beyond what there is."""
        self._full_at = max(self._full_at, now) + count / self.quota.rate

    def debt(self, now: float) -> float:
        """Seconds until all that was charged is paid."""
        return max(0.0, self._full_at - now - self._most)

    def remaining(self, now: float) -> int:
        """Events that could be taken now."""
        missing = max(0.0, self._full_at - now) * self.quota.rate
        return max(0, math.floor(self.quota.burst * (1 + _ROUNDING) - missing))

    def reset(self, now: float) -> float:
        """Seconds until the allowance is full."""
        return max(0.0, self._full_at - now)
