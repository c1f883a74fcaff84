"""The kinds of columns for numbers, by the bounds and ``multipleOf`` of a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from app.pipeline.kinds import MOST_DIGITS, Exact, Kind, Leaf

_INT: Final = (-(2**31), 2**31 - 1)
_LONG: Final = (-(2**63), 2**63 - 1)
_FARTHEST: Final = 400
"""The largest exponent of ten of a number that counts. No column holds so large or small a number."""


def read(text: str) -> Decimal | float:
    """Return a number of a schema: exact, or a float if its exponent is very large. The other
    functions take a float for no number."""
    try:
        found = Decimal(text)
    except ArithmeticError:
        return float(text)
    return found if abs(found.adjusted()) <= _FARTHEST else float(text)


def of_integer(schema: Mapping[str, Any]) -> Kind:
    """Return an integer of 32 or 64 bits, or a decimal if a bound is beyond 64 bits."""
    low, high = _bounds(schema)
    if schema.get("format") == "int32":
        return Leaf("int")
    if low is not None and high is not None and _INT[0] <= low and high <= _INT[1]:
        return Leaf("int")
    beyond = (low is not None and low < _LONG[0]) or (high is not None and high > _LONG[1])
    return Exact(_precision(low, high, 0), 0) if beyond else Leaf("long")


def of_number(schema: Mapping[str, Any]) -> Kind:
    """Return a decimal if ``multipleOf`` states how many digits follow the point, else a double."""
    step = schema.get("multipleOf")
    if isinstance(step, bool) or not isinstance(step, int | Decimal) or step <= 0:
        return Leaf("double")
    scale = max(0, -int(Decimal(step).normalize().as_tuple().exponent))
    precision = _precision(*_bounds(schema), scale)
    return Exact(precision, scale) if scale <= precision else Leaf("double")


def _precision(low: Decimal | None, high: Decimal | None, scale: int) -> int:
    if low is None or high is None:
        return MOST_DIGITS
    whole = max(abs(low), abs(high)).adjusted() + 1
    return min(MOST_DIGITS, max(1, whole) + scale)


def _bounds(schema: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None]:
    """Return the least and greatest value; None where the schema has no bound."""

    def bound(*names: str) -> Decimal | None:
        found = [
            Decimal(schema[name]) for name in names if isinstance(schema.get(name), int | Decimal)
        ]
        return found[0] if found else None

    return bound("minimum", "exclusiveMinimum"), bound("maximum", "exclusiveMaximum")
