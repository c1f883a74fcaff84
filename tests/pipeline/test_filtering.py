"""Filters over decoded records choose what ``app.filters`` chooses of the events that ``app.bindings`` reads: on a real
Spark. Of every dialect and expression: ``tests/unit/pipeline/test_filtering.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from app.bindings import kafka as binding
from app.filters.dialects import compile_filters
from app.filters.model import Filter
from app.pipeline.decode import decoded
from app.pipeline.decode.judged import decode_row
from app.pipeline.filtering import filter_inputs, passing_rows
from decode_comparison import frame
from reroute_records import random_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILTERS = [
    Filter.model_validate(
        {"any": [{"suffix": {"type": ".created"}}, {"sql": "priority > 3 OR NOT EXISTS time"}]}
    ),
    Filter.model_validate({"not": {"exact": {"region": "eu"}}}),
    Filter(sql="HAS_DATA('') OR partitionkey LIKE 'p%'"),
]


def test_rows_are_chosen_as_a_subscription_chooses_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Records by chance, of all versions and modes; the rows keep their order."""
    records, wants = list(random_records(300, seed=20)), compile_filters(FILTERS)
    due = [
        n
        for n, record in enumerate(records)
        if decode_row(record).verdict is None and wants(binding.decode(record).event)
    ]
    assert 30 < len(due) < 200
    events = decoded(frame(spark, tmp_path, records)).where("verdict IS NULL")
    narrow = events.select("offset", *filter_inputs(FILTERS).columns())
    rows = passing_rows(narrow, FILTERS).select(f.col("offset").alias("n")).collect()
    assert [row["n"] for row in rows] == due
