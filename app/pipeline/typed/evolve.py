"""Compare the columns of a typed table with those that its schema wants now.

A new property becomes a new column, and a number may become wider. All other changes are refused:
rows that are there would not fit the new type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from app.pipeline.kinds import Exact, Items, Kind, Leaf, Members, Properties
from app.pipeline.typed.arrays import LEAVES

_SQL: Final = {
    "string": "STRING", "int": "INT", "long": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN",
    "date": "DATE", "instant": "TIMESTAMP", "json": "STRING",
}  # fmt: skip

Path = tuple[str, ...]
"""The names that lead to a column. ``element`` and ``value`` lead into a list and a map."""


class Change(NamedTuple):
    """A change of a column.

    Attributes:
        path: The column.
        kind: The kind that the schema wants.
        refused: Why the column cannot be changed; empty if it can.
    """

    path: Path
    kind: Kind
    refused: str = ""


def changes(
    kind: Kind, there: pa.DataType, json_paths: frozenset[str], path: Path = ()
) -> Iterator[Change]:
    """Yield the changes that make a column of the type ``there`` one of the kind.

    Args:
        kind: The kind that the schema wants.
        there: The type of the table.
        json_paths: The columns of the table that have JSON text, with dots in their names.
        path: The column.
    """
    match kind:
        case Properties(fields=fields) if pa.types.is_struct(there):
            names = {field.name.casefold(): field for field in there}
            for field in fields:
                known, inner = names.get(field.name.casefold()), (*path, field.name)
                if known is None:
                    yield Change(inner, field.kind)
                elif known.name != field.name:
                    yield Change(inner, field.kind, refused=f"is named {known.name}")
                else:
                    yield from changes(field.kind, known.type, json_paths, inner)
        case Items(item=item) if pa.types.is_list(there):
            yield from changes(item, there.value_type, json_paths, (*path, "element"))
        case Members(value=value) if pa.types.is_map(there):
            yield from changes(value, there.item_type, json_paths, (*path, "value"))
        case Exact() | Leaf():
            yield from _leaf(kind, there, ".".join(path) in json_paths, path)
        case _:
            yield Change(path, kind, refused=f"is {_words(there)}")


def _leaf(kind: Exact | Leaf, there: pa.DataType, is_json: bool, path: Path) -> Iterator[Change]:
    wanted = leaf_type(kind)
    if wanted == there and (there != pa.string() or is_json == (kind == Leaf("json"))):
        return
    wider = (there, wanted) == (pa.int32(), pa.int64()) or (
        isinstance(kind, Exact)
        and pa.types.is_decimal(there)
        and kind.scale == there.scale
        and kind.precision > there.precision
    )
    was = "is JSON text" if is_json else f"is {_words(there)}"
    yield Change(path, kind, refused="" if wider else was)


def leaf_type(kind: Exact | Leaf) -> pa.DataType:
    """Return the type of a column without inner columns."""
    return (
        pa.decimal128(kind.precision, kind.scale) if isinstance(kind, Exact) else LEAVES[kind.name]
    )


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the type of a column in Arrow."""
    match kind:
        case Items(item=item):
            return pa.list_(arrow_type(item))
        case Members(value=value):
            return pa.map_(pa.string(), arrow_type(value))
        case Properties(fields=fields):
            return pa.struct([(field.name, arrow_type(field.kind)) for field in fields])
    return leaf_type(kind)


def _words(there: pa.DataType) -> str:
    return "a record" if pa.types.is_struct(there) else str(there)


def sql_type(kind: Kind) -> str:
    """Return the type of a column as Spark's SQL declares it."""
    match kind:
        case Leaf(name=name):
            return _SQL[name]
        case Exact(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case Items(item=item):
            return f"ARRAY<{sql_type(item)}>"
        case Members(value=value):
            return f"MAP<STRING, {sql_type(value)}>"
        case Properties(fields=fields):
            inner = (f"{quoted(field.name)}: {sql_type(field.kind)}" for field in fields)
            return f"STRUCT<{', '.join(inner)}>"


def json_paths(kind: Kind, path: Path = ()) -> Iterator[str]:
    """Yield the columns that have JSON text, with dots in their names."""
    match kind:
        case Leaf(name="json"):
            yield ".".join(path)
        case Properties(fields=fields):
            for field in fields:
                yield from json_paths(field.kind, (*path, field.name))
        case Items(item=item):
            yield from json_paths(item, (*path, "element"))
        case Members(value=value):
            yield from json_paths(value, (*path, "value"))


def declared(record: Properties) -> list[str]:
    """Return the columns of a record as SQL declares them."""
    return [f"{quoted(field.name)} {sql_type(field.kind)}" for field in record.fields]


def quoted(name: str) -> str:
    """Return a name as SQL takes it."""
    return f"`{name}`"
