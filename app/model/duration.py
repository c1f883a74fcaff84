"""Durations as people write them (``100ms``, ``15s``, ``5m``, ``2h``, ``7d``) and sizes (``64KiB``)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)?")
_BYTES = {
    None: 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip


def seconds(text: object) -> object:
    """``"1m"`` or ``"1m30s"`` to 60.0 or 90.0 seconds; a number is seconds already."""
    if not isinstance(text, str):
        return text
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise ValueError(f"{text!r} is no duration: write for example 100ms, 15s, 5m, 2h or 7d")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def byte_count(text: object) -> object:
    """``"64KiB"`` to 65536; a number is bytes already."""
    if not isinstance(text, str):
        return text
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size: write for example 64KiB, 10MiB or 2GiB")
    return int(match[1]) * _BYTES[match[2]]


Duration = Annotated[
    float,
    BeforeValidator(seconds, json_schema_input_type=str | float),
    Field(ge=0, description="seconds, or text such as 100ms, 15s, 5m, 2h, 7d"),
]
Size = Annotated[
    int,
    BeforeValidator(byte_count, json_schema_input_type=str | int),
    Field(ge=0, description="bytes, or text such as 64KiB, 10MiB, 2GiB"),
]
