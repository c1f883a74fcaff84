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
from app.pipeline.decode import attributes, exact, native
from app.pipeline.decode.fence import fenced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["decoded", "exactly", "fenced", "natively"]


DECODED = tables.names(tables.DECODED)
VERDICT = tables.names(tables.VERDICT)
_TIME = f"{attributes.time(attributes.instant('time_text'))} AS time"
_TOLD = [_TIME if name == "time" else name for name in DECODED]
"""What the exact way tells. The instant is Spark's own, as in the native way."""


def natively(raw: DataFrame) -> DataFrame:
    """RAW to DECODED and ``doubt``: where that is true, no other decoded column means anything."""
    return fenced(native.decoded(raw).select(*DECODED, "doubt"))


def exactly(raw: DataFrame) -> DataFrame:
    """RAW to DECODED and VERDICT (null for a valid event), and ``value`` and ``headers`` of records that
    have a verdict: what ``quarantine`` keeps of them.
    """
    return exact.judged(raw).selectExpr(*_TOLD, *VERDICT, "value", "headers")


def decoded(raw: DataFrame) -> DataFrame:
    """Every record, natively where it is clear: the columns of ``exactly``. It runs ``raw`` twice: cache
    it, or use both ways on ranges, where it is dear to read.
    """
    judged = fenced(native.decoded(raw, kept=("value", "headers")))
    clear = judged.where("NOT doubt").selectExpr(
        *DECODED,
        *(f"CAST(NULL AS {kind}) AS {name}" for name, kind in _VERDICT_TYPES),
        "CAST(NULL AS BINARY) AS value",
        f"CAST(NULL AS {tables.HEADERS}) AS headers",
    )
    doubtful = judged.where("doubt").select(*tables.names(tables.RAW))
    return clear.unionByName(exactly(doubtful))


_VERDICT_TYPES = [
    (name, column.split(" ", 1)[1])
    for name, column in zip(VERDICT, tables.VERDICT.split(", ", len(VERDICT) - 1), strict=True)
]
