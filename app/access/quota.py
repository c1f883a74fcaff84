"""How much a caller may use: events in time, and things that it holds at once.

Events are counted by the generic cell rate algorithm (GCRA), one number per caller.

An allowance of ``burst`` events refills at ``rate`` events a second. A request that does not fit takes
nothing, so a caller that keeps asking too early is not punished for it. Where nothing can be refused
(Kafka's producers), events are charged all the same, and the caller has to wait until its debt is paid.

What is held at once (bytes, topics, members) has a ``SharedLimit``: a bound for all callers, and a share for each.
"""

from __future__ import annotations

import math

import msgspec

SHARES = 4  # of a budget: one caller has no more than one of them
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

    def apply(self, quota: Quota, now: float) -> None:
        """Apply another quota from now on. The events that were taken before stay taken."""
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


def share_of(bound: int) -> int:
    """Return the part of ``bound`` that one caller may hold."""
    return max(1, bound // SHARES)


class SharedLimit:
    """A bound on one thing: all owners together hold at most ``bound`` of it, and each of them at most ``share``.

    An owner is the name of a user. The owner "" stands for callers without a name of their own: the bound
    for all holds for it, and no share.
    """

    __slots__ = ("_by_owner", "bound", "held", "share")

    def __init__(self, bound: int, share: int | None = None) -> None:
        self.bound = bound
        self.share = share_of(bound) if share is None else share
        self.held = 0
        self._by_owner: dict[str, int] = {}

    def of(self, owner: str) -> int:
        """Return what ``owner`` holds."""
        return self._by_owner.get(owner, 0)

    def left(self, owner: str) -> int:
        """Return how much more ``owner`` may hold."""
        left = self.bound - self.held
        if owner:
            left = min(left, self.share - self._by_owner.get(owner, 0))
        return max(0, left)

    def add(self, owner: str, size: int) -> None:
        """Count ``size`` more for ``owner``, or less where it is negative; nothing is refused here."""
        self.held += size
        if mine := self._by_owner.get(owner, 0) + size:
            self._by_owner[owner] = mine
        else:
            self._by_owner.pop(owner, None)
