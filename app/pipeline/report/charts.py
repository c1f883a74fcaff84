"""What charts show and where: places, lengths and texts, which ``page.html`` draws as SVG with axes in HTML
around it. The drawing stretches with the page, its texts do not. Pure.

What a chart shows can be read without a pointer (axes, legend, the table under it); ``title`` elements tell
single values to those who have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from math import ceil, floor, log10
from typing import Final

import msgspec

from app.pipeline.report import words

LIGHT: Final = (
    *("#2a6fdb", "#e0761c", "#1b9a77", "#b3479d", "#c9a400", "#6a5acd"),
    *("#888", "#888", "#888", "#a3a9b3"),
)
"""Colours by their number, told apart by most people who do not see all; the last is that of the rest."""

DARK: Final = (
    *("#6aa5ff", "#ff9d4d", "#45caa4", "#e083cc", "#e6c84a", "#a79bff"),
    *("#888", "#888", "#888", "#6c7380"),
)
REST: Final = len(LIGHT) - 1

WIDE: Final = 1000
HIGH: Final = 400
TICKS: Final = 4
_LEAST: Final = 1e-3  # of a logarithmic axis: what is below is drawn there
_GAP: Final = 0.12  # of a bar

Texts = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """``values``: one a bin; None where there is nothing. ``colour``: a number of ``LIGHT``."""

    name: str
    values: Sequence[float | None]
    colour: int


class Column(msgspec.Struct, frozen=True):
    """What stands at one place: ``title`` tells its values; ``parts``: colour, and y and height in the drawing."""

    title: str
    left: float
    width: float
    parts: Sequence[tuple[int, float, float]] = ()


class Chart(msgspec.Struct, frozen=True):
    """``up``, ``along``: the ticks, each with its place from 0 to 1 and its text. ``lines``: colour and points of
    each; with them ``columns`` are what a pointer finds, and are not seen. ``series``: of the legend; None for no legend.
    """

    label: str
    below: str
    up: Sequence[tuple[float, str]]
    along: Sequence[tuple[float, str]]
    columns: Sequence[Column]
    lines: Sequence[tuple[int, str]] = ()
    series: Sequence[Series] | None = None


class Axis(msgspec.Struct, frozen=True):
    """From value to place, 0 to 1 from below."""

    ticks: Sequence[float]
    low: float
    high: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low)
        low, high = log10(self.low), log10(self.high)
        return min(1.0, max(0.0, (log10(max(value, self.low)) - low) / (high - low)))


def linear(most: float) -> Axis:
    """From nothing to a round number that is not below ``most``."""
    raw = max(most, 1e-9) / TICKS
    power = 10 ** floor(log10(raw))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= raw * 0.999)
    count = max(1, ceil(most / step - 1e-9))
    return Axis([step * n for n in range(count + 1)], 0, step * count)


def logarithmic(values: Sequence[float]) -> Axis:
    """By powers of ten around all values."""
    some = [max(value, _LEAST) for value in values] or [1.0]
    low, high = floor(log10(min(some))), ceil(log10(max(some)))
    high = max(high, low + 1)
    every = max(1, ceil((high - low) / 5))
    return Axis(
        [10.0**n for n in range(low, high + 1, every)], 10.0**low, 10.0**high, logarithmic=True
    )


def stacked(
    begins: Sequence[datetime], step: timedelta, series: Sequence[Series], *, label: str
) -> Chart:
    """Columns over time, one series upon the other."""
    sums = [sum(each.values[at] or 0 for each in series) for at in range(len(begins))]
    axis = linear(max(sums, default=0) or 1)
    columns: list[Column] = []
    for at, begin in enumerate(begins):
        if not sums[at]:
            continue
        below = 0.0
        told = [f"{words.moment(begin)}: {words.number(sums[at])}"]
        parts: list[tuple[int, float, float]] = []
        for each in series:
            if value := each.values[at] or 0:
                parts.append((each.colour, *_part(axis, below, below + value)))
                told.append(f"{each.name}: {words.number(value)}")
                below += value
        columns.append(Column("\n".join(told), *_apart(at, len(begins)), parts))
    return Chart(
        label,
        f"time, UTC; a column is {words.seconds(step.total_seconds())}",
        _ticks(axis, words.short),
        _times(begins, step),
        columns,
        series=series,
    )


def lines(
    begins: Sequence[datetime],
    step: timedelta,
    series: Sequence[Series],
    *,
    label: str,
    texts: Texts,
) -> Chart:
    """Over time, on a logarithmic axis: delays of one source may be a thousand times those of another."""
    axis = logarithmic([value for each in series for value in each.values if value is not None])
    width = WIDE / max(1, len(begins))
    columns: list[Column] = []
    for at, begin in enumerate(begins):
        told = [
            f"{each.name}: {texts(value)}"
            for each in series
            if (value := each.values[at]) is not None
        ]
        if told:
            columns.append(Column("\n".join([words.moment(begin), *told]), at * width, width))
    drawn = [(each.colour, points) for each in series for points in _stretches(each, axis, width)]
    return Chart(
        label, "time, UTC", _ticks(axis, texts), _times(begins, step), columns, drawn, series
    )


def histogram(labels: Sequence[str], values: Sequence[int], *, label: str, below: str) -> Chart:
    """``labels``: where each bar begins."""
    axis = linear(max(values, default=0) or 1)
    columns = [
        Column(
            f"from {name}: {words.number(value)}",
            *_apart(at, len(values)),
            [(0, *_part(axis, 0, value))],
        )
        for at, (name, value) in enumerate(zip(labels, values, strict=True))
        if value
    ]
    return Chart(label, below, _ticks(axis, words.short), _some(labels), columns)


def _ticks(axis: Axis, texts: Texts) -> list[tuple[float, str]]:
    return [(axis.at(each), texts(each)) for each in axis.ticks]


def _times(begins: Sequence[datetime], step: timedelta) -> list[tuple[float, str]]:
    return _some([words.tick(begin, step) for begin in begins])


def _some(texts: Sequence[str]) -> list[tuple[float, str]]:
    """As many as have room below."""
    every = max(1, ceil(len(texts) / 6))
    return [(at / len(texts), texts[at]) for at in range(0, len(texts), every)]


def _apart(at: int, count: int) -> tuple[float, float]:
    """Left end and width of a column, with a gap to the next."""
    width = WIDE / max(1, count)
    gap = width * _GAP
    return at * width + gap / 2, width - gap


def _part(axis: Axis, low: float, high: float) -> tuple[float, float]:
    """Upper end and height."""
    return from_above(axis.at(high)), (axis.at(high) - axis.at(low)) * HIGH


def _stretches(series: Series, axis: Axis, width: float) -> Iterator[str]:
    """The points of each stretch of bins with values; one alone is a short dash."""
    points = list[str]()
    for at, value in enumerate([*series.values, None]):
        if value is not None:
            points.append(f"{(at + 0.5) * width:.1f},{from_above(axis.at(value)):.1f}")
            continue
        if len(points) == 1:
            x, y = points[0].split(",")
            points = [f"{float(x) - width / 3:.1f},{y}", f"{float(x) + width / 3:.1f},{y}"]
        if points:
            yield " ".join(points)
        points = []


def from_above(place: float) -> float:
    """In the drawing, of a place from 0 to 1 from below."""
    return HIGH * (1 - place)
