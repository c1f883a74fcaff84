"""Compare the columns of a typed table with those that its schema wants now.

A new property becomes a new column, and a number may become wider. All other changes are refused:
rows that are there would not fit the new type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from app.pipeline.kinds import Exact, Items, Kind, Leaf, Members, Properties
from app.pipeline.typed.types import arrow_type

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
    wanted = arrow_type(kind)
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


def _words(there: pa.DataType) -> str:
    return "a record" if pa.types.is_struct(there) else str(there)


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
