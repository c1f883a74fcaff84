"""Format numbers, times and sizes for readers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

NONE: Final = "–"  # noqa: RUF001 - an en dash
_MANY: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_SIZES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIMES: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
_DAY: Final = timedelta(days=1)


def number(value: float | None) -> str:
    """Return a whole number with commas."""
    return NONE if value is None else f"{value:,.0f}"


def short(value: float) -> str:
    """Return a number for an axis, such as 1.2 M."""
    return _scaled(value, _MANY) or _three(value)


def size(value: float | None) -> str:
    if value is None:
        return NONE
    return _scaled(value, _SIZES) or f"{value:.0f} B"


def seconds(value: float | None) -> str:
    if value is None:
        return NONE
    if value == 0:
        return "0 s"
    return _scaled(value, _TIMES) or f"{_three(value * 1e6)} µs"


def share(part: float, whole: float) -> str:
    """Return a percentage. A part that is not zero is never shown as 0 %, and less than all never
    as 100 %.
    """
    if not whole:
        return NONE
    if not part or part == whole:
        return "0 %" if not part else "100 %"
    percent = 100 * part / whole
    if percent < 0.01:  # noqa: PLR2004
        return "< 0.01 %"
    if percent > 99.99:  # noqa: PLR2004
        return "> 99.99 %"
    return f"{_three(percent) if percent < 99 else f'{percent:.2f}'} %"  # noqa: PLR2004


def moment(value: datetime | str | None) -> str:
    """Return a time in seconds, in UTC. The page states the zone once."""
    if isinstance(value, str):  # Python cannot hold the time
        return value.removesuffix("+00")
    return NONE if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def tick(value: datetime, step: timedelta) -> str:
    """Return a time for an axis, as precise as the step needs."""
    if step >= _DAY:
        return value.strftime("%d %b %Y" if step >= 28 * _DAY else "%d %b")
    if step >= timedelta(hours=3):
        return value.strftime("%d %b %H:%M")
    return value.strftime("%H:%M" if step >= timedelta(minutes=1) else "%H:%M:%S")


def count(n: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as ``3 records``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Return a value in the largest unit that it reaches; empty if it is below all units."""
    fitting = ((unit, name) for unit, name in units if abs(value) >= unit)
    return next((f"{_three(value / unit)} {name}" for unit, name in fitting), "")


def _three(value: float) -> str:
    """Return a number with three significant digits, without trailing zeros."""
    if abs(value) >= 100:  # noqa: PLR2004
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.2f}"
