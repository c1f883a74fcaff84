"""A caller of the events listener with its rights and its usage. Times are seconds of one clock."""

from __future__ import annotations

from functools import lru_cache

from app.access.quota import Allowance, Quota
from app.access.rights import Rights
from app.errors import Fault, SenderError
from app.model.producer import Producer
from app.model.quota import EventQuota
from app.model.rates import event_rate
from app.problems import ProblemCode

QUOTA_EXCEEDED: ProblemCode = "quota-exceeded"
SPAN = 60.0  # seconds over which the rate of a caller is measured
SOON = 1.0  # seconds to which the events of the first moment are spread


class QuotaExceeded(SenderError):
    """The error 429 of a caller that has used up its quota.

    Attributes:
        quota: The quota.
        wait: The seconds until the events of the request would fit.
        remaining: The number of events that fit now.
        reset: The seconds until the whole quota is available again.
    """

    def __init__(self, quota: Quota, *, wait: float, remaining: int, reset: float) -> None:
        faults = _faults(quota, remaining)
        super().__init__("Quota exceeded", status=429, code=QUOTA_EXCEEDED, faults=faults)
        self.quota = quota
        self.wait = min(wait, quota.window)
        self.remaining = remaining
        self.reset = reset


@lru_cache(maxsize=256)
def _faults(quota: Quota, remaining: int) -> tuple[Fault]:
    detail = (
        f"The quota is {quota.rate:g} events a second and {quota.burst} at once; "
        f"{remaining} are left now."
    )
    return (Fault(QUOTA_EXCEEDED, detail),)


def quota_of(settings: EventQuota) -> Quota:
    """Return the rate limit that the settings of a producer's quota describe."""
    rate = event_rate(settings.events)
    return Quota(rate.events / rate.span, settings.burst)


def demand(allowance: Allowance, count: int, now: float) -> None:
    """Take ``count`` events from what remains of a caller's quota. Raise QuotaExceeded if they do not fit."""
    if wait := allowance.take(count, now):
        raise _exceeded(allowance, wait, now)


def demand_one(allowance: Allowance, now: float) -> None:
    """Raise QuotaExceeded if the caller's quota does not permit even one event now. Nothing is taken from the
    quota. A request that is refused here need not be read.
    """
    if wait := allowance.wait(now):
        raise _exceeded(allowance, wait, now)


def _exceeded(allowance: Allowance, wait: float, now: float) -> QuotaExceeded:
    left, reset = allowance.remaining(now), allowance.reset(now)
    return QuotaExceeded(allowance.quota, wait=wait, remaining=left, reset=reset)


class EventMeter:
    """A count of a caller's events, with their rate.

    The rate is over the current and the previous span of time, or since the first event if that is later.
    """

    __slots__ = ("_before", "_first", "_now", "_since", "events", "last", "refused")

    def __init__(self) -> None:
        self.events = 0
        self.refused = 0  # requests
        self.last: float | None = None
        self._first = 0.0
        self._since = 0.0
        self._now = self._before = 0

    def add(self, count: int, now: float) -> None:
        if now - self._since >= SPAN:
            self._turn(now)
        if not self.events:
            self._first = now
        self._now += count
        self.events += count
        self.last = now

    def rate(self, now: float) -> float:
        """Return the events a second, over about the last ``SPAN`` seconds, or since the first event."""
        if now - self._first < SPAN:
            return self.events / max(SOON, now - self._first)
        if now - self._since >= SPAN:
            self._turn(now)
        share = 1 - (now - self._since) / SPAN
        return (self._before * share + self._now) / SPAN

    def _turn(self, now: float) -> None:
        gone = int((now - self._since) // SPAN)
        self._before, self._now = (self._now if gone == 1 else 0), 0
        self._since += gone * SPAN


class EventSender:
    """A caller: a producer, or an anonymous address with an empty name and all rights.

    Attributes:
        name: The name of the producer.
        rights: The rights of the producer.
        limited: Whether events must be checked against ``rights``.
        allowance: The remaining quota; None without a quota.
        tally: The count of its events.
    """

    __slots__ = ("_quota", "allowance", "limited", "name", "rights", "tally")

    def __init__(
        self,
        name: str,
        rights: Rights,
        quota: Quota | None = None,
        *,
        before: EventSender | None = None,
    ) -> None:
        """Create a caller.

        Args:
            name: The name of the producer; empty for an anonymous caller.
            rights: The rights of the producer.
            quota: The quota; None for no limit.
            before: The same caller under the previous configuration. Both share their counts. The
                old quota applies until ``take_effect`` is called.
        """
        self.name = name
        self.rights = rights
        self.limited = rights.limited
        self._quota = quota
        shared: Allowance | None = None if before is None else before.allowance
        self.allowance: Allowance | None = None if quota is None else shared or Allowance(quota)
        self.tally: EventMeter = EventMeter() if before is None else before.tally

    @classmethod
    def of(cls, producer: Producer, before: EventSender | None = None) -> EventSender:
        """Create the caller of a configured producer. ``before`` is the same caller under the previous
        configuration, or None.
        """
        quota = None if producer.quota is None else quota_of(producer.quota)
        return cls(producer.name, Rights(producer.name, producer.may), quota, before=before)

    def take_effect(self, now: float) -> None:
        """Apply the quota of the present configuration. Events that this caller sent earlier still count."""
        if self.allowance is not None and self._quota is not None:
            self.allowance.apply(self._quota, now)

    def debt(self, now: float) -> float:
        """Return the seconds until the quota has made up for the events that were charged beyond it."""
        return 0.0 if self.allowance is None else self.allowance.debt(now)

    def charge(self, count: int, now: float, *, refused: int = 0) -> None:
        """Charge events that have arrived and can no longer be refused, as those of Kafka clients.

        Args:
            count: The number of events.
            now: The time.
            refused: The number of batches without events; each costs as much as one event.
        """
        if self.allowance is not None:
            self.allowance.charge(count + refused, now)
        if count:
            self.tally.add(count, now)

    def take(self, count: int, now: float) -> None:
        """Take ``count`` events of a request from the quota. Raise QuotaExceeded if they do not fit."""
        if self.allowance is not None:
            demand(self.allowance, count, now)
        self.tally.add(count, now)
