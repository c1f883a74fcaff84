"""Data files that tasks have written, and the snapshot that names them: by Iceberg's own classes, as a commit of Spark
is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from app.errors import SetupError
from app.pipeline import history
from app.pipeline.archive import progress
from app.pipeline.archive.files import File, Layout
from app.pipeline.archive.progress import Progress
from app.pipeline.session import jvm
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Final = {
    "string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "long": pa.int64(),
    "timestamptz": pa.timestamp("us", "UTC"),
}  # fmt: skip
_BY_BUCKET: Final = re.compile(r"bucket\[([0-9]+)\]")


def layout(spark: SparkSession, lake: Lake, name: str) -> Layout:
    """How files of a table are written. Raises SetupError for a table that was partitioned otherwise."""
    table = history.iceberg_table(spark, lake.table(name))
    properties = dict(table.properties())
    fields = list(table.spec().fields())
    transform = fields[0].transform().toString() if len(fields) == 1 else ""
    bucket = _BY_BUCKET.fullmatch(transform)
    if bucket is None and transform != "day":
        raise SetupError(
            f"{lake.table(name)} is partitioned by {table.spec().toString()}, not as it was made",
            setting="pipeline.lake",
            cure="ALTER TABLE ... REPLACE PARTITION FIELD with the partitions of docs/pipeline.md,"
            " or take another pipeline.lake.namespace",
        )
    return Layout(
        name=name,
        folder=properties.get("write.data.path") or f"{table.location()}/data",
        schema=pa.schema([_field(each) for each in table.schema().columns()]),
        by=fields[0].name(),
        buckets=int(bucket[1]) if bucket else 0,
        codec=properties.get("write.parquet.compression-codec", "zstd").replace("uncompressed", "none"),
        level=_number(properties.get("write.parquet.compression-level")),
        access={key: str(value) for key, value in dict(table.io().properties()).items()},
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _field(field: Any, name: str = "") -> pa.Field:
    """As Arrow has it, with the id by which Iceberg knows a column of Parquet."""
    known = {b"PARQUET:field_id": str(field.fieldId()).encode()}
    return pa.field(name or field.name(), _type(field.type()), field.isOptional(), metadata=known)


def _type(found: Any) -> pa.DataType:
    if found.isListType():
        return pa.list_(_field(found.fields()[0], "element"))
    if found.isMapType():
        key, value = found.fields()
        return pa.map_(_field(key, "key"), _field(value, "value"))
    if found.isStructType():
        return pa.struct([_field(each) for each in found.fields()])
    return _TYPES[found.toString()]


def files(told: DataFrame) -> list[File]:
    """Of a frame of ``FILES``: what runs its tasks."""
    return [File(**row) for row in told.toArrow().to_pylist()]


def rows(found: Iterable[File]) -> int:
    return sum(each.rows for each in found)


def append(spark: SparkSession, table: str, added: Sequence[File], ends: Progress) -> None:
    """One snapshot that names the files and carries the progress; without a file the progress alone."""
    loaded = history.iceberg_table(spark, table)
    commit = loaded.newAppend() if added else loaded.newFastAppend()
    for each in added:
        commit.appendFile(_data_file(spark, loaded, each))
    commit.set(progress.PROPERTY, progress.as_text(ends))
    commit.commit()


def _data_file(spark: SparkSession, table: Any, file: File) -> Any:
    """With the counts and bounds that stand in the file's own footer."""
    iceberg = jvm(spark).org.apache.iceberg
    source = table.io().newInputFile(file.path, file.size)
    known = iceberg.parquet.ParquetUtil.fileMetrics(source, iceberg.MetricsConfig.forTable(table))
    return (
        iceberg.DataFiles.builder(table.spec())
        .withInputFile(source)
        .withFormat("PARQUET")
        .withPartitionPath(file.partition)
        .withMetrics(known)
        .build()
    )


def remove(spark: SparkSession, table: str, gone: Iterable[str]) -> None:
    """Files that no snapshot has named."""
    storage = history.iceberg_table(spark, table).io()
    for path in gone:
        storage.deleteFile(path)
