"""The refusal of events beyond a quota. Times are seconds of one clock."""

from __future__ import annotations

from app.access.quota import Allowance, Quota
from app.errors import Fault, SenderError
from app.model.quota import EventQuota
from app.model.rates import event_rate


class QuotaExceeded(SenderError):
    """429. ``wait``: seconds until as many events would fit; ``remaining`` events do now; ``reset``
    seconds until all of ``quota`` is there again."""

    def __init__(self, quota: Quota, *, wait: float, remaining: int, reset: float) -> None:
        detail = (
            f"The quota is {quota.rate:g} events a second and {quota.burst} at once; "
            f"{remaining} are left now."
        )
        fault = Fault("quota-exceeded", detail)
        super().__init__("Quota exceeded", status=429, code="quota-exceeded", faults=[fault])
        self.quota = quota
        self.wait = min(wait, quota.window)
        self.remaining = remaining
        self.reset = reset


def quota_of(settings: EventQuota) -> Quota:
    rate = event_rate(settings.events)
    return Quota(rate.events / rate.span, settings.burst)


def demand(allowance: Allowance, count: int, now: float) -> None:
    """``count`` events are taken. Raises QuotaExceeded."""
    wait = allowance.take(count, now)
    if wait:
        raise QuotaExceeded(
            allowance.quota,
            wait=wait,
            remaining=allowance.remaining(now),
            reset=allowance.reset(now),
        )
