"""Decode records to events by column, over Arrow batches in Spark's Python workers.

The workers import ``app``, so on a cluster the wheel must be installed
(``docs/guides/pipeline-decode.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.pipeline import tables
from app.pipeline.decode.batch import KEPT, SENT, decoded_batches
from app.spark.columns import HEADERS, LOCATION, column_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["KEPT", "SENT", "decoded"]

DECODED = column_names(tables.DECODED)
VERDICT = column_names(tables.VERDICT)
_WITHOUT_TIME = tables.ATTRIBUTES.replace("time TIMESTAMP, ", "")
_RETURNED = (
    f"{LOCATION}, key BINARY, {_WITHOUT_TIME}, {tables.DATA}, {tables.ARRIVAL}, "
    f"{tables.VERDICT}, value BINARY, headers {HEADERS}, time TIMESTAMP"
)


def decoded(raw: DataFrame) -> DataFrame:
    """Decode a frame with the columns RAW to the columns DECODED and VERDICT.

    VERDICT is null for a valid event. ``value`` and ``headers`` are null for a valid event too;
    ``quarantine`` stores them for all other records.
    """
    found = raw.select(*KEPT, *SENT).mapInArrow(decoded_batches, _RETURNED)
    return found.select(*DECODED, *VERDICT, *SENT)
