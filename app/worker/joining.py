"""How a subscription joins its log: under which group name, and where it begins."""

from __future__ import annotations

from datetime import UTC, datetime

from app.errors import SetupError
from app.model.start import EARLIEST, LATEST, StartAt
from app.model.subscription import Start, Subscription


def group_name(installation: str, subscription: str) -> str:
    """One group a subscription, told apart by installation so that two may share a broker."""
    return f"skybridge.{installation}.{subscription}"


def start_at(subscription: Subscription) -> StartAt:
    """Raises SetupError for a time that is none."""
    start = subscription.start
    if not isinstance(start, Start):
        return EARLIEST if start == "earliest" else LATEST
    if start.position is not None:
        return StartAt("position", positions=start.position)
    return StartAt("time", time_ms=_milliseconds(start.time or "", subscription.id))


def _milliseconds(text: str, subscription: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SetupError(
            f"{text!r} is no time",
            setting=f"subscriptions.{subscription}.start.time",
            cure="write RFC 3339, for example 2026-01-31T12:00:00Z",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
