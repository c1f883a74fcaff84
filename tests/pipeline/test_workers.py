"""What Spark's Python workers find when a task begins."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    archives = [each for each in sys.path_importer_cache if each.endswith((".zip", ".jar"))]
    decoder = "app.pipeline.decode.batch" in sys.modules
    yield pa.RecordBatch.from_pylist(
        [{"archives": archives, "decoder": decoder, "pandas": "pandas" in sys.modules}]
    )


def test_a_task_reads_the_list_of_no_archive_and_has_the_decoder_without_pandas(
    spark: SparkSession,
) -> None:
    """It would read those that are on the path before each task: 0.1 s of CPU. The ``python311.zip`` of Python's own
    path is none, as there is no such file.
    """
    told = spark.range(2).mapInArrow(
        found, "archives ARRAY<STRING>, decoder BOOLEAN, pandas BOOLEAN"
    )
    standard = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    for row in told.collect():
        assert [each for each in row["archives"] if not each.endswith(standard)] == []
        assert row["decoder"]
        assert not row["pandas"], "40 MB"
