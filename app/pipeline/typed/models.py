"""Data of events as msgspec reads it: a class for each record, whose values are columns later."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from app.pipeline.kinds import Exact, Items, Kind, Leaf, Members, Properties

NULL: Final = Raw(b"null")

_LEAVES: Final[dict[str, Any]] = {
    "string": str | None, "int": int | None, "long": int | None, "double": float | None,
    "boolean": bool | None, "date": str | None, "instant": str | None, "json": Raw,
}  # fmt: skip
"""The type in which msgspec reads a value. ``json`` and decimals stay JSON text, with null as text."""


def attribute(number: int) -> str:
    """Return the attribute of a model that has the value of a record's field, by its number."""
    return f"f{number}"


@cache
def model_of(record: Properties) -> type[msgspec.Struct]:
    """Return the class of a record. An absent member is null; other members are ignored."""
    names = {attribute(n): field.name for n, field in enumerate(record.fields)}
    typed = [
        (attribute(n), _type(field.kind), NULL if is_text(field.kind) else None)
        for n, field in enumerate(record.fields)
    ]
    return msgspec.defstruct("Data", typed, rename=names, gc=False)


def is_text(kind: Kind) -> bool:
    """Return True if values of a kind stay JSON text in models."""
    return isinstance(kind, Exact) or kind == Leaf("json")


def _type(kind: Kind) -> Any:
    match kind:
        case Leaf(name=name):
            return _LEAVES[name]
        case Exact():
            return Raw
        case Properties():
            return model_of(kind) | None
        case Items(item=item):
            return list[_type(item)] | None  # type: ignore[misc]
        case Members(value=value):
            return dict[str, _type(value)] | None  # type: ignore[misc]
