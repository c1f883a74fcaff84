"""The snapshot that names the files of tasks: by Iceberg's own classes, as Spark commits what it writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from app.errors import SetupError
from app.pipeline import history
from app.pipeline.archive import progress
from app.pipeline.archive.files import File, Layout, created, removed
from app.pipeline.archive.progress import Progress
from app.pipeline.session import first_line, jvm
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Final = {
    "string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "long": pa.int64(),
    "timestamptz": pa.timestamp("us", "UTC"),
}  # fmt: skip
_BUCKET: Final = re.compile(r"bucket\[([0-9]+)\]")


def layout(spark: SparkSession, lake: Lake, name: str) -> Layout:
    """How tasks write files of a table. Raises SetupError for one that somebody has partitioned otherwise."""
    table = history.iceberg_table(spark, lake.table(name))
    properties = dict(table.properties())
    by = list(table.spec().fields())
    transform = by[0].transform().toString() if len(by) == 1 else ""
    bucket = _BUCKET.fullmatch(transform)
    if bucket is None and transform != "day":
        raise SetupError(
            f"{lake.table(name)} has other partitions than it was made with: {table.spec().toString()}",
            setting="pipeline.lake",
            cure="ALTER TABLE ... REPLACE PARTITION FIELD, or take another pipeline.lake.namespace",
        )
    return Layout(
        name=name,
        folder=properties.get("write.data.path") or f"{table.location()}/data",
        schema=pa.schema([_field(each) for each in table.schema().columns()]),
        by=by[0].name(),
        buckets=int(bucket[1]) if bucket else 0,
        codec=properties.get("write.parquet.compression-codec", "zstd"),
        level=_number(properties.get("write.parquet.compression-level")),
        access={str(key): str(value) for key, value in dict(table.io().properties()).items()},
    )


def demand_storage(layout: Layout) -> None:
    """Raises SetupError where Python, which writes the files, does not reach what Java does."""
    path = f"{layout.folder}/{uuid4().hex}.probe"
    try:
        created(path, layout.access).close()
        removed(path, layout.access)
    except Exception as why:  # each storage has its own
        raise SetupError(
            f"{layout.folder} cannot be written from Python: {first_line(why)}",
            setting="pipeline.lake.catalog.properties",
            cure="add what PyIceberg needs there, as s3.endpoint and s3.access-key-id; hdfs:// needs HADOOP_HOME",
        ) from why


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _field(field: Any) -> pa.Field:
    """As Arrow has it, with the id by which Iceberg knows a column of Parquet."""
    known = {b"PARQUET:field_id": b"%d" % field.fieldId()}
    return pa.field(field.name(), _type(field.type()), field.isOptional(), metadata=known)


def _type(found: Any) -> pa.DataType:
    if found.isListType():
        return pa.list_(_field(found.fields()[0]))
    if found.isMapType():
        return pa.map_(*map(_field, found.fields()))
    if found.isStructType():
        return pa.struct([_field(each) for each in found.fields()])
    return _TYPES[found.toString()]


def files(told: DataFrame) -> list[File]:
    """Of a frame of ``FILES``. It runs the tasks that write them."""
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
    partition = iceberg.PartitionData(table.spec().partitionType())
    partition.set(0, file.partition)
    made = iceberg.DataFiles.builder(table.spec()).withInputFile(source).withFormat("PARQUET")
    return made.withPartition(partition).withMetrics(known).build()


def remove(spark: SparkSession, table: str, paths: Iterable[str]) -> None:
    """Files that no snapshot has named."""
    storage = history.iceberg_table(spark, table).io()
    for path in paths:
        storage.deleteFile(path)
