"""The types of the columns of typed tables: in msgspec, which reads the data, in Arrow, and in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import Raw

from app.pipeline.decode.times import INSTANT
from app.pipeline.kinds import Exact, Items, Kind, Leaf, LeafName, Members, Properties

NULL: Final = Raw(b"null")


class LeafTypes(NamedTuple):
    """The types of a column without inner columns.

    Attributes:
        model: The type in which msgspec reads a value. ``json`` stays JSON text, with null as text.
        arrow: The type in Arrow.
        sql: The type in Spark's SQL.
        words: The type in messages.
    """

    model: Any
    arrow: pa.DataType
    sql: str
    words: str


LEAVES: Final[Mapping[LeafName, LeafTypes]] = {
    "string": LeafTypes(str | None, pa.string(), "STRING", "a text"),
    "int": LeafTypes(int | None, pa.int32(), "INT", "an integer of 32 bits"),
    "long": LeafTypes(int | None, pa.int64(), "BIGINT", "an integer of 64 bits"),
    "double": LeafTypes(float | None, pa.float64(), "DOUBLE", "a number"),
    "boolean": LeafTypes(bool | None, pa.bool_(), "BOOLEAN", "true or false"),
    "date": LeafTypes(str | None, pa.date32(), "DATE", "a date"),
    "instant": LeafTypes(str | None, INSTANT, "TIMESTAMP", "a time"),
    "json": LeafTypes(Raw, pa.string(), "STRING", "a JSON value"),
}


def attribute(number: int) -> str:
    """Return the attribute of a model that has the value of a record's field, by its number."""
    return f"f{number}"


@cache
def model_of(record: Properties) -> type[msgspec.Struct]:
    """Return the class in which msgspec reads a record. An absent member is null; other members are
    ignored."""
    names = {attribute(n): field.name for n, field in enumerate(record.fields)}
    typed = [
        (attribute(n), model_type(field.kind), NULL if is_text(field.kind) else None)
        for n, field in enumerate(record.fields)
    ]
    return msgspec.defstruct("Data", typed, rename=names, gc=False)


def is_text(kind: Kind) -> bool:
    """Return True if values of a kind stay JSON text in models."""
    return isinstance(kind, Exact) or kind == Leaf("json")


def model_type(kind: Kind) -> Any:
    """Return the type in which msgspec reads a value of a kind."""
    match kind:
        case Leaf(name=name):
            return LEAVES[name].model
        case Exact():
            return Raw
        case Properties():
            return model_of(kind) | None
        case Items(item=item):
            return list[model_type(item)] | None  # type: ignore[misc]
        case Members(value=value):
            return dict[str, model_type(value)] | None  # type: ignore[misc]


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the type of a column in Arrow."""
    match kind:
        case Leaf(name=name):
            return LEAVES[name].arrow
        case Exact(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case Items(item=item):
            return pa.list_(arrow_type(item))
        case Members(value=value):
            return pa.map_(pa.string(), arrow_type(value))
        case Properties(fields=fields):
            return pa.struct([(field.name, arrow_type(field.kind)) for field in fields])


def sql_type(kind: Kind) -> str:
    """Return the type of a column as Spark's SQL declares it."""
    match kind:
        case Leaf(name=name):
            return LEAVES[name].sql
        case Exact(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
        case Items(item=item):
            return f"ARRAY<{sql_type(item)}>"
        case Members(value=value):
            return f"MAP<STRING, {sql_type(value)}>"
        case Properties(fields=fields):
            inner = (f"`{field.name}`: {sql_type(field.kind)}" for field in fields)
            return f"STRUCT<{', '.join(inner)}>"


def declared(record: Properties) -> list[str]:
    """Return the columns of a record as SQL declares them."""
    return [f"`{field.name}` {sql_type(field.kind)}" for field in record.fields]
