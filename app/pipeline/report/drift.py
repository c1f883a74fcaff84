"""Find changes in the data of a type: fields that were added, removed, changed their type, or
became null.

Two samples of documents are compared. A share may differ by chance, so only a difference of
``SURE`` standard errors is reported (a two-proportion z-test).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any, Final, Literal

import msgspec

SURE: Final = 3.5  # standard errors; at 3.5 one of 2,000 unchanged fields is reported by chance
LEAST: Final = 15  # documents in each sample: smaller samples are not compared
DEEPEST: Final = 8  # levels; deeper values are not distinguished
MOST: Final = 400  # paths of a type: with more, the keys are data themselves

Change = Literal["added", "removed", "more often", "less often", "type changed", "nulls"]
PRESENT: Final = "present"
_KINDS: Final[Mapping[type, str]] = {
    dict: "object", list: "array", str: "string", int: "number", float: "number", bool: "boolean",
    type(None): "null",
}  # fmt: skip
"""The names of JSON types. 1 and 1.5 have the same type."""
KINDS: Final = tuple(dict.fromkeys(kind for kind in _KINDS.values() if kind != "null"))

Paths = dict[str, Counter[str]]


class Shape(msgspec.Struct):
    """The fields of a sample of documents. A path has the form ``$.lines[].sku``.

    Attributes:
        documents: The number of documents.
        paths: The number of documents that have each path, and the number that have each type at the path.
    """

    documents: int = 0
    paths: Paths = msgspec.field(default_factory=dict)

    def share(self, path: str, what: str) -> float:
        return self.count(path, what) / self.documents if self.documents else 0.0

    def count(self, path: str, what: str) -> int:
        return self.paths.get(path, Counter())[what]

    def kinds(self, path: str) -> list[str]:
        return [kind for kind in KINDS if self.count(path, kind)]


class Drift(msgspec.Struct, frozen=True):
    """A change of one field.

    Attributes:
        path: The path of the field.
        change: The kind of change.
        before: The share of documents, or the types, before the change.
        after: The share of documents, or the types, after the change.
    """

    path: str
    change: Change
    before: str
    after: str


def add(shape: Shape, text: str) -> None:
    """Add a document to a shape. A text that is not JSON is ignored."""
    try:
        document = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return
    shape.documents += 1
    for path, kind in set(_walk("$", document, 0)):
        if path not in shape.paths and len(shape.paths) >= MOST:
            continue
        shape.paths.setdefault(path, Counter())[kind] += 1


def compare(before: Shape, after: Shape) -> list[Drift]:
    """Return the changes between two samples; none if a sample has fewer than ``LEAST`` documents."""
    if min(before.documents, after.documents) < LEAST:
        return []
    paths = sorted({*before.paths, *after.paths})
    found = [drift for path in paths for drift in _of_path(path, before, after)]
    gone = {drift.path for drift in found if drift.change in {"added", "removed"}}
    return [drift for drift in found if not _is_inside(drift.path, gone - {drift.path})]


def differs(one: int, of_one: int, other: int, of_other: int) -> bool:
    """Return True if two shares differ more than chance explains."""
    if not of_one or not of_other:
        return False
    both = (one + other) / (of_one + of_other)
    error = sqrt(both * (1 - both) * (1 / of_one + 1 / of_other))
    return error > 0 and abs(one / of_one - other / of_other) / error >= SURE


def _of_path(path: str, before: Shape, after: Shape) -> Iterator[Drift]:
    was, now = before.count(path, PRESENT), after.count(path, PRESENT)
    if differs(was, before.documents, now, after.documents):
        yield Drift(path, _presence(was, now), _percent(before, path), _percent(after, path))
    if not was or not now:
        return
    none, none_now = before.count(path, "null"), after.count(path, "null")
    if differs(none, was, none_now, now):
        yield Drift(path, "nulls", f"{none / was:.0%}", f"{none_now / now:.0%}")
    kinds = before.kinds(path), after.kinds(path)
    moved = [
        kind
        for kind in KINDS
        if differs(before.count(path, kind), was - none, after.count(path, kind), now - none_now)
    ]
    if moved and kinds[0] != kinds[1]:
        yield Drift(path, "type changed", *(", ".join(each) for each in kinds))


def _presence(was: int, now: int) -> Change:
    if not was:
        return "added"
    if not now:
        return "removed"
    return "more often" if now > was else "less often"


def _percent(shape: Shape, path: str) -> str:
    return f"{shape.share(path, PRESENT):.0%}"


def _is_inside(path: str, parents: set[str]) -> bool:
    """Return True if a path is inside an object that was added or removed itself."""
    return any(path.startswith((f"{parent}.", f"{parent}[")) for parent in parents)


def _walk(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    yield path, PRESENT
    yield path, _KINDS[type(value)]
    if depth == DEEPEST:
        return
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _walk(f"{path}.{_shown(name)}", below, depth + 1)
    elif isinstance(value, list):
        for below in value:
            yield from _walk(f"{path}[]", below, depth + 1)


def _shown(name: str) -> str:
    """Return a name in a form that a table can hold. A JSON name may have unpaired surrogates."""
    return name.encode("utf-8", "backslashreplace").decode()
