"""Records to events, by column, over Arrow batches in Spark's Python workers.

The workers import ``app``: on a cluster the wheel has to be there (``docs/guides/pipeline-decode.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.pipeline import tables
from app.pipeline.decode.batch import KEPT, SENT, decoded_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["KEPT", "SENT", "decoded"]

DECODED = tables.names(tables.DECODED)
VERDICT = tables.names(tables.VERDICT)
_WITHOUT_TIME = tables.ATTRIBUTES.replace("time TIMESTAMP, ", "")
_RETURNED = (
    f"{tables.LOCATION}, key BINARY, {_WITHOUT_TIME}, {tables.DATA}, {tables.ARRIVAL}, "
    f"{tables.VERDICT}, value BINARY, headers {tables.HEADERS}, time TIMESTAMP"
)


def decoded(raw: DataFrame) -> DataFrame:
    """RAW to DECODED and VERDICT (null for a valid event), and ``value`` and ``headers`` of records that
    have a verdict: what ``quarantine`` keeps of them.
    """
    found = raw.select(*KEPT, *SENT).mapInArrow(decoded_batches, _RETURNED)
    return found.select(*DECODED, *VERDICT, *SENT)
