"""A caller of the events listener, with what is known of it so far. Times are seconds of one clock."""

from __future__ import annotations

from functools import lru_cache

from app.access.quota import Allowance, Quota
from app.access.rights import Rights
from app.errors import Fault, SenderError
from app.model.producer import Producer
from app.model.quota import EventQuota
from app.model.rates import event_rate

QUOTA_EXCEEDED = "quota-exceeded"
SPAN = 60.0  # seconds over which the rate of a caller is told


class QuotaExceeded(SenderError):
    """429. ``wait``: seconds until as many events would fit; ``remaining`` events do now; ``reset``
    seconds until all of ``quota`` is there again."""

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
    rate = event_rate(settings.events)
    return Quota(rate.events / rate.span, settings.burst)


def demand(allowance: Allowance, count: int, now: float) -> None:
    """So many events are taken. Raises QuotaExceeded."""
    if wait := allowance.take(count, now):
        raise _exceeded(allowance, wait, now)


def demand_one(allowance: Allowance, now: float) -> None:
    """Nothing is taken. Raises QuotaExceeded where not even one event could be: so much can be told of a
    request before anything of it is read."""
    if wait := allowance.wait(now):
        raise _exceeded(allowance, wait, now)


def _exceeded(allowance: Allowance, wait: float, now: float) -> QuotaExceeded:
    left, reset = allowance.remaining(now), allowance.reset(now)
    return QuotaExceeded(allowance.quota, wait=wait, remaining=left, reset=reset)


class EventMeter:
    """How many events came, and when: in all, and in the running and the last whole span."""

    __slots__ = ("_before", "_now", "_since", "events", "last", "refused")

    def __init__(self) -> None:
        self.events = 0
        self.refused = 0  # requests
        self.last: float | None = None
        self._since = 0.0
        self._now = self._before = 0

    def add(self, count: int, now: float) -> None:
        if now - self._since >= SPAN:
            self._turn(now)
        self._now += count
        self.events += count
        self.last = now

    def rate(self, now: float) -> float:
        """Events a second, over about the last span."""
        if now - self._since >= SPAN:
            self._turn(now)
        share = 1 - (now - self._since) / SPAN
        return (self._before * share + self._now) / SPAN

    def _turn(self, now: float) -> None:
        gone = int((now - self._since) // SPAN)
        self._before, self._now = (self._now if gone == 1 else 0), 0
        self._since += gone * SPAN


class EventSender:
    """A producer, or an address that is none (``name`` is "", and it has every right).

    ``limited``  its events have to be held against ``rights``.
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
        """``before``: the same caller under other settings. Its counts are shared from now on, and its quota holds
        until ``take_effect``."""
        self.name = name
        self.rights = rights
        self.limited = rights.limited
        self._quota = quota
        shared: Allowance | None = None if before is None else before.allowance
        self.allowance: Allowance | None = None if quota is None else shared or Allowance(quota)
        self.tally: EventMeter = EventMeter() if before is None else before.tally

    @classmethod
    def of(cls, producer: Producer, before: EventSender | None = None) -> EventSender:
        quota = None if producer.quota is None else quota_of(producer.quota)
        return cls(producer.name, Rights(producer.name, producer.may), quota, before=before)

    def take_effect(self, now: float) -> None:
        """Apply the quota to what this caller has used so far."""
        if self.allowance is not None and self._quota is not None:
            self.allowance.apply(self._quota, now)

    def debt(self, now: float) -> float:
        """Seconds until what was charged beyond its quota is paid."""
        return 0.0 if self.allowance is None else self.allowance.debt(now)

    def charge(self, count: int, now: float, *, refused: int = 0) -> None:
        """So many events have come, and cannot be refused for their number. ``refused``: batches that bring
        none; each costs as much as one event."""
        if self.allowance is not None:
            self.allowance.charge(count + refused, now)
        if count:
            self.tally.add(count, now)

    def take(self, count: int, now: float) -> None:
        """So many events have come. Raises QuotaExceeded."""
        if self.allowance is not None:
            demand(self.allowance, count, now)
        self.tally.add(count, now)
