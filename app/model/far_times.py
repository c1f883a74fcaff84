"""Show times that Python's ``datetime`` cannot hold: those before the year 1 and after the year 9999.

A producer that sends microseconds as milliseconds dates its records to the year 58000. Kafka stores
such times, and Iceberg, Spark and DuckDB hold them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE: Final = timedelta(days=146_097)
"""The days of 400 years, after which the Gregorian calendar repeats itself."""


def time_or_text(microseconds: int) -> datetime | str:
    """Return microseconds since 1970 as a time in UTC, or as text if Python cannot hold the time."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{far_text(microseconds)}+00"


def far_text(microseconds: int) -> str:
    """Return microseconds since 1970 as text of any year, as DuckDB writes a time without a zone."""
    cycles, rest = divmod(microseconds, _CYCLE // timedelta(microseconds=1))
    near = _EPOCH + timedelta(microseconds=rest)
    fraction = f".{near.microsecond:06}".rstrip("0").rstrip(".")
    year = near.year + 400 * cycles
    text = f"{year:04}{near:-%m-%d}" if year > 0 else f"{1 - year:04}{near:-%m-%d} (BC)"
    return f"{text}{near: %H:%M:%S}{fraction}"
