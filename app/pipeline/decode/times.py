"""Convert the column ``time_text`` to instants for the column ``time``.

Arrow reads the usual texts, Python's ``datetime`` all others.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

INSTANT: Final = pa.timestamp("us", "UTC")
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_USUAL = rf"\A{_YEAR}-[0-9-]{{5}}T[0-9:]{{6}}[0-5][0-9](?:\.[0-9]{{1,6}})?Z\z"
"""A pattern of the valid times that Arrow reads: in UTC, at most microseconds, years 1 to 9999, no
leap second.
"""

_FINER: Final = re.compile(r"(\.[0-9]{6})[0-9]+")  # digits beyond microseconds
_FARTHEST: Final = timedelta(hours=18)
"""The largest offset from UTC that Spark reads: queries of the lake compare ``time`` with instants
that Spark parsed.
"""


def instants(texts: pa.Array) -> pa.Array:
    """Return the instants of valid times.

    The result is null for a leap second, an offset beyond 18 hours, and an instant outside the
    years 1 to 9999 in UTC.
    """
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), INSTANT)
    usual = pc.match_substring_regex(texts, _USUAL)
    if pc.all(usual).as_py():
        return texts.cast(INSTANT)
    read = pc.if_else(usual, texts, None).cast(INSTANT)
    others = [_instant(text) for text in texts.filter(pc.invert(usual)).to_pylist()]
    return pc.replace_with_mask(read, pc.invert(usual), pa.array(others, INSTANT))


def _instant(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(_FINER.sub(r"\1", text.upper()))
        offset = read.utcoffset() or timedelta()
        return read.astimezone(UTC) if abs(offset) <= _FARTHEST else None
    except (ValueError, OverflowError):
        return None
