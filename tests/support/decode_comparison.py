"""Run the decoder of the pipeline over records, with and without Spark, and compare it with
``app.bindings``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet

from app.bindings import kafka
from app.bindings.record import Decoded, Record
from app.pipeline.decode import batch as by_column
from app.pipeline.decode import exact
from app.pipeline.decode.exact import DECODED_ROW_SCHEMA
from app.pipeline.decode.judged import decode_row
from app.spark import arrow_records
from decode_records import raw_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAPS = ("extensions", "types")


def frame(
    spark: SparkSession, folder: Path, records: Sequence[Record], topic: str = "t"
) -> DataFrame:
    """Return a Spark data frame of records with the columns ``RAW``, written to and read from a
    Parquet file.
    """
    path = folder / "raw.parquet"
    pyarrow.parquet.write_table(raw_table(records, topic), path)
    return spark.read.parquet(str(path))


def comparable(found: DataFrame) -> DataFrame:
    """Return a decoded frame without the columns of the record's place, and with ``at`` instead of
    ``time``.

    ``at`` is in microseconds since 1970, because Python cannot represent the first and last of
    Spark's instants.
    """
    left_out = {"broker", "topic", "partition", "record_time", "key", "time"}
    columns = [name for name in found.columns if name not in left_out]
    return found.selectExpr(*columns, "unix_micros(time) AS at")


def rows(found: DataFrame) -> list[dict[str, Any]]:
    """Collect a frame as Python rows in the order of their offsets."""
    collected = [row.asDict(recursive=True) for row in found.collect()]
    return [_plain(row) for row in sorted(collected, key=lambda row: row["offset"])]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {n: bytes(v) if isinstance(v, bytearray) else v for n, v in row.items()}


def expected(record: Record, decode: Callable[[Record], Decoded] = kafka.decode) -> dict[str, Any]:
    """Return the columns that ``app.bindings`` gives for a record, with the verdict. ``time`` is
    left to Spark.
    """
    told = decode_row(record, decode)._asdict()
    for name in MAPS:
        told[name] = None if told[name] is None else dict(told[name])
    return told


def decoded_by_row(batch: pa.RecordBatch) -> list[Record]:
    """Return the records that ``decode_without_times`` decodes one by one instead of by column."""
    seen: list[Record] = []

    def noted(some: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(arrow_records.records(some))
        return exact.decode_rows(some)

    with patch.object(by_column, "decode_rows", noted):
        by_column.decode_without_times(batch)
    return seen


def wrong_columns(batch: pa.RecordBatch) -> list[str]:
    """Return every value in which the decoder by column differs from ``decode_row``.

    Raises an error if a column is not valid Arrow data or a column that must be copied was changed.
    """
    found = by_column.decode_without_times(batch)
    found.validate(full=True)
    assert found.column_names == [*by_column.KEPT, *DECODED_ROW_SCHEMA.names, *by_column.SENT]
    due = exact.decode_rows(batch)
    refused = due.column("verdict").is_valid().to_pylist()
    told = [
        f"{name}: {was!r:.200} for {is_due!r:.200} of {record!r:.600}"
        for name in DECODED_ROW_SCHEMA.names
        for was, is_due, record in zip(
            *_of(found, due, name), arrow_records.records(batch), strict=True
        )
        if was != is_due
    ]
    for name in by_column.KEPT:
        assert found.column(name).equals(batch.column(name))
    for name in by_column.SENT:
        sent = zip(batch.column(name).to_pylist(), refused, strict=True)
        assert found.column(name).to_pylist() == [value if told else None for value, told in sent]
    return told


def _of(found: pa.RecordBatch, due: pa.RecordBatch, name: str) -> tuple[list[Any], list[Any]]:
    assert found.column(name).type == due.column(name).type
    return found.column(name).to_pylist(), due.column(name).to_pylist()


def differences(
    records: Sequence[Record],
    found: Sequence[dict[str, Any]],
    due: Callable[[Record], dict[str, Any]],
) -> list[str]:
    """Return a line for each record and column whose value is not the expected one.

    Args:
        records: The records.
        found: The decoded row of each record.
        due: The function that gives the expected columns of a record.
    """
    told = []
    for record, row in zip(records, found, strict=True):
        for name, value in due(record).items():
            if name in row and row[name] != value:
                told.append(f"{name}: {row[name]!r:.200} for {value!r:.200} of {record!r:.600}")
    return told
