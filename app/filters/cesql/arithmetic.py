"""Arithmetic of 32-bit integers (CESQL 3.1 and 3.4.2) and of decimals (ADR 0027)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from decimal import Decimal

from app.filters.cesql.decimals import DIGITS, OPERATIONS, exact_result
from app.filters.cesql.values import LEAST, MOST, Failure


def checked_integer(number: int) -> int:
    """Return the number. Raise Failure if 32 bits cannot hold it (CESQL 3.1, 3.3)."""
    if LEAST <= number <= MOST:
        return number
    raise Failure("math", f"{number} is beyond 32 bits")


def _divide(x: int, y: int) -> int:
    if y == 0:
        raise Failure("math", f"{x} cannot be divided by 0")
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _remainder(x: int, y: int) -> int:
    """Return the remainder, with the sign of ``x``."""
    return x - y * _divide(x, y)


def exact_decimal(sign: str, x: Decimal, y: Decimal) -> Decimal:
    """Return the exact result of a decimal operation. Raise Failure if a Decimal cannot hold the exact
    result, because nothing is rounded.
    """
    result = exact_result(OPERATIONS[sign], x, y)
    if result is None:
        raise Failure("math", f"{x} {sign} {y} has no exact result of {DIGITS} digits")
    return result


ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
}
ORDERS: Mapping[str, Callable[[int | Decimal, int | Decimal], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
