"""Find filters that are valid but probably not intended. Parts of them never match, or always fail."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import NamedTuple

from app.event.value import CloudEvent
from app.filters.cesql import nodes
from app.filters.cesql.arithmetic import ARITHMETIC, ORDERS
from app.filters.cesql.expression import evaluated
from app.filters.cesql.functions import FUNCTIONS, find, missing_function_message
from app.filters.cesql.parser import DATA, parse
from app.filters.cesql.printer import node_text
from app.filters.cesql.static_type import is_decimal, result_type
from app.filters.cesql.values import NAMES, Failure, to_decimal, to_integer
from app.filters.model import Filter

NUMERIC = frozenset([*ARITHMETIC, *ORDERS])
NO_NUMBERS = frozenset(["time", "datacontenttype"])
"""Attributes whose valid values are never numbers."""
Path = tuple[str | int, ...]
"""The steps from a filter to a filter or expression inside it: field names and list indexes."""


class FilterWarning(NamedTuple):
    """A warning about one SQL expression.

    Attributes:
        path: The steps from the filter to the expression, such as ``("any", 0, "sql")``.
        message: The problem.
        cure: The remedy.
    """

    path: Path
    message: str
    cure: str


def doubts(one: Filter) -> Iterator[FilterWarning]:
    """Yield the warnings about a filter and all filters inside it."""
    if one.sql is not None:
        for message, cure in _of_expression(parse(one.sql)):
            yield FilterWarning(("sql",), message, cure)
    for path, each in _inner(one):
        for doubt in doubts(each):
            yield doubt._replace(path=(*path, *doubt.path))


def _inner(one: Filter) -> Iterator[tuple[Path, Filter]]:
    for n, each in enumerate(one.inner):
        if one.not_ is not None:
            yield ("not",), each
        else:
            yield ("all" if one.all is not None else "any", n), each


def _of_expression(root: nodes.ExpressionNode) -> Iterator[tuple[str, str]]:
    kind = result_type(root)
    if kind is not None and kind is not bool:
        yield (
            f"is of type {NAMES[kind]}, not Boolean, so no event matches",
            "compare the expression with a value",
        )
    yield from _of_node(root)
    yield from _failing(root)


def _failing(node: nodes.ExpressionNode) -> Iterator[tuple[str, str]]:
    """Yield message and cure for each part of an expression that fails for every event. Only the largest such
    parts are reported."""
    if not reads_event(node):
        for error in evaluated(node, CloudEvent({})).errors:
            if error.kind != "missingFunction":  # _no_function reports it
                yield (
                    f"The part {node_text(node)} always fails: {error.message}",
                    "correct or remove this part, because no event matches it",
                )
        return
    if isinstance(node, nodes.Binary) and node.operator in NUMERIC:
        yield from _no_number(node)
        yield from _no_divisor(node)
    for each in nodes.children(node):
        yield from _failing(each)


def _no_number(node: nodes.Binary) -> Iterator[tuple[str, str]]:
    """Yield message and cure for each operand of arithmetic or ordering that can never be a number."""
    cast = to_decimal if is_decimal(node.left, node.right) else to_integer
    for side in (node.left, node.right):
        if isinstance(side, nodes.Constant):
            try:
                cast(side.value)
            except Failure as failure:
                message = f"The part {node_text(node)} always fails: {failure.message}"
                yield message, _cure(node)
        elif isinstance(side, nodes.Attribute) and side.name in NO_NUMBERS:
            message = f"The part {node_text(node)} always fails: {side.name} is no number"
            yield message, _cure(node)


def _cure(node: nodes.Binary) -> str:
    if nodes.Attribute("time") in (node.left, node.right):
        return f"compare times: TIME(time) {node.operator} TIME('2026-01-01T00:00:00Z')"
    return f"use {node.operator} only for numbers, and =, != or LIKE for texts"


def _no_divisor(node: nodes.Binary) -> Iterator[tuple[str, str]]:
    """Yield message and cure for a division by 0. Do the same for a decimal division whose result may have
    endless digits, such as a division by 3."""
    if node.operator not in {"/", "%"} or not isinstance(node.right, nodes.Constant):
        return
    divisor = node.right.value
    if not isinstance(divisor, int | Decimal):
        return
    if not divisor:
        yield (
            f"The part {node_text(node)} always fails: it divides by 0",
            "divide by another number",
        )
    elif node.operator == "/" and is_decimal(node) and _is_endless(divisor):
        cure = "multiply the other side instead, or divide whole numbers: INT(DATA('/n')) / 3"
        yield (
            f"The part {node_text(node)} fails if the result has endless digits, as 1 / 3 has",
            cure,
        )


def _is_endless(divisor: int | Decimal) -> bool:
    """Return True if the divisor has a prime factor other than 2 and 5. A quotient may then have endless
    digits."""
    rest = abs(Fraction(divisor).numerator)
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    return rest != 1


def reads_event(node: nodes.ExpressionNode) -> bool:
    """Return True if the value of the expression depends on the event."""
    own = isinstance(node, nodes.Attribute | nodes.Exists | nodes.Data)
    return own or any(map(reads_event, nodes.children(node)))


def _of_node(node: nodes.ExpressionNode) -> Iterator[tuple[str, str]]:
    match node:
        case nodes.Attribute("data") | nodes.Exists("data"):
            yield (
                "The attribute data does not exist in any event",
                "read the data with DATA('/a/b')",
            )
        case nodes.Call() if find(node.name, len(node.arguments)) is None:
            yield _no_function(node)
    for each in nodes.children(node):
        yield from _of_node(each)


def _no_function(node: nodes.Call) -> tuple[str, str]:
    message = missing_function_message(node.name, len(node.arguments))
    if node.name in FUNCTIONS:
        return message, f"give {node.name} the arguments that it takes"
    near = get_close_matches(node.name, [*FUNCTIONS, *DATA], n=1)
    return (
        message,
        f"did you mean {near[0]}?"
        if near
        else "use one of these functions: " + ", ".join(FUNCTIONS),
    )
