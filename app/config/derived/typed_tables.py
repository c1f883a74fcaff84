"""The typed tables of the lake, with the columns that their schema files describe."""

from __future__ import annotations

from collections.abc import Iterable

from app.config.derived.route_resources import read_schema
from app.config.model.pipeline import LakeTable
from app.pipeline.kinds import TypedTable
from app.pipeline.typed.schema import columns_of


def typed_tables(tables: Iterable[LakeTable]) -> tuple[TypedTable, ...]:
    """Read the schema files. Raise SetupError with the setting at fault."""
    return tuple(typed_table(each, f"pipeline.tables[{n}].schema") for n, each in enumerate(tables))


def typed_table(table: LakeTable, at: str) -> TypedTable:
    """Read the schema file of one table. ``at`` is the path of the setting, which errors name."""
    text = read_schema(table.data_schema, at)
    return TypedTable(table.type, table.table, columns_of(text, at))
