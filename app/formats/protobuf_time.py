"""Convert RFC 3339 text to ``google.protobuf.Timestamp`` and back. A time that cannot be converted exactly is
refused.

A Timestamp is an instant of the years 1 to 9999 in whole nanoseconds of UTC, without leap seconds.
"""

from __future__ import annotations

from datetime import date

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400
_NANOS = 10**9
_FIRST, _LAST = (
    -62_135_596_800,
    253_402_300_799,
)  # seconds since 1970 of the first and last moment of the years 1 to 9999
_CYCLE = 146_097  # days of 400 years, after which the calendar repeats
_FRACTION_AT = 19  # the length of ``2026-11-20T10:00:00``
_DIGITS = 9


class CannotHold(ValueError):
    """The error for a time that a Protobuf timestamp cannot represent. The message completes the sentence "a
    Protobuf timestamp ..."."""


def to_timestamp(text: str) -> tuple[int, int]:
    """Return seconds since 1970 and nanoseconds of a valid RFC 3339 text. The offset is converted to UTC.

    Raises CannotHold for a leap second, for more than nine digits of a second, and for other years.
    """
    clock, zone = (text[:-1], "+00:00") if text[-1] in "Zz" else (text[:-6], text[-6:])
    if clock[17:19] == "60":
        raise CannotHold("has no leap seconds")
    seconds = _days(clock) * _DAY + _of_day(clock[11:]) - _offset(zone)
    if not _FIRST <= seconds <= _LAST:
        raise CannotHold("holds the years 1 to 9999 of UTC")
    return seconds, _nanos(clock[_FRACTION_AT + 1 :])


def to_text(seconds: int, nanos: int) -> str:
    """Return RFC 3339 text in UTC without trailing zeros. Raises CannotHold if the values are no valid Timestamp."""
    if not (_FIRST <= seconds <= _LAST and 0 <= nanos < _NANOS):
        raise CannotHold("holds the years 1 to 9999 and 0 to 999999999 nanoseconds")
    days, rest = divmod(seconds, _DAY)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    hours, minutes = divmod(rest // 60, 60)
    day = date.fromordinal(_EPOCH + days).isoformat()
    return f"{day}T{hours:02}:{minutes:02}:{rest % 60:02}{fraction}Z"


def _days(clock: str) -> int:
    """Return the days since 1970. Python has no year 0, so the days of year 400 are computed, minus the days
    of 400 years."""
    year, month, day = int(clock[:4]), int(clock[5:7]), int(clock[8:10])
    if year:
        return date(year, month, day).toordinal() - _EPOCH
    return date(400, month, day).toordinal() - _CYCLE - _EPOCH


def _of_day(clock: str) -> int:
    return int(clock[:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:8])


def _offset(zone: str) -> int:
    seconds = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
    return -seconds if zone[0] == "-" else seconds


def _nanos(fraction: str) -> int:
    if fraction[_DIGITS:].strip("0"):
        raise CannotHold("holds nanoseconds and nothing finer")
    return int(fraction[:_DIGITS].ljust(_DIGITS, "0"))
