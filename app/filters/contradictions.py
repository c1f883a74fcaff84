"""Find conditions that must all hold and never can: ``exact type a`` and ``exact type b``, ``n > 10 AND n < 5``.

Only conditions on the same attribute or expression are compared, two at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

from app.filters.cesql import nodes
from app.filters.cesql.arithmetic import ORDERS
from app.filters.cesql.like import literal, pieces
from app.filters.cesql.parser import parse
from app.filters.cesql.printer import node_text
from app.filters.cesql.values import Value, clipped
from app.filters.doubts import FilterWarning, Path
from app.filters.model import Filter

_CURE = "put alternatives into any (in SQL: OR), or remove one"
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
TEXTS = ("exact", "prefix", "suffix")
_OPPOSITE = {
    "in": "not in",
    "prefix": "not prefix",
    "suffix": "not suffix",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
_OPPOSITE |= {no: yes for yes, no in _OPPOSITE.items()}


class Condition(NamedTuple):
    """A comparison of one attribute or expression with values.

    Attributes:
        of: The attribute or expression.
        kind: ``in``, ``prefix`` or ``suffix``, each also with ``not``, or an operator of order.
        values: The values to compare with; one, except for ``in`` and ``not in``.
        text: The condition as its author wrote it.
        path: The steps from the list of filters to the filter.
    """

    of: nodes.ExpressionNode
    kind: str
    values: tuple[Value, ...]
    text: str
    path: Path


def contradictions(filters: Sequence[Filter]) -> Iterator[FilterWarning]:
    """Yield a warning for each two conditions that never hold both, of filters that must all match."""
    groups: list[list[Condition]] = [[]]
    for n, one in enumerate(filters):
        _collect(one, (n,), groups[0], groups)
    for group in groups:
        pairs = combinations(group, 2)
        found = [each for each in pairs if each[0].of == each[1].of and exclude(*each)]
        for text, other, path in dict.fromkeys(
            (one.text, two.text, two.path) for one, two in found
        ):
            message = f"{text} and {other} never both match, so no event passes"
            yield FilterWarning(path, message, _CURE)


def _collect(one: Filter, path: Path, into: list[Condition], groups: list[list[Condition]]) -> None:
    """Append the conditions of a filter. Filters inside ``any`` and ``not`` begin groups of their own."""
    for dialect in TEXTS:
        into += [
            text_condition(dialect, name, text, path)
            for name, text in (getattr(one, dialect) or {}).items()
        ]
    if one.sql is not None:
        _collect_sql(parse(one.sql), (*path, "sql"), into, groups)
    for n, each in enumerate(one.all or ()):
        _collect(each, (*path, "all", n), into, groups)
    alternatives = [((*path, "any", n), each) for n, each in enumerate(one.any or ())]
    if one.not_ is not None:
        alternatives.append(((*path, "not"), one.not_))
        into += _negated(one.not_, (*path, "not"))
    for at, each in alternatives:
        groups.append([])
        _collect(each, at, groups[-1], groups)


def text_condition(dialect: str, name: str, text: str, path: Path) -> Condition:
    kind = "in" if dialect == "exact" else dialect
    shown = f"{dialect} {name} {clipped(text)}"
    return Condition(nodes.Attribute(name), kind, (text,), shown, (*path, dialect))


def _negated(one: Filter, path: Path) -> list[Condition]:
    """Return the conditions that hold where a filter does not match: of one attribute, or of each of ``any``."""
    if one.any is not None:
        return [
            found for n, each in enumerate(one.any) for found in _negated(each, (*path, "any", n))
        ]
    found = []
    for dialect in TEXTS:
        texts = getattr(one, dialect) or {}
        if len(texts) == 1:
            ((name, text),) = texts.items()
            found.append(opposite(text_condition(dialect, name, text, path), "not "))
    return found


def opposite(condition: Condition, before: str = "") -> Condition:
    return condition._replace(kind=_OPPOSITE[condition.kind], text=before + condition.text)


def _collect_sql(
    node: nodes.ExpressionNode, path: Path, into: list[Condition], groups: list[list[Condition]]
) -> None:
    if isinstance(node, nodes.Logic):
        joined = set(node.operators) == {"AND"}
        for each in node.operands:
            if not joined:
                groups.append([])
            _collect_sql(each, path, into if joined else groups[-1], groups)
    else:
        into += conditions_of(node, path)


def conditions_of(node: nodes.ExpressionNode, path: Path) -> Iterator[Condition]:
    """Yield the conditions on one attribute or expression that follow from an expression that must be true."""
    match node:
        case nodes.Not(inner):
            text = node_text(node)
            for each in conditions_of(inner, path):
                yield opposite(each)._replace(text=text)
        case nodes.Like():
            yield from _alike_text(node, path)
        case _:
            known = _comparison(node, path)
            yield known or Condition(node, "in", (True,), node_text(node), path)


def _alike_text(node: nodes.Like, path: Path) -> Iterator[Condition]:
    """Yield the condition of LIKE with a plain text, a beginning or an end. Other patterns are compared as wholes."""
    texts = [literal(each) for each in pieces(node.pattern)]
    match texts:
        case [str(whole)]:
            kind, text = "in", whole
        case [str(begin), ""] if begin:
            kind, text = "prefix", begin
        case ["", str(end)] if end:
            kind, text = "suffix", end
        case _:
            whole_node = replace(node, negated=False)
            yield Condition(whole_node, "in", (not node.negated,), node_text(node), path)
            return
    found = Condition(node.operand, kind, (text,), node_text(node), path)
    yield found._replace(kind=_OPPOSITE[kind]) if node.negated else found


def _comparison(node: nodes.ExpressionNode, path: Path) -> Condition | None:
    match node:
        case nodes.Binary(operator, nodes.Constant(value), of):
            return _ordered(of, _MIRRORED.get(operator, operator), value, node, path)
        case nodes.Binary(operator, of, nodes.Constant(value)):
            return _ordered(of, operator, value, node, path)
        case nodes.In(of, elements, negated):
            values = [each.value for each in elements if isinstance(each, nodes.Constant)]
            if len(values) == len(elements):
                kind = "not in" if negated else "in"
                return Condition(of, kind, tuple(values), node_text(node), path)
    return None


def _ordered(
    of: nodes.ExpressionNode, operator: str, value: Value, node: nodes.ExpressionNode, path: Path
) -> Condition | None:
    kind = {"=": "in", "!=": "not in"}.get(operator, operator)
    if kind in ORDERS and not _is_number(value):
        return None
    known = kind in {"in", "not in"} or kind in ORDERS
    return Condition(of, kind, (value,), node_text(node), path) if known else None


def exclude(first: Condition, second: Condition) -> bool:
    """Return True if no value meets both conditions."""
    for one, other in ((first, second), (second, first)):
        if one.kind == "in" and alike(*one.values, *other.values):
            return not any(meets(value, other) for value in one.values)
    for one, other in ((first, second), (second, first)):
        if one.kind in {"prefix", "suffix"} and other.kind == f"not {one.kind}":
            return not meets(one.values[0], other)
    if first.kind == second.kind and first.kind in {"prefix", "suffix"}:
        return not any(
            meets(*pair) for pair in ((first.values[0], second), (second.values[0], first))
        )
    return _is_empty(first, second) or _is_empty(second, first)


def meets(value: Value, condition: Condition) -> bool:
    match condition.kind:
        case "in":
            return value in condition.values
        case "not in":
            return value not in condition.values
        case "prefix":
            return str(value).startswith(str(condition.values[0]))
        case "suffix":
            return str(value).endswith(str(condition.values[0]))
        case "not prefix" | "not suffix":
            return not meets(value, opposite(condition))
    return ORDERS[condition.kind](_number(value), _number(condition.values[0]))


def _is_empty(lower: Condition, upper: Condition) -> bool:
    """Return True if the range above one bound and below the other has no number."""
    if lower.kind not in {">", ">="} or upper.kind not in {"<", "<="}:
        return False
    least, most = _number(lower.values[0]), _number(upper.values[0])
    return least > most or (least == most and (lower.kind, upper.kind) != (">=", "<="))


def alike(*values: Value) -> bool:
    """Return True if the values compare without a cast: all are numbers, or all are of one type."""
    return all(map(_is_number, values)) or len({type(value) for value in values}) == 1


def _is_number(value: Value) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _number(value: Value) -> int | Decimal:
    return value if isinstance(value, int | Decimal) else Decimal(0)
