"""Create the typed tables of a lake, and change their columns when their schemas have changed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from app.errors import SetupError
from app.pipeline import history, tables
from app.pipeline.archive import iceberg_adapter
from app.pipeline.kinds import TypedTable
from app.pipeline.settings import Lake
from app.pipeline.typed.evolve import Change, changes, json_paths
from app.pipeline.typed.rows import COLUMNS
from app.pipeline.typed.types import declared, sql_type
from app.spark.pyspark_adapter import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JSON_PROPERTY: Final = "skybridge.json-columns"
_EVENT_TYPES: Final = {"ce_time": "TIMESTAMP", "ce_record_time": "TIMESTAMP", "ce_partition": "INT",
                       "ce_offset": "BIGINT", "ce_extensions": "MAP<STRING, STRING>"}  # fmt: skip


def make(spark: SparkSession, lake: Lake) -> None:
    """Create the typed tables that are missing, and add or widen columns of the others.

    Raises:
        SetupError: A table is not a typed table of this type, or a column would become narrower.
    """
    for each in lake.tables:
        if spark.catalog.tableExists(lake.table(each.table)):
            _evolve(spark, lake, each)
        else:
            spark.sql(_statement(lake, each))


def _statement(lake: Lake, table: TypedTable) -> str:
    own = [f"{name} {_EVENT_TYPES.get(name, 'STRING')}" for name in COLUMNS]
    columns = ", ".join([*own, *declared(table.data)])
    listed = tables.property_list(
        {
            **tables.PROPERTIES,
            tables.TYPE_PROPERTY: table.type,
            _JSON_PROPERTY: _json_columns(table),
        }
    )
    return (
        f"CREATE TABLE IF NOT EXISTS {lake.table(table.table)} ({columns}) USING iceberg"
        f" PARTITIONED BY (days(ce_time)) TBLPROPERTIES ({listed})"
    )


def _json_columns(table: TypedTable) -> str:
    return json.dumps(sorted(json_paths(table.data)))


def _evolve(spark: SparkSession, lake: Lake, table: TypedTable) -> None:
    name = lake.table(table.table)
    loaded = history.iceberg_table(spark, name)
    known = dict(loaded.properties())
    if known.get(tables.TYPE_PROPERTY) != table.type:
        raise SetupError(
            f"{name} is the table of {known.get(tables.TYPE_PROPERTY, 'something else')}, not of {table.type}",
            setting=f"pipeline.tables.{table.table}.table",
            cure="name another table",
        )
    there = iceberg_adapter.schema(
        loaded, name, [str(each.name()) for each in loaded.schema().columns()]
    )
    json_text = json.loads(known.get(_JSON_PROPERTY, "[]"))
    found = list(changes(table.data, pa.struct(there), frozenset(json_text)))
    _refuse(table, [each for each in found if each.refused])
    if found:
        _grow(spark, loaded, table, {*json_text, *json_paths(table.data)})


def _grow(spark: SparkSession, loaded: Any, table: TypedTable, json_columns: Iterable[str]) -> None:
    """Add and widen the columns of a table, and name those with JSON text, in one commit. A killed
    archive would otherwise leave columns that the next one refuses."""
    java = jvm(spark).org.apache
    columns = java.spark.sql.types.StructType.fromDDL(", ".join(declared(table.data)))
    change = loaded.newTransaction()
    change.updateSchema().unionByNameWith(
        java.iceberg.spark.SparkSchemaUtil.convert(columns)
    ).commit()
    text = json.dumps(sorted(json_columns))
    change.updateProperties().set(_JSON_PROPERTY, text).commit()
    change.commitTransaction()


def _refuse(table: TypedTable, refused: list[Change]) -> None:
    if refused:
        words = (
            f"{'.'.join(each.path)} {each.refused}, and would become {sql_type(each.kind)}"
            for each in refused
        )
        raise SetupError(
            f"rows of {table.table} would not fit its new columns: {'; '.join(words)}",
            setting=f"pipeline.tables.{table.table}.schema",
            cure="keep these types in the schema, or name another table, which is filled from the beginning",
        )
