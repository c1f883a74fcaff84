"""CloudEvents SQL as a condition of Spark: the tree of ``app.filters.cesql``, node for node (ADR 0014).

What no event changes is evaluated here and now, by ``app.filters`` itself. ``DATA`` and ``HAS_DATA`` are
refused: Spark's JSON changes numbers and takes the first of repeated names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from app.event.value import CloudEvent
from app.filters.cesql import nodes
from app.filters.cesql.expression import evaluated
from app.filters.cesql.parser import parse
from app.filters.cesql.static_type import returns
from app.filters.cesql.values import Failure, Type
from app.filters.cesql.values import cast as cast_value
from app.pipeline.predicate.columns import ALWAYS_THERE, Columns
from app.pipeline.predicate.functions import call
from app.pipeline.predicate.like import like
from app.pipeline.predicate.parts import (
    CASTS,
    LARGEST,
    Part,
    Refusal,
    balanced,
    boolean,
    by_kind,
    constant,
    failure,
    integer,
    is_typed,
    made,
    text,
)

_NO_EVENT = CloudEvent({})
_Join = Callable[[Column, Column], Column]


def compile_sql(expression: str, columns: Columns) -> Column:
    """True where the expression is Boolean true without an error; false or null elsewhere (CESQL 1.2). It has
    no ``refused_parts``. Raises Refusal where Spark would not get to the end of it; ParseError.
    """
    root = parse(expression)
    part = _Compiler(columns).condition(root)
    if part.size > LARGEST:
        why = f"it comes to {part.size} columns of Spark, of which {LARGEST} are taken: split it"
        raise Refusal(root.at, why)
    return part.column


def refused_parts(expression: str) -> Iterator[tuple[int, str]]:
    """Character (from 0) and reason of each part that has no columns."""
    return _refused(parse(expression))


def _refused(node: nodes.Node) -> Iterator[tuple[int, str]]:
    if isinstance(node, nodes.Data):
        name = "HAS_DATA" if node.existence else "DATA"
        yield node.at, f"{name} looks into the data, which Spark's JSON does not read to the letter"
    for each in nodes.children(node):
        yield from _refused(each)


class _Compiler:
    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def condition(self, node: nodes.Node) -> Part:
        """Of the whole expression: nothing is cast (1.2)."""
        if returns(node) is bool:
            return self._passing(node)
        part = self._part(node)
        if part.kind is None:
            return constant(False)
        return made(bool, is_typed(part, "Boolean") & (part.column == "true"), part)

    def _passing(self, node: nodes.Node) -> Part:
        """Where an error is as good as false: plain conditions, which a table can be asked."""
        if isinstance(node, nodes.Logic) and set(node.operators) == {"AND"}:
            parts = [self._passing(each) for each in node.operands]
            return made(bool, _side_by_side(parts, Column.__and__), *parts)
        part = self._part(node)
        return made(bool, boolean(part), part)

    def _part(self, node: nodes.Node) -> Part:
        if not _asks_the_event(node):
            return _evaluated(node)
        match node:
            case nodes.Attribute():
                return self._attribute(node.name)
            case nodes.Exists():
                there = self._columns.attribute(node.name).isNotNull()
                return Part(bool, there, total=True)
            case nodes.Call():
                return call(node, [self._part(each) for each in node.arguments])
            case nodes.Negate():
                operand = self._part(node.operand)
                return made(int, F.try_subtract(F.lit(0), integer(operand)), operand)
            case nodes.Not():
                operand = self._part(node.operand)
                total = operand.total and operand.type in {int, bool}
                return made(bool, ~boolean(operand), operand, total=total)
        return self._operation(node)

    def _operation(self, node: nodes.Node) -> Part:
        match node:
            case nodes.Like():
                operand = self._part(node.operand)
                found = like(text(operand), node.pattern)
                column = ~found if node.negated else found
                return made(bool, column, operand, total=operand.total)
            case nodes.In():
                return self._in(node)
            case nodes.Binary():
                return _binary(node.operator, self._part(node.left), self._part(node.right))
            case nodes.Logic():
                return self._logic(node)
        raise AssertionError(node)

    def _attribute(self, name: str) -> Part:
        column, kind = self._columns.attribute(name), self._columns.kind(name)
        total = name in ALWAYS_THERE
        return Part(str if kind is None else None, column, total=total, kind=kind)

    def _in(self, node: nodes.In) -> Part:
        """All elements are cast to the type of what is looked for, or it is an error (3.7)."""
        wanted, elements = self._part(node.operand), [self._part(each) for each in node.elements]
        column = by_kind(wanted, lambda kind, value: _within(value, elements, kind))
        total = wanted.total and wanted.type is str and all(each.total for each in elements)
        times = 2 if wanted.type else 6
        found = ~column if node.negated else column
        return made(bool, found, wanted, *elements, times=times, total=total)

    def _logic(self, node: nodes.Logic) -> Part:
        """From left to right (3.6), what is of one operator together."""
        whole = self._part(node.operands[0])
        run: list[Part] = [whole]
        for n, word in enumerate(node.operators):
            if n and word != node.operators[n - 1]:
                run = [_joined(node.operators[n - 1], run)]
            run.append(self._part(node.operands[n + 1]))
        return _joined(node.operators[-1], run)


def _asks_the_event(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Attribute | nodes.Exists) or any(
        map(_asks_the_event, nodes.children(node))
    )


def _evaluated(node: nodes.Node) -> Part:
    result = evaluated(node, _NO_EVENT)
    return failure(returns(node) or bool) if result.errors else constant(result.value)


def _binary(operator: str, left: Part, right: Part) -> Part:
    if operator in {"=", "!="}:
        return _equality(left, right, same=operator == "=")
    x, y = integer(left), integer(right)
    match operator:
        case "+":
            return made(int, F.try_add(x, y), left, right)
        case "-":
            return made(int, F.try_subtract(x, y), left, right)
        case "*":
            return made(int, F.try_multiply(x, y), left, right)
        case "/":
            return made(int, F.call_function("div", *_long(x, y)).try_cast("int"), left, right)
        case "%":
            dividend, divisor = _long(x, y)
            return made(int, (dividend % divisor).try_cast("int"), left, right)
    return made(bool, _ORDERS[operator](x, y), left, right)


_ORDERS = {"<": Column.__lt__, "<=": Column.__le__, ">": Column.__gt__, ">=": Column.__ge__}


def _long(dividend: Column, divisor: Column) -> tuple[Column, Column]:
    """In 64 bits nothing overflows; a divisor of 0 is an error, and null."""
    wide = divisor.cast("bigint")
    return dividend.cast("bigint"), F.nullif(wide, F.lit(0).cast("bigint"))


def _equality(left: Part, right: Part, *, same: bool) -> Part:
    """The right operand's type decides what the left one is cast to (3.7)."""

    def compared(kind: Type, value: Column) -> Column:
        return CASTS[kind](left) == value

    column = by_kind(right, compared)
    certain = right.type in {str, left.type}  # any value has a text
    return made(
        bool,
        column if same else ~column,
        left,
        right,
        times=1 if right.type else 3,
        total=certain and left.total and right.total,
    )


def _within(value: Column, elements: Sequence[Part], kind: Type) -> Column:
    try:
        found = [
            CASTS[kind](each) if each.value is None else F.lit(cast_value(each.value, kind))
            for each in elements
        ]
    except Failure:
        return failure(bool).column
    changing = [column for each, column in zip(elements, found, strict=True) if each.value is None]
    if not changing:
        return value.isin(*found)
    good = balanced([column.isNotNull() for column in changing], Column.__and__)
    return F.when(good, value.isin(*found))


def _joined(word: str, parts: list[Part]) -> Part:
    if word == "XOR":
        column = balanced([boolean(each) for each in parts], Column.__ne__)
        return made(bool, column, *parts, total=_certain(parts))
    if _certain(parts[:-1]):  # then Spark's own logic of three values says the same
        join = Column.__and__ if word == "AND" else Column.__or__
        return made(bool, _side_by_side(parts, join), *parts, total=_certain(parts))
    return made(bool, _in_turn(word, [boolean(each) for each in parts]), *parts, times=2)


def _certain(parts: Sequence[Part]) -> bool:
    """None is ever an error, nor is its cast to Boolean."""
    return all(each.total and each.type in {int, bool} for each in parts)


def _side_by_side(parts: Sequence[Part], join: _Join) -> Column:
    return balanced([boolean(each) for each in parts], join)


def _in_turn(word: str, values: Sequence[Column]) -> Column:
    """The first that decides, or that is an error, is the answer: what stands behind is not asked (3.4.2)."""
    *before, last = values
    chain: Any = F
    for value in before:
        settled = F.coalesce(value if word == "OR" else ~value, F.lit(True))
        chain = chain.when(settled, value)
    answer: Column = chain.otherwise(last)
    return answer
