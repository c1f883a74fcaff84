"""Types and casts (CESQL 3.1 and 3.7). A value is of the Python type that its CESQL type is named by."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

Value = str | int | bool
Type = type[str] | type[int] | type[bool]
ErrorKind = Literal[
    "parse", "math", "cast", "missingAttribute", "missingFunction", "functionEvaluation", "generic"
]  # CESQL 3.3

LEAST, MOST = -(2**31), 2**31 - 1
ZERO: Mapping[Type, Value] = {str: "", int: 0, bool: False}
NAMES: Mapping[Type, str] = {str: "String", int: "Integer", bool: "Boolean"}

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,10})")
_SHORT = 10  # characters that 32 bits always hold
_CLIP = 40  # characters of a value that an error shows


class Failure(Exception):
    """An evaluation error on its way out. ``value`` is what the function itself says it then returns;
    None is the zero value of its type.
    """

    def __init__(self, kind: ErrorKind, message: str, value: Value | None = None) -> None:
        self.kind: ErrorKind = kind
        self.message = message
        self.value = value


def clipped(value: Value) -> str:
    text = to_text(value)
    return repr(text if len(text) <= _CLIP else text[: _CLIP - 1] + "…")


def to_text(value: Value) -> str:
    if value.__class__ is bool:
        return "true" if value else "false"
    return str(value)


def to_integer(value: Value) -> int:
    """Raises Failure for text that is no 32-bit integer in base 10."""
    if not isinstance(value, str):
        return int(value)
    if len(value) < _SHORT and value.isascii() and value.isdigit():
        return int(value)
    match = _INTEGER.fullmatch(value)
    number = int(match[1] + match[2]) if match else MOST + 1
    if not LEAST <= number <= MOST:
        raise Failure("cast", f"{clipped(value)} is no 32-bit integer")
    return number


def to_boolean(value: Value) -> bool:
    """Raises Failure for text that is neither true nor false, in any case of letters."""
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
}


def cast(value: Value, target: Type) -> Value:
    return value if value.__class__ is target else CASTS[target](value)
