"""Convert times for answers and for rows of the store."""

from __future__ import annotations

from datetime import UTC, datetime

from app.interfaces import Clock


def now_ms(clock: Clock) -> int:
    """Return the wall clock in milliseconds since the epoch."""
    return int(clock.now() * 1000)


def rfc3339(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 text, with milliseconds, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
