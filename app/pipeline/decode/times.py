"""``time``: the instant that ``time_text`` says, in Arrow where that reads it as Spark does, else by Spark."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

INSTANT: Final = pa.timestamp("us", "UTC")
_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_USUAL = rf"\A{_YEAR}-[0-9-]{{5}}T[0-9:]{{6}}[0-5][0-9](?:\.[0-9]{{1,6}})?Z\z"
"""Of valid texts those in UTC, to the microsecond, of a year that there is, and of no leap second."""

_INSTANT = (
    "try_cast(upper(time_text) AS TIMESTAMP)"  # RFC 3339 lets t and z be small, Spark does not
)
_WITHIN = f"BETWEEN TIMESTAMP '{_FIRST} UTC' AND TIMESTAMP '{_LAST} UTC'"  # Python dies of others
_BY_SPARK = f"CASE WHEN {_INSTANT} {_WITHIN} THEN {_INSTANT} END"
TIME: Final = (
    f"CASE WHEN time IS NULL AND time_text IS NOT NULL THEN {_BY_SPARK} ELSE time END AS time"
)
"""In SQL, over ``time`` as ``instants`` gives it."""


def instants(texts: pa.Array) -> pa.Array:
    """Of valid times; null of unusual ones, which Spark has to read."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), INSTANT)
    usual = pc.match_substring_regex(texts, _USUAL)
    if not pc.all(usual).as_py():
        texts = pc.if_else(usual, texts, None)
    return texts.cast(INSTANT)
