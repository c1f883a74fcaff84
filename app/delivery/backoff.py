"""How long to wait: the schedule with full jitter, and Retry-After as the target wrote it."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Sequence
from email.utils import parsedate_tz


def scheduled_wait(schedule: Sequence[float], step: int, jitter: float) -> float | None:
    """Seconds before the attempt after ``step`` earlier failures; None when the schedule is spent.

    Full jitter: anything from nothing up to the step's wait, so that events that failed together
    do not come back together. ``jitter`` is in [0, 1).
    """
    return schedule[step] * jitter if step < len(schedule) else None


def shortened(subscription: str, old: Sequence[object], new: Sequence[object]) -> str:
    """What becomes of events that wait when its schedule is another, in words for a person; empty unless
    waits go: an event that has used all that are left is given up at its next failure."""
    if len(new) >= len(old):
        return ""
    return (
        f"subscription {subscription}: retry.schedule goes from {len(old)} waits to {len(new)}; an event "
        f"whose failures are {len(new)} or more becomes a dead letter at its next failure"
    )


FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries at a store or topic that refuses


def try_again_in(failures: int, jitter: float) -> float:
    """Seconds until a store or topic is asked again, that has refused so often in a row."""
    return doubling(FIRST_WAIT, LONGEST_WAIT, failures, jitter)


def doubling(first: float, longest: float, failures: int, jitter: float) -> float:
    """Seconds after the ``failures``-th failure in a row: doubled each time up to ``longest``, then
    between half and all of it."""
    ceiling: float = min(longest, first * 2.0 ** min(failures - 1, 32))
    return ceiling * (1 + jitter) / 2


def retry_after(value: str, now: float) -> float | None:
    """The moment that a Retry-After header names, never before ``now`` (wall clock, seconds since
    the epoch); None when it says nothing that can be read. Both forms of RFC 9110 10.2.3 (W6).
    """
    text = value.strip()
    if text.isascii() and text.isdecimal():
        return now + float(text)
    date = parsedate_tz(text)
    if date is None:
        return None
    try:
        return max(now, float(timegm(date[:6]) - (date[9] or 0)))
    except (ValueError, OverflowError):  # a 40th of May, an offset of hundreds of digits
        return None
