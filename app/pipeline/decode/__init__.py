"""Records to events, in two ways that never disagree (ADR 0021).

========== =====================================================================================
native     expressions of Spark, for what is clear; everything else is in doubt
exact      ``app.bindings`` itself, in one ``mapInArrow``, for what is in doubt
fence      why a filter on a decoded column stays where it stands
patterns   what is clear, as regular expressions
judged     what ``app.bindings`` says of one record, as columns
========== =====================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.pipeline import tables
from app.pipeline.decode import exact, native
from app.pipeline.decode.fence import fenced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decoded", "exactly", "fenced", "natively"]


DECODED = tables.names(tables.DECODED)
VERDICT = tables.names(tables.VERDICT)
_INSTANT = (
    "try_cast(upper(time_text) AS TIMESTAMP)"  # RFC 3339 lets t and z be small, Spark does not
)
_TIME = (
    f"CASE WHEN {_INSTANT} BETWEEN TIMESTAMP '0001-01-01 00:00:00 UTC' "
    f"AND TIMESTAMP '9999-12-31 23:59:59.999999 UTC' THEN {_INSTANT} END AS time"
)
"""One expression for both ways. Python, and so many a reader of the lake, dies of other years."""


def natively(raw: DataFrame) -> DataFrame:
    """RAW to DECODED and ``doubt``: where that is true, no other decoded column means anything."""
    return fenced(native.decoded(raw).selectExpr(*_in_order(DECODED), "doubt"))


def exactly(raw: DataFrame) -> DataFrame:
    """RAW to DECODED and VERDICT (null for a valid event), and ``value`` and ``headers`` of records that
    have a verdict: what ``quarantine`` keeps of them.
    """
    return exact.judged(raw).selectExpr(*_in_order(DECODED), *VERDICT, "value", "headers")


def decoded(raw: DataFrame) -> DataFrame:
    """Every record, natively where it is clear: the columns of ``exactly``. It runs ``raw`` twice: cache
    it, or use both ways on ranges, where it is dear to read.
    """
    judged = fenced(native.decoded(raw, kept=("value", "headers")))
    clear = judged.where("NOT doubt").selectExpr(
        *_in_order(DECODED),
        *(f"CAST(NULL AS {kind}) AS {name}" for name, kind in _VERDICT_TYPES),
        "CAST(NULL AS BINARY) AS value",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
    )
    doubtful = judged.where("doubt").select(*tables.names(tables.RAW))
    return clear.unionByName(exactly(doubtful))


_VERDICT_TYPES = [
    (name, column.split(" ", 1)[1])
    for name, column in zip(VERDICT, tables.VERDICT.split(", ", len(VERDICT) - 1), strict=True)
]


def _in_order(columns: list[str]) -> list[str]:
    return [_TIME if name == "time" else name for name in columns]
