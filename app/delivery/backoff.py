"""Compute waits: the retry schedule with full jitter, and the time of a Retry-After header."""

from __future__ import annotations

from calendar import timegm
from collections.abc import Sequence
from email.utils import parsedate_tz


def scheduled_wait(schedule: Sequence[float], step: int, jitter: float) -> float | None:
    """Return the seconds to wait after ``step`` earlier failures, or None if the schedule is used up.

    The wait is between 0 and the step's wait (full jitter), so that events that failed together do not return
    together. ``jitter`` is in [0, 1)."""
    return schedule[step] * jitter if step < len(schedule) else None


def schedule_warning(subscription: str, old: Sequence[object], new: Sequence[object]) -> str:
    """Return a warning for the command ``plan`` if a shorter retry schedule makes waiting events dead
    letters, else "".

    An event whose failures use up the new schedule becomes a dead letter at its next failure."""
    if len(new) >= len(old):
        return ""
    return (
        f"subscription {subscription}: retry.schedule goes from {len(old)} waits to {len(new)}; an event "
        f"whose failures are {len(new)} or more becomes a dead letter at its next failure"
    )


FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries of a store or topic that refuses


def backoff_delay(failures: int, jitter: float) -> float:
    """Return the seconds until the next attempt to use a store or topic. ``failures`` is the number of failed
    attempts in a row."""
    return doubling(FIRST_WAIT, LONGEST_WAIT, failures, jitter)


def doubling(first: float, longest: float, failures: int, jitter: float) -> float:
    """Return an exponential backoff in seconds after the ``failures``-th failure in a row.

    The maximum doubles with each failure from ``first`` up to ``longest``. The result is between half of the
    maximum and the maximum, by ``jitter`` in [0, 1)."""
    ceiling: float = min(longest, first * 2.0 ** min(failures - 1, 32))
    return ceiling * (1 + jitter) / 2


def retry_after(value: str, now: float) -> float | None:
    """Return the time that a Retry-After header names, in seconds since the epoch and never before ``now``.

    The value may be a number of seconds or a date (RFC 9110 10.2.3). Return None for any other value."""
    text = value.strip()
    if text.isascii() and text.isdecimal():
        return now + float(text)
    date = parsedate_tz(text)
    if date is None:
        return None
    try:
        return max(now, float(timegm(date[:6]) - (date[9] or 0)))
    except (
        ValueError,
        OverflowError,
    ):  # such as the 40th of May, or an offset of hundreds of digits
        return None
