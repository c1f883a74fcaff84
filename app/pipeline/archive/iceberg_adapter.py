"""Iceberg's Java classes that are called for the data files of a commit.

These classes are public in Java, but Iceberg promises nothing for them between its versions. The jars
of Skybridge are pinned. For another version of Iceberg: run ``tests/pipeline`` with it, then name it in
``KNOWN``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa

from app.errors import SetupError
from app.pipeline.archive.files import DataFile
from app.pipeline.archive.partitions import Part
from app.spark.pyspark_adapter import jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KNOWN: Final = ("1.11.",)
"""The beginnings of the versions of Iceberg with which the tests ran."""

_TYPES: Final = {
    "string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "long": pa.int64(),
    "timestamptz": pa.timestamp("us", "UTC"), "double": pa.float64(), "boolean": pa.bool_(),
    "date": pa.date32(), "float": pa.float32(), "timestamp": pa.timestamp("us"),
    "time": pa.time64("us"), "uuid": pa.binary(16),
}  # fmt: skip
_BUCKET: Final = re.compile(r"bucket\[([0-9]+)\]")
_DECIMAL: Final = re.compile(r"decimal\(([0-9]+), *([0-9]+)\)")


class StoredFile(NamedTuple):
    """A data file in the storage. ``java`` is Iceberg's object."""

    size: int
    path: str
    java: Any


def demand_known(spark: SparkSession) -> None:
    """Raise SetupError if the operator's jars have another version of Iceberg than the known ones."""
    found = str(jvm(spark).org.apache.iceberg.IcebergBuild.version())
    if not found.startswith(KNOWN):
        raise SetupError(
            f"Iceberg {found} is not known to this release",
            setting="pipeline.spark.conf",
            cure=f"name the jar of Iceberg {KNOWN[0]}x in spark.jars, or leave it out to take that of Skybridge",
        )


def partitioning(table: Any) -> dict[str, Part]:
    """Return the parts of a table's partitioning by a description: ``time day``, ``identity bucket``."""
    found = {}
    for field in table.spec().fields():
        transform = field.transform().toString()
        column = table.schema().findColumnName(field.sourceId())
        bucket = _BUCKET.fullmatch(transform)
        part = Part(field.name(), column, int(bucket[1]) if bucket else 0)
        found[f"{column} {'bucket' if bucket else transform}"] = part
    return found


def access(table: Any) -> dict[str, str]:
    """Return the storage properties of a table for PyIceberg: end points and credentials. A REST
    catalog may issue credentials for a table, which replace those of the catalog.
    """
    files, location = table.io(), str(table.location())
    found = dict(files.properties())
    for each in credentials(files):
        if location.startswith(each.prefix()):
            found |= dict(each.config())
    return {str(key): str(value) for key, value in found.items()}


def credentials(files: Any) -> list[Any]:
    """Return the credentials that a catalog issued, ordered so that the last one for a path counts:
    that with the longest prefix."""
    interfaces = {str(each.getSimpleName()) for each in files.getClass().getInterfaces()}
    if "SupportsStorageCredentials" not in interfaces:
        return []
    return sorted(files.credentials(), key=lambda each: len(each.prefix()))


def schema(table: Any, shown: str, names: Sequence[str]) -> pa.Schema:
    """Return the columns ``names`` of a table as an Arrow schema with the field ids of Iceberg.

    Raises:
        SetupError: The table has lost a column.
    """
    columns = {name: table.schema().findField(name) for name in names}
    if gone := [name for name, found in columns.items() if found is None]:
        raise SetupError(
            f"{shown} has lost columns: {', '.join(gone)}",
            setting="pipeline.lake",
            cure="ALTER TABLE ... ADD COLUMN, or take another pipeline.lake.namespace",
        )
    return pa.schema([_field(each) for each in columns.values()])


def _field(field: Any) -> pa.Field:
    """Return a column as an Arrow field, with the id by which Iceberg finds it in Parquet files."""
    known = {b"PARQUET:field_id": b"%d" % field.fieldId()}
    return pa.field(field.name(), _type(field.type()), field.isOptional(), metadata=known)


def _type(found: Any) -> pa.DataType:
    if found.isListType():
        return pa.list_(_field(found.fields()[0]))
    if found.isMapType():
        return pa.map_(*map(_field, found.fields()))
    if found.isStructType():
        return pa.struct([_field(each) for each in found.fields()])
    text = found.toString()
    if digits := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(digits[1]), int(digits[2]))
    if text not in _TYPES:
        raise SetupError(
            f"a column has the type {text}, which Skybridge does not write",
            setting="pipeline.lake",
            cure="drop the column, or give it another type",
        )
    return _TYPES[text]


def data_files(spark: SparkSession, table: Any, added: Sequence[DataFile]) -> Iterator[Any]:
    """Yield Iceberg's object for each file, with the counts and bounds from the footer of the file.

    Classes are looked up once, because Java searches all jars for each part of a name.
    """
    iceberg = jvm(spark).org.apache.iceberg
    metrics, made, partition_of = (
        iceberg.parquet.ParquetUtil.fileMetrics, iceberg.DataFiles.builder, iceberg.PartitionData,
    )  # fmt: skip
    storage, specs, config = table.io(), table.specs(), iceberg.MetricsConfig.forTable(table)
    for file in added:
        source = storage.newInputFile(file.path, file.size)
        spec = specs.get(file.spec)  # the partitioning may have changed since the file was written
        partition = partition_of(spec.partitionType())
        for at, value in enumerate(file.partition):
            partition.set(at, value)
        named = made(spec).withInputFile(source).withFormat("PARQUET").withPartition(partition)
        yield named.withMetrics(metrics(source, config)).build()


def write_files(spark: SparkSession, rows: DataFrame, name: str, loaded: Any) -> list[StoredFile]:
    """Write rows to data files of a loaded table by Iceberg's own tasks, and return the files. Their names
    have a random part, and no snapshot names them yet.
    """
    demand_known(spark)
    staged = uuid4().hex
    options = {
        "rewritten-file-scan-task-set-id": staged,  # Iceberg keeps the files, and commits nothing
        "use-table-distribution-and-ordering": "false",
        "fanout-enabled": "true",  # writes days in any order, without a sort
    }
    files = jvm(spark).org.apache.iceberg.spark.FileRewriteCoordinator.get()
    rows.writeTo(name).options(**options).append()
    found = [
        StoredFile(each.fileSizeInBytes(), str(each.location()), each)
        for each in files.fetchNewFiles(loaded, staged)
    ]
    files.clearRewrite(loaded, staged)
    return found
