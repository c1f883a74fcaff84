"""What became of the events of the range, by the attempts that the store keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from app.pipeline.report import tables
from app.pipeline.report.measures import Scope
from app.pipeline.report.tables import Table
from app.store.attempt_log import LONGEST_ID, Tried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "subscription type events delivered at_once given_up open attempts latency_p50 latency_p99"
)
"""``events``: those that the store has attempts of; ``at_once``: delivered by the first attempt; ``open``:
neither delivered nor given up; latency: seconds from the record to its delivery.
"""


def deliveries(spark: SparkSession, scope: Scope, tried: Sequence[Tried]) -> Table:
    """By subscription and type. Events that are not in the range are not counted."""
    if not tried:
        return tables.of(COLUMNS)
    here = scope.events.select(
        "source", f.substring("id", 1, LONGEST_ID).alias("id"), "type", "record_time"
    )
    joined = _frame(spark, tried).join(here, ["source", "id"])
    delivered = f.col("delivered_ms").isNotNull()
    given_up = ~delivered & f.col("given_up")
    waited = (f.col("delivered_ms") - f.unix_millis("record_time")) / f.lit(1000.0)
    found = joined.groupBy("subscription", "type").agg(
        f.count(f.lit(1)).alias("events"),
        f.count_if(delivered).alias("delivered"),
        f.count_if(delivered & (f.col("attempts") == 1)).alias("at_once"),
        f.count_if(given_up).alias("given_up"),
        f.count_if(~delivered & ~given_up).alias("open"),
        f.sum("attempts").alias("attempts"),
        f.percentile_approx(waited, 0.5).alias("latency_p50"),
        f.percentile_approx(waited, 0.99).alias("latency_p99"),
    )
    rows = found.orderBy("subscription", f.desc("events")).toArrow().to_pylist()
    return tables.of(COLUMNS, [[row[name] for name in COLUMNS.split()] for row in rows])


def _frame(spark: SparkSession, tried: Sequence[Tried]) -> DataFrame:
    columns: dict[str, Any] = {
        name: [getattr(each, name) for each in tried]
        for name in ("subscription", "source", "id", "attempts", "delivered_ms", "given_up")
    }
    types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.bool_())
    schema = pa.schema(list(zip(columns, types, strict=True)))
    return spark.createDataFrame(pa.table(columns, schema))
