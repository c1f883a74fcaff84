"""Asking the decoder of the pipeline about records, with Spark, and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet

from app.bindings.record import Record
from app.pipeline.decode.judged import judge
from decode_records import raw_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAPS = ("extensions", "types")


def frame(spark: SparkSession, folder: Path, records: Sequence[Record]) -> DataFrame:
    """The columns RAW of records."""
    path = folder / "raw.parquet"
    pyarrow.parquet.write_table(raw_table(records), path)
    return spark.read.parquet(str(path))


def shown(found: DataFrame) -> DataFrame:
    """Without the place that records were at, and with ``at``, microseconds since 1970, for ``time``: Python
    has no local time for the first and last of Spark's instants.
    """
    left_out = {"broker", "topic", "partition", "record_time", "key", "time"}
    columns = [name for name in found.columns if name not in left_out]
    return found.selectExpr(*columns, "unix_micros(time) AS at")


def rows(found: DataFrame) -> list[dict[str, Any]]:
    """As Python has them, in the order of their offsets."""
    collected = [row.asDict(recursive=True) for row in found.collect()]
    return [_plain(row) for row in sorted(collected, key=lambda row: row["offset"])]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {n: bytes(v) if isinstance(v, bytearray) else v for n, v in row.items()}


def expected(record: Record) -> dict[str, Any]:
    """The columns that ``app.bindings`` gives a record, the verdict among them; ``time`` is Spark's."""
    told = judge(record)._asdict()
    for name in MAPS:
        told[name] = None if told[name] is None else dict(told[name])
    return told


def differences(
    records: Sequence[Record],
    found: Sequence[dict[str, Any]],
    due: Callable[[Record], dict[str, Any]],
) -> list[str]:
    """What differs, told by record and column."""
    told = []
    for record, row in zip(records, found, strict=True):
        for name, value in due(record).items():
            if name in row and row[name] != value:
                told.append(f"{name}: {row[name]!r:.200} for {value!r:.200} of {record!r:.600}")
    return told
