"""Durations (``100ms``, ``15s``, ``1m30s``, ``7d``) and sizes (``64KiB``) as people write them.

No message repeats a refused value, because it may come from a secret.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST = 3_650 * 86_400  # seconds; times computed with it fit in 64 bits
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)?")
_BYTES = {
    None: 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


def number(value: object) -> object:
    """Return the value. Raise ValueError for True and False, which Python counts as numbers."""
    if isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - pydantic takes ValueError
            "The value is true or false, not a number. Cure: Write a number, for example 15."
        )
    return value


def seconds(value: object) -> object:
    """Return a duration in seconds: ``"1m30s"`` gives 90.0, and a number is seconds already."""
    if not isinstance(value, str):
        return number(value)
    text = value.replace(" ", "")
    parts = _DURATION.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise ValueError(
            "The value is not a duration. Cure: Write a number and a unit, for example 100ms, 15s, 5m, 2h or 7d."
        )
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)


def byte_count(value: object) -> object:
    """Return a size in bytes: ``"64KiB"`` gives 65536, and a number is bytes already."""
    if not isinstance(value, str):
        return number(value)
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(
            "The value is not a size. Cure: Write a number and a unit, for example 64KiB, 10MiB or 2GiB."
        )
    return int(match[1]) * _BYTES[match[2]]


Count = Annotated[int, BeforeValidator(number, json_schema_input_type=int)]
"""A whole number. The field that uses it sets its bounds."""
Duration = Annotated[
    float,
    BeforeValidator(seconds, json_schema_input_type=str | float),
    Field(ge=0, le=LONGEST, allow_inf_nan=False),
]
"""Seconds, at most ten years, or text such as ``100ms``, ``15s``, ``5m``, ``2h``, ``7d``."""
Size = Annotated[int, BeforeValidator(byte_count, json_schema_input_type=str | int), Field(ge=0)]
"""Bytes, or text such as ``64KiB``, ``10MiB``, ``2GiB``."""

_KEYWORDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum"}


def with_bounds(schema: Any) -> Any:
    """Return a JSON Schema with standard keywords, because pydantic writes the bounds of these types under its
    own names.
    """
    if isinstance(schema, list):
        return [with_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {_KEYWORDS.get(name, name): with_bounds(inner) for name, inner in schema.items()}
