"""Find the values of one type in a validated setting, secrets above all.

The search follows the model, so that a new setting cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any, ForwardRef, TypeVar, cast, get_args

from pydantic import BaseModel

Path = tuple[str | int, ...]
"""The names and indexes that lead from a document to a value in it."""

Kind = TypeVar("Kind")
_ANYTHING = frozenset({object, dict, list, tuple, Mapping, MutableMapping, Sequence})


def paths_of(kind: type, value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the path of each value of type ``kind`` in a validated model, in the names that users write."""
    return (path for path, _ in located(kind, value, at))


def located(kind: type[Kind], value: Any, at: Path = ()) -> Iterator[tuple[Path, Kind]]:
    """Yield each value of type ``kind`` in a validated model with its path."""
    if isinstance(value, kind):
        yield at, value
    elif isinstance(value, BaseModel):
        for name, written in _fields_with(type(value), cast("type", kind)):
            yield from located(kind, getattr(value, name), (*at, written))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from located(kind, inner, (*at, key))
    elif isinstance(value, list | tuple):
        for n, inner in enumerate(value):
            yield from located(kind, inner, (*at, n))


@cache
def _fields_with(model: type[BaseModel], kind: type) -> tuple[tuple[str, str], ...]:
    """Return name and written name of each field that may hold a value of that type.

    The field types decide, so that a thousand filters are not searched for secrets.
    """
    return tuple(
        (name, field.alias or name)
        for name, field in model.model_fields.items()
        if _may_hold(field.annotation, kind, frozenset())
    )


def _may_hold(annotation: Any, kind: type, seen: frozenset[type]) -> bool:
    if inner := get_args(annotation):
        return any(_may_hold(each, kind, seen) for each in inner)
    if annotation is Any or not isinstance(annotation, type):
        return annotation is Any or isinstance(annotation, TypeVar | ForwardRef)
    if issubclass(annotation, BaseModel):
        fields = () if annotation in seen else annotation.model_fields.values()
        return issubclass(annotation, kind) or any(
            _may_hold(each.annotation, kind, seen | {annotation}) for each in fields
        )
    return issubclass(annotation, kind) or annotation in _ANYTHING


def value_at(document: Any, path: Path) -> Any:
    """Return the value at a path, or None if there is none."""
    for step in path:
        inside = step in document if isinstance(document, dict) else _holds(document, step)
        if not inside:
            return None
        document = document[step]
    return document


def _holds(document: Any, step: str | int) -> bool:
    return isinstance(document, list) and isinstance(step, int) and step < len(document)


def with_changed_value(document: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return a copy of the document with a changed value at ``path``. The unchanged parts are shared."""
    if not path:
        return change(document)
    step, *rest = path
    copy = document.copy()
    copy[step] = with_changed_value(document[step], tuple(rest), change)
    return copy
