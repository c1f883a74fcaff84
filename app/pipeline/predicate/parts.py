"""Parts of an expression as columns, and their casts (CESQL 3.1, 3.7).

An error of CloudEvents SQL is null here: no value of the language is null, and what is made of a null
is null, as what is made of an error is an error (fail fast, ADR 0014). So every column below must be
strict: null where any operand is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from app.filters.cesql.values import Type, Value

LARGEST: Final = 4000
"""Columns that an expression may come to in the plan: beyond, Spark takes minutes to plan it."""

_INTEGER: Final = r"\A[+-]?[0-9]+\z"


class Refusal(Exception):
    """What cannot be compiled: the character where it begins, from 0, and why."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


class Part(msgspec.Struct, frozen=True):
    """The value of a node.

    ``type``    str, int (INT in Spark) or bool; None where the event decides, and then
                ``column`` has the canonical text and ``kind`` ``Integer``, ``Boolean`` or null (String).
    ``size``    columns that it is made of, repeats counted; more than ``LARGEST`` are refused.
    ``total``   it is never an error.
    ``value``   what it is where no event changes it.
    """

    type: Type | None
    column: Column
    size: int = 1
    total: bool = False
    kind: Column | None = None
    value: Value | None = None


def made(kind: Type, column: Column, *operands: Part, times: int = 1, total: bool = False) -> Part:
    """A part of others, each of which stands in it ``times`` over."""
    return Part(kind, column, 1 + times * sum(each.size for each in operands), total)


def constant(value: Value) -> Part:
    return Part(value.__class__, F.lit(value), total=True, value=value)


def failure(kind: Type) -> Part:
    """An error whatever the event."""
    return Part(kind, F.lit(None).cast({str: "string", int: "int", bool: "boolean"}[kind]))


def text(part: Part) -> Column:
    """Cast to String. The canonical text of an attribute is what its cast gives."""
    return part.column if part.type in {str, None} else part.column.cast("string")


def integer(part: Part) -> Column:
    """Cast to Integer; null for a text that is no 32-bit integer in base 10."""
    if part.type is int:
        return part.column
    if part.type is bool:
        return part.column.cast("int")
    number = _number(part.column)
    if part.type is str:
        return number
    flag = (part.column == "true").cast("int")
    return F.when(is_typed(part, "Boolean"), flag).otherwise(number)


def boolean(part: Part) -> Column:
    """Cast to Boolean; null for a text that is neither true nor false, in any case of letters."""
    if part.type is bool:
        return part.column
    if part.type is int:
        return part.column != 0
    words = _flag(part.column)
    if part.type is str:
        return words
    return F.when(is_typed(part, "Integer"), part.column != "0").otherwise(words)


def is_typed(part: Part, kind: str) -> Column:
    """Whether the event has the value as an ``Integer`` or a ``Boolean``."""
    return F.lit(False) if part.kind is None else part.kind == kind


CASTS: Final[dict[Type, Callable[[Part], Column]]] = {str: text, int: integer, bool: boolean}


def by_kind(part: Part, of: Callable[[Type, Column], Column]) -> Column:
    """What ``of`` makes of a value, given its type and its column of that type: where the event decides
    the type, of each in turn.
    """
    if part.type is not None:
        return of(part.type, part.column)
    typed = F.when(is_typed(part, "Integer"), of(int, _number(part.column)))
    typed = typed.when(is_typed(part, "Boolean"), of(bool, part.column == "true"))
    return typed.otherwise(of(str, part.column))


def balanced(columns: Sequence[Column], join: Callable[[Column, Column], Column]) -> Column:
    """Side by side in a tree of little depth: Spark descends into conditions by recursion."""
    if len(columns) == 1:
        return columns[0]
    middle = len(columns) // 2
    return join(balanced(columns[:middle], join), balanced(columns[middle:], join))


def _number(column: Column) -> Column:
    """The pattern first: Spark's own cast takes white space and more."""
    return F.regexp_extract(column, _INTEGER, 0).try_cast("int")


def _flag(column: Column) -> Column:
    return F.regexp_extract(column, r"(?i)\A(?:true|false)\z", 0).try_cast("boolean")
