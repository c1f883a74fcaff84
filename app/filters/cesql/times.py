"""``TIME``, the extension function of Skybridge that converts a time to a number, so that times can be compared.

CESQL has no type for times and orders only numbers (3.1, 3.4.2), but it permits additional functions (3.5).
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from app.event.types import is_timestamp
from app.filters.cesql.decimals import DIGITS, read
from app.filters.cesql.values import Failure, clipped

_EPOCH = date(1970, 1, 1).toordinal()
_SECONDS = len("2026-01-01T00:00:00")


def seconds_of(text: str) -> Decimal:
    """Return the exact seconds from 1970-01-01T00:00:00Z to an RFC 3339 time.

    A leap second is the first second of the next minute. Raises Failure for any other text, and for more
    digits than a Decimal holds.
    """
    if not is_timestamp(text) or text.startswith("0000"):
        raise Failure("functionEvaluation", f"{clipped(text)} is no time as RFC 3339 writes it")
    day = date.fromisoformat(text[:10]).toordinal() - _EPOCH
    whole = day * 86_400 + int(text[11:13]) * 3_600 + int(text[14:16]) * 60 + int(text[17:_SECONDS])
    if text.endswith(("Z", "z")):
        digits = text[_SECONDS + 1 : -1]
    else:
        whole, digits = whole - _offset(text[-6:]), text[_SECONDS + 1 : -6]
    if not digits:
        return Decimal(whole)
    found = _exact(whole, digits)
    if found is None:
        raise Failure("functionEvaluation", f"{clipped(text)} has more than {DIGITS} digits")
    return found


def _offset(text: str) -> int:
    """Return the seconds east of UTC."""
    seconds = int(text[1:3]) * 3_600 + int(text[4:6]) * 60
    return -seconds if text.startswith("-") else seconds


def _exact(whole: int, digits: str) -> Decimal | None:
    """Return whole seconds plus the fraction. Return None if a Decimal cannot hold the sum. The fraction is
    added for times before 1970 too.
    """
    if len(digits) > DIGITS:
        return None
    if whole > 0:
        return read(f"{whole}.{digits}")
    scale = 10 ** len(digits)
    return read(f"{whole * scale + int(digits)}e-{len(digits)}")
