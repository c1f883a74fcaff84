"""How a subscription joins its log: under which group name, and where it begins."""

from __future__ import annotations

from datetime import datetime

from app.model.spool import without_log
from app.model.start import EARLIEST, LATEST, Start, StartAt
from app.model.subscription import Subscription


def group_name(installation: str, subscription: str) -> str:
    """One group a subscription, told apart by installation so that two may share a broker."""
    return f"skybridge.{installation}.{without_log(subscription)}"


def start_at(subscription: Subscription) -> StartAt:
    """Where its group begins if the log knows no position of it yet (rule 10)."""
    start = subscription.start
    if not isinstance(start, Start):
        return EARLIEST if start == "earliest" else LATEST
    if start.time is not None:
        moment = datetime.fromisoformat(start.time)  # the model has seen that it is one
        since = int(moment.timestamp() * 1000)
        return StartAt("time", time_ms=max(0, since))  # brokers know no time before 1970
    return StartAt("position", positions=start.position or {})
