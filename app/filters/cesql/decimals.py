"""Decimals as IEEE 754 decimal128 has them: 34 digits, exponents up to 6144. What they cannot hold exactly
is no value at all: nothing is rounded (ADR 0027).
"""

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
    """None for what is no number, or none that can be held exactly."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return _EXACT.create_decimal(text)
    except DecimalException:
        return None


def calculated(operation: Operation, x: Decimal, y: Decimal) -> Decimal | None:
    """None where the result cannot be held exactly, or there is none."""
    try:
        return operation(x, y)
    except DecimalException:
        return None


def negative(number: Decimal) -> Decimal:
    return _EXACT.minus(number)
