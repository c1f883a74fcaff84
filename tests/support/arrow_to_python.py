"""Convert Arrow columns to Python values, with times that Python cannot hold as text."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from app.model.far_times import far_text

_TICKS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY: Final = 86_400_000_000  # microseconds


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column. A time that Python cannot hold becomes text, as DuckDB writes
    it; maps become dicts.
    """
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    except (OverflowError, ValueError):  # Arrow raises either, by the type of the time
        return [_value(each) for each in column]
    return values


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    match scalar:
        case pa.StructScalar():
            return {name: _value(each) for name, each in scalar.items()}
        case pa.MapScalar():
            return {_value(each["key"]): _value(each["value"]) for each in scalar.values}
        case pa.ListScalar():
            return [_value(each) for each in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return _text(scalar)


def _text(scalar: pa.Scalar) -> str:
    """Return the text of a time or date that Python cannot hold."""
    if pa.types.is_date(scalar.type):
        return far_text(scalar.cast(pa.date32()).value * _DAY).partition(" ")[0]
    zone = "" if scalar.type.tz is None else "+00"
    return far_text(scalar.value * _TICKS[scalar.type.unit]) + zone
