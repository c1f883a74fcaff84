"""Where values of one kind stand in a setting, secrets above all: asked of the model, so that a new
setting cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

Path = tuple[str | int, ...]


def places_of(kind: type, value: Any, at: Path = ()) -> Iterator[Path]:
    """The path of each value of that kind in a validated model, by the names that users write."""
    if isinstance(value, kind):
        yield at
    elif isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            yield from places_of(kind, getattr(value, name), (*at, field.alias or name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from places_of(kind, inner, (*at, key))
    elif isinstance(value, list | tuple):
        for n, inner in enumerate(value):
            yield from places_of(kind, inner, (*at, n))


def value_at(document: Any, path: Path) -> Any:
    """None where there is nothing."""
    for step in path:
        inside = step in document if isinstance(document, dict) else _holds(document, step)
        if not inside:
            return None
        document = document[step]
    return document


def _holds(document: Any, step: str | int) -> bool:
    return isinstance(document, list) and isinstance(step, int) and step < len(document)


def replaced(document: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """A copy in which the value at ``path`` is another; the rest is shared."""
    if not path:
        return change(document)
    step, *rest = path
    copy = document.copy()
    copy[step] = replaced(document[step], tuple(rest), change)
    return copy
