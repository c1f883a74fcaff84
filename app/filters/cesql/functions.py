"""The built-in functions (CESQL 3.5), distinguished by name and number of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from app.filters.cesql.times import seconds_of
from app.filters.cesql.values import (
    LEAST,
    MOST,
    Failure,
    Type,
    clipped,
    to_boolean,
    to_integer,
    to_text,
)

WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's property White_Space. Python's own strip removes four more control characters."""


class Function(NamedTuple):
    """A built-in function.

    Attributes:
        parameters: The types to which arguments are cast; None accepts any type.
        returns: The type of the result.
        body: The implementation. Its arguments are already cast, and it may raise Failure.
        rest: The type of further arguments, of which there may be any number. None if further arguments are
            not allowed.
    """

    parameters: tuple[Type | None, ...]
    returns: Type
    body: Callable[..., Any]
    rest: Type | None = None

    def takes(self, count: int) -> bool:
        """Return True if the function accepts this number of arguments."""
        least = len(self.parameters)
        return count >= least if self.rest is not None else count == least

    def types(self, count: int) -> list[Type | None]:
        """Return the types of ``count`` arguments."""
        return [*self.parameters, *[self.rest] * (count - len(self.parameters))]


def find(name: str, count: int) -> Function | None:
    """Return the function of this name, in capitals, for ``count`` arguments, or None."""
    return next((each for each in FUNCTIONS.get(name, ()) if each.takes(count)), None)


def missing_function_message(name: str, count: int) -> str:
    """Return the message that there is no such function."""
    return f"there is no function {name} of {count} argument{'' if count == 1 else 's'}"


def _join(delimiter: str, *texts: str) -> str:
    return delimiter.join(texts)


def _concat(*texts: str) -> str:
    return "".join(texts)


def _trim(text: str) -> str:
    return text.strip(WHITE_SPACE)


def _left(text: str, count: int) -> str:
    _not_negative("LEFT", count, text)
    return text[:count]


def _right(text: str, count: int) -> str:
    _not_negative("RIGHT", count, text)
    return text[len(text) - min(count, len(text)) :]


def _not_negative(name: str, count: int, otherwise: str) -> None:
    if count < 0:
        message = f"{name} cannot take {count} characters"
        raise Failure("functionEvaluation", message, otherwise)


def _substring(text: str, position: int, count: int | None = None) -> str:
    if abs(position) > len(text):
        message = f"position {position} is outside of {clipped(text)}"
        raise Failure("functionEvaluation", message)
    if count is not None and count < 0:
        raise Failure("functionEvaluation", f"SUBSTRING cannot take {count} characters")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start:] if count is None else text[start : start + count]


def _absolute(number: int) -> int:
    if number == LEAST:
        raise Failure("math", f"the absolute value of {LEAST} is beyond {MOST}", MOST)
    return abs(number)


DECIMAL_FUNCTIONS: Mapping[str, Function] = {
    "ABS": Function((Decimal,), Decimal, Decimal.copy_abs),
}
"""The functions that replace a built-in one if its argument is a decimal."""
FUNCTIONS: Mapping[str, tuple[Function, ...]] = {
    "ABS": (Function((int,), int, _absolute),),
    "BOOL": (Function((None,), bool, to_boolean),),
    "CONCAT": (Function((), str, _concat, rest=str),),
    "CONCAT_WS": (Function((str,), str, _join, rest=str),),
    "INT": (Function((None,), int, to_integer),),
    "LEFT": (Function((str, int), str, _left),),
    "LENGTH": (Function((str,), int, len),),
    "LOWER": (Function((str,), str, str.lower),),
    "RIGHT": (Function((str, int), str, _right),),
    "STRING": (Function((None,), str, to_text),),
    "SUBSTRING": (
        Function((str, int), str, _substring),
        Function((str, int, int), str, _substring),
    ),
    "TIME": (
        Function((str,), Decimal, seconds_of),
    ),  # an extension of Skybridge, as CESQL 3.5 permits
    "TRIM": (Function((str,), str, _trim),),
    "UPPER": (Function((str,), str, str.upper),),
}
