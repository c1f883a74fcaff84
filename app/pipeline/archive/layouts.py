"""Read from a table how tasks write its data files: columns, partitions and compression."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive.files import TableLayout
from app.pipeline.archive.iceberg_adapter import (
    access,
    credentials,
    demand_known,
    partitioning,
    schema,
)
from app.pipeline.archive.partitions import Part
from app.pipeline.archive.storage import create_file, delete_file
from app.pipeline.kinds import TypedTable
from app.pipeline.settings import Lake
from app.pipeline.typed.evolve import changes
from app.pipeline.typed.rows import COLUMNS as EVENT_COLUMNS
from app.spark.columns import column_names
from app.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEVELS: Final = {"zstd", "gzip", "brotli"}


def layout(
    spark: SparkSession, lake: Lake, name: str, typed: TypedTable | None = None
) -> TableLayout:
    """Return how tasks write data files of a table. Columns that were added to the table are null
    in new rows.

    Raises:
        SetupError: The partitioning of the table was changed, or a column was dropped.
    """
    table = history.iceberg_table(spark, lake.table(name))
    shown, made_of = lake.table(name), (_as_text(table), typed)
    kept = _LAYOUTS.get(shown)
    if kept is None or kept[0] != made_of:
        demand_known(spark)
        kept = _LAYOUTS[shown] = made_of, _layout(table, shown, name, typed)
    return kept[1]


_LAYOUTS: Final[dict[str, tuple[object, TableLayout]]] = {}
"""The last layout of each table, with everything that it was built from.

A table seldom changes, and reading it through Py4J takes a fifth of a second. Only the last layout
is kept, because some catalogs return new credentials each time.
"""


def _as_text(table: Any) -> tuple[str, ...]:
    files = table.io()
    issued = (each.config() for each in credentials(files))
    parts = (table.schema(), table.spec(), table.properties(), files.properties(), *issued)
    return (table.location(), str(table.spec().specId()), *(each.toString() for each in parts))


def _layout(table: Any, shown: str, name: str, typed: TypedTable | None) -> TableLayout:
    properties = dict(table.properties())
    codec = properties.get("write.parquet.compression-codec", "zstd")
    if typed is None:
        columns = column_names(tables.COLUMNS[name])
    else:
        columns = [*EVENT_COLUMNS, *(each.name for each in typed.data.fields)]
    found = schema(table, shown, columns)
    if typed is not None:
        demand_inner(found, shown, typed)
    return TableLayout(
        name=name,
        folder=properties.get("write.data.path") or f"{table.location()}/data",
        schema=found,
        spec=table.spec().specId(),
        parts=_parts(table, shown, _PARTITIONS.get(name, _TYPED_PARTITIONS)),
        codec="none" if codec == "uncompressed" else codec,
        level=_level(codec, properties.get("write.parquet.compression-level")),
        access=access(table),
    )


def demand_inner(found: pa.Schema, shown: str, typed: TypedTable) -> None:
    """Raise SetupError if a typed table has lost a column inside another one. Rows would silently lack
    its values."""
    missing = changes(typed.data, pa.struct(list(found)), frozenset())
    if gone := [".".join(each.path) for each in missing if not each.refused]:
        raise SetupError(
            f"{shown} has lost columns: {', '.join(gone)}",
            setting="pipeline.tables",
            cure="start the archive again, which adds them; a column that was renamed keeps its old rows",
        )


_PARTITIONS: Final = {
    # The first one is that of lakes which an earlier version created
    tables.EVENTS_TABLE: (("identity bucket",), ("time day",), ("time day", "identity bucket")),
    tables.QUARANTINE_TABLE: (("record_time day",),),
    tables.RAW_TABLE: (("record_time day",),),
}
"""The partitionings that tasks can write, by table."""
_TYPED_PARTITIONS: Final = (("ce_time day",),)


def _parts(table: Any, shown: str, permitted: Collection[tuple[str, ...]]) -> tuple[Part, ...]:
    """Return the partitioning of a table, if it is one of the permitted ones."""
    found = partitioning(table)
    if tuple(found) in permitted:
        return tuple(found.values())
    raise SetupError(
        f"{shown} has other partitions than it was created with: {table.spec().toString()}",
        setting="pipeline.lake",
        cure="ALTER TABLE ... REPLACE PARTITION FIELD, or take another pipeline.lake.namespace",
    )


def demand_storage(layout: TableLayout) -> None:
    """Raise SetupError if Python, which writes the data files, cannot write to the storage of the
    table.
    """
    path = f"{layout.folder}/{uuid4().hex}.probe"
    try:
        create_file(path, layout.access).close()
        delete_file(path, layout.access)
    except Exception as why:  # each storage has its own errors
        raise SetupError(
            f"{layout.folder} cannot be written from Python: {first_line(why)}",
            setting="pipeline.lake.catalog.properties",
            cure="add the properties that PyIceberg needs, such as s3.endpoint and s3.access-key-id; hdfs:// needs HADOOP_HOME",
        ) from why


def _level(codec: str, given: str | None) -> int | None:
    """Return the compression level; None if the codec has no levels or no level is set."""
    return int(given) if given is not None and codec in _LEVELS else None
