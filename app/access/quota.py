"""Quotas of callers: events over time, and resources held at once.

Events are counted by the generic cell rate algorithm (GCRA), with one number for each caller. An
allowance of ``burst`` events refills at ``rate`` events a second. A request that does not fit takes
nothing, so early retries are not punished. Kafka's producers cannot be refused. Their events are
charged anyway, and the caller waits until its debt is paid.

Resources held at once (bytes, topics, members) have a ``SharedLimit``: a bound for all callers, and
a share for each.
"""

from __future__ import annotations

import math

import msgspec

SHARES = 4  # a caller may hold one of so many equal parts of a limit
_ROUNDING = 1e-9  # share of the burst: rounding of floats must not refuse the last event


class Quota(msgspec.Struct, frozen=True):
    """A rate limit.

    Attributes:
        rate: Events a second, above 0.
        burst: The largest number of events at once, at least 1.
    """

    rate: float
    burst: int

    @property
    def window(self) -> float:
        """Return the seconds in which an empty allowance is full again."""
        return self.burst / self.rate


class Allowance:
    """The remaining quota of one caller. Times are seconds of one clock that never goes back."""

    __slots__ = ("_full_at", "_most", "quota")

    def __init__(self, quota: Quota) -> None:
        self._full_at = -math.inf
        self._use(quota)

    def apply(self, quota: Quota, now: float) -> None:
        """Replace the quota from now on. Events that were taken under the old quota still count."""
        missing = self.reset(now) * self.quota.rate
        self._use(quota)
        self._full_at = now + missing / quota.rate

    def _use(self, quota: Quota) -> None:
        self.quota = quota
        self._most = quota.window * (1 + _ROUNDING)

    def take(self, count: int, now: float) -> float:
        """Take ``count`` events and return 0.0, or take nothing and return the seconds until they
        would fit.

        The result is infinity if ``count`` is larger than ``burst``, because such a request never
        fits.
        """
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
        """Return the seconds until one event would fit; 0.0 if it fits now. Nothing is taken."""
        quota = self.quota
        wait = self._full_at + 1 / quota.rate - now
        return 0.0 if wait <= self._most else wait - quota.window

    def charge(self, count: int, now: float) -> None:
        """Take ``count`` events even if the quota does not permit them. The excess becomes a debt."""
        self._full_at = max(self._full_at, now) + count / self.quota.rate

    def debt(self, now: float) -> float:
        """Return the seconds until the quota has made up for all events that were charged beyond it."""
        return max(0.0, self._full_at - now - self._most)

    def remaining(self, now: float) -> int:
        """Return the number of events that the quota permits now."""
        missing = max(0.0, self._full_at - now) * self.quota.rate
        return max(0, math.floor(self.quota.burst * (1 + _ROUNDING) - missing))

    def reset(self, now: float) -> float:
        """Return the seconds until the allowance is full."""
        return max(0.0, self._full_at - now)


def share_of(bound: int) -> int:
    """Return the part of ``bound`` that one caller may hold."""
    return max(1, bound // SHARES)


class SharedLimit:
    """A limit on a resource: all users together hold at most ``bound`` of it, and each user at most
    ``share``.

    An owner is the name of a user. Anonymous callers have the owner "", to whom only the common bound
    applies.
    """

    __slots__ = ("_by_owner", "bound", "held", "share")

    def __init__(self, bound: int, share: int | None = None) -> None:
        self.bound = bound
        self.share = share_of(bound) if share is None else share
        self.held = 0
        self._by_owner: dict[str, int] = {}

    def of(self, owner: str) -> int:
        """Return how much ``owner`` holds."""
        return self._by_owner.get(owner, 0)

    def left(self, owner: str) -> int:
        """Return how much more ``owner`` may hold."""
        left = self.bound - self.held
        if owner:
            left = min(left, self.share - self._by_owner.get(owner, 0))
        return max(0, left)

    def add(self, owner: str, size: int) -> None:
        """Add ``size`` to what ``owner`` holds. A negative size releases a part. The method does not check
        the limit; ``left`` does.
        """
        self.held += size
        if mine := self._by_owner.get(owner, 0) + size:
            self._by_owner[owner] = mine
        else:
            self._by_owner.pop(owner, None)
