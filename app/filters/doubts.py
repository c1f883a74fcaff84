"""Filters that can be read and can hardly be meant: legal, and never true, or not for that reason."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple

from app.filters.cesql.functions import FUNCTIONS, absent, find
from app.filters.cesql.nodes import Attribute, Call, Exists, Node, children
from app.filters.cesql.parser import DATA, parse
from app.filters.cesql.static_type import returns
from app.filters.cesql.values import NAMES
from app.filters.model import Filter

Path = tuple[str | int, ...]


class Doubt(NamedTuple):
    """``path`` leads from the filter to the expression: ``("any", 0, "sql")``."""

    path: Path
    message: str
    cure: str


def doubts(one: Filter) -> Iterator[Doubt]:
    """Of a filter and all within it."""
    if one.sql is not None:
        for message, cure in _of_expression(parse(one.sql)):
            yield Doubt(("sql",), message, cure)
    for path, each in _inner(one):
        for doubt in doubts(each):
            yield doubt._replace(path=(*path, *doubt.path))


def _inner(one: Filter) -> Iterator[tuple[Path, Filter]]:
    for n, each in enumerate(one.inner):
        if one.not_ is not None:
            yield ("not",), each
        else:
            yield ("all" if one.all is not None else "any", n), each


def _of_expression(root: Node) -> Iterator[tuple[str, str]]:
    kind = returns(root)
    if kind is not None and kind is not bool:
        yield (
            f"is of type {NAMES[kind]}, not Boolean, and so never matches",
            "compare it with a value",
        )
    yield from _of_node(root)


def _of_node(node: Node) -> Iterator[tuple[str, str]]:
    match node:
        case Attribute("data") | Exists("data"):
            yield "an event has no attribute data", "look into the data by DATA('/a/b')"
        case Call() if find(node.name, len(node.arguments)) is None:
            yield _no_function(node)
    for each in children(node):
        yield from _of_node(each)


def _no_function(node: Call) -> tuple[str, str]:
    message = absent(node.name, len(node.arguments))
    if node.name in FUNCTIONS:
        return message, f"give {node.name} the arguments that it takes"
    near = get_close_matches(node.name, [*FUNCTIONS, *DATA], n=1)
    return message, f"did you mean {near[0]}?" if near else "known here: " + ", ".join(FUNCTIONS)
