"""Decimals of IEEE 754 decimal128: 34 digits and exponents up to 6144. Nothing is rounded (ADR 0027)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import (
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
)

DIGITS, EXPONENT = 34, 6144

_EXACT = Context(
    prec=DIGITS,
    Emin=1 - EXPONENT,
    Emax=EXPONENT,
    traps=[DivisionByZero, Inexact, InvalidOperation, Overflow],
)
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

Operation = Callable[[Decimal, Decimal], Decimal]
OPERATIONS: Mapping[str, Operation] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
    "%": _EXACT.remainder,
}


def read(text: str) -> Decimal | None:
    """Return the number as a Decimal. Return None if the text is no number, or if a Decimal cannot hold it
    exactly."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return _EXACT.create_decimal(text)
    except DecimalException:
        return None


def exact_result(operation: Operation, x: Decimal, y: Decimal) -> Decimal | None:
    """Return the result of the operation. Return None if it has no result, or if a Decimal cannot hold the
    result exactly."""
    try:
        return operation(x, y)
    except DecimalException:
        return None


def negative(number: Decimal) -> Decimal:
    """Return the negated number."""
    return _EXACT.minus(number)
