"""Types and casts (CESQL 3.1 and 3.7). Each CESQL type is represented by a Python type.

Decimal is an extension of Skybridge for numbers in data (ADR 0027).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Literal

from app.filters.cesql.decimals import DIGITS, read

Value = str | int | bool | Decimal
Type = type[str] | type[int] | type[bool] | type[Decimal]
ErrorKind = Literal[
    "parse", "math", "cast", "missingAttribute", "missingFunction", "functionEvaluation", "generic"
]  # CESQL 3.3

LEAST, MOST = -(2**31), 2**31 - 1
ZERO: Mapping[Type, Value] = {str: "", int: 0, bool: False, Decimal: Decimal()}
NAMES: Mapping[Type, str] = {
    str: "String",
    int: "Integer",
    bool: "Boolean",
    Decimal: "Decimal",
}

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,10})")
_SHORT = 10  # this many digits always fit in 32 bits
_CLIP = 40  # the most characters of a value in a message


_REASONS: Mapping[ErrorKind, str] = {
    "cast": "a value has the wrong type",
    "math": "a calculation has no exact result in range",
    "functionEvaluation": (
        "a function has no result, or the data has no fitting value at the pointer"
    ),
}


class Failure(Exception):
    """An evaluation error.

    Attributes:
        kind: The kind of error in CESQL.
        message: The message, with values of the event.
        value: The result that a function defines for this error. None means the zero value of its type.
    """

    def __init__(self, kind: ErrorKind, message: str, value: Value | None = None) -> None:
        self.kind: ErrorKind = kind
        self.message = message
        self.value = value

    @property
    def reason(self) -> str:
        """Return the message without values of the event, for logs."""
        return _REASONS.get(self.kind, self.message)


def clipped(value: Value) -> str:
    """Return the value as quoted text of at most 40 characters."""
    text = to_text(value)
    return repr(text if len(text) <= _CLIP else text[: _CLIP - 1] + "…")


def to_text(value: Value) -> str:
    """Return the value cast to String."""
    if value.__class__ is bool:
        return "true" if value else "false"
    return str(value)


def to_integer(value: Value) -> int:
    """Return the value cast to Integer. Raises Failure if it is not a 32-bit integer."""
    if isinstance(value, Decimal):
        return _whole(value)
    if not isinstance(value, str):
        return int(value)
    if len(value) < _SHORT and value.isascii() and value.isdigit():
        return int(value)
    match = _INTEGER.fullmatch(value)
    number = int(match[1] + match[2]) if match else MOST + 1
    if not LEAST <= number <= MOST:
        raise Failure("cast", f"{clipped(value)} is no 32-bit integer")
    return number


def _whole(value: Decimal) -> int:
    if LEAST <= value <= MOST and value == value.to_integral_value():
        return int(value)
    raise Failure("cast", f"{clipped(value)} is no 32-bit integer")


def to_decimal(value: Value) -> Decimal:
    """Return the value cast to Decimal. Raises Failure if it is not a number, or if a Decimal cannot hold it
    exactly."""
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, str):
        return Decimal(value)
    number = read(value)
    if number is None:
        raise Failure("cast", f"{clipped(value)} is no number of {DIGITS} digits")
    return number


def to_boolean(value: Value) -> bool:
    """Return the value cast to Boolean. A text must be true or false, in any case. Raises Failure for other
    texts."""
    if not isinstance(value, str):
        return value != 0
    lowered = value.lower()
    if lowered not in {"true", "false"}:
        raise Failure("cast", f"{clipped(value)} is neither true nor false")
    return lowered == "true"


CASTS: Mapping[Type, Callable[[Value], Value]] = {
    str: to_text,
    int: to_integer,
    bool: to_boolean,
    Decimal: to_decimal,
}
DECIMAL_CASTS: Mapping[Type, Callable[[Value], Value]] = {**CASTS, int: to_decimal}
"""The cast functions for an operation with a decimal. They cast an Integer to Decimal."""


def cast(value: Value, target: Type) -> Value:
    """Return the value cast to ``target``. Raises Failure if that is impossible."""
    return value if value.__class__ is target else CASTS[target](value)
