"""The contents of charts: positions, lengths and texts, which ``page.html`` draws as SVG with HTML
axes. Pure.

The drawing stretches with the page, the texts do not. Axes, legend and the table below can be read
without a pointer. With a pointer, ``title`` elements show single values.
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
"""The colours by number, which most colour-blind people can distinguish. The last colour is that of all
names without their own colour."""

DARK: Final = (
    *("#6aa5ff", "#ff9d4d", "#45caa4", "#e083cc", "#e6c84a", "#a79bff"),
    *("#888", "#888", "#888", "#6c7380"),
)
REST: Final = len(LIGHT) - 1

WIDE: Final = 1000
HIGH: Final = 400
TICKS: Final = 4
_LEAST: Final = 1e-3  # lower end of a logarithmic axis: smaller values are drawn there
_GAP: Final = 0.12  # share of a bar's width

Texts = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """The values of one name over the bins.

    Attributes:
        name: The name in the legend.
        values: One value for each bin; None for no value.
        colour: An index in ``LIGHT``.
    """

    name: str
    values: Sequence[float | None]
    colour: int


class Column(msgspec.Struct, frozen=True):
    """The values at one place of the horizontal axis.

    Attributes:
        title: The text that a pointer shows.
        left: The left end in the drawing.
        width: The width.
        parts: Colour, y and height of each part.
    """

    title: str
    left: float
    width: float
    parts: Sequence[tuple[int, float, float]] = ()


class Chart(msgspec.Struct, frozen=True):
    """A chart.

    Attributes:
        label: The title of the chart.
        below: The text below the horizontal axis.
        up: The ticks of the vertical axis: positions from 0 to 1 and texts.
        along: The ticks of the horizontal axis, in the same form.
        columns: The columns. In a chart of lines they are invisible and only show values to a
            pointer.
        lines: Colour and points of each line.
        series: The series of the legend; None for no legend.
    """

    label: str
    below: str
    up: Sequence[tuple[float, str]]
    along: Sequence[tuple[float, str]]
    columns: Sequence[Column]
    lines: Sequence[tuple[int, str]] = ()
    series: Sequence[Series] | None = None


class Axis(msgspec.Struct, frozen=True):
    """A vertical axis, which maps values to positions from 0 at the bottom to 1."""

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
    """Return an axis from 0 to a round number that is at least ``most``."""
    raw = max(most, 1e-9) / TICKS
    power = 10 ** floor(log10(raw))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= raw * 0.999)
    count = max(1, ceil(most / step - 1e-9))
    return Axis([step * n for n in range(count + 1)], 0, step * count)


def logarithmic(values: Sequence[float]) -> Axis:
    """Return an axis of powers of ten around all values."""
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
    """Return a chart of columns over time, with the series on top of each other."""
    sums = [sum(each.values[at] or 0 for each in series) for at in range(len(begins))]
    axis = linear(max(sums, default=0) or 1)
    columns: list[Column] = []
    for at, begin in enumerate(begins):
        if not sums[at]:
            continue
        below = 0.0
        titles = [f"{words.moment(begin)}: {words.number(sums[at])}"]
        parts: list[tuple[int, float, float]] = []
        for each in series:
            if value := each.values[at] or 0:
                parts.append((each.colour, *_vertical_span(axis, below, below + value)))
                titles.append(f"{each.name}: {words.number(value)}")
                below += value
        columns.append(Column("\n".join(titles), *_bar_span(at, len(begins)), parts))
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
    """Return a chart of lines over time with a logarithmic axis: delays may differ by a factor of a
    thousand.
    """
    axis = logarithmic([value for each in series for value in each.values if value is not None])
    width = WIDE / max(1, len(begins))
    columns: list[Column] = []
    for at, begin in enumerate(begins):
        titles = [
            f"{each.name}: {texts(value)}"
            for each in series
            if (value := each.values[at]) is not None
        ]
        if titles:
            columns.append(Column("\n".join([words.moment(begin), *titles]), at * width, width))
    drawn = [(each.colour, points) for each in series for points in _runs(each, axis, width)]
    return Chart(
        label, "time, UTC", _ticks(axis, texts), _times(begins, step), columns, drawn, series
    )


def histogram(labels: Sequence[str], values: Sequence[int], *, label: str, below: str) -> Chart:
    """Return a chart of bars. ``labels`` has the lower bound of each bar."""
    axis = linear(max(values, default=0) or 1)
    columns = [
        Column(
            f"from {name}: {words.number(value)}",
            *_bar_span(at, len(values)),
            [(0, *_vertical_span(axis, 0, value))],
        )
        for at, (name, value) in enumerate(zip(labels, values, strict=True))
        if value
    ]
    return Chart(label, below, _ticks(axis, words.short), _spaced_ticks(labels), columns)


def _ticks(axis: Axis, texts: Texts) -> list[tuple[float, str]]:
    return [(axis.at(each), texts(each)) for each in axis.ticks]


def _times(begins: Sequence[datetime], step: timedelta) -> list[tuple[float, str]]:
    return _spaced_ticks([words.tick(begin, step) for begin in begins])


def _spaced_ticks(texts: Sequence[str]) -> list[tuple[float, str]]:
    """Return as many tick texts as fit below the axis."""
    every = max(1, ceil(len(texts) / 6))
    return [(at / len(texts), texts[at]) for at in range(0, len(texts), every)]


def _bar_span(at: int, count: int) -> tuple[float, float]:
    """Return the left end and the width of a column, with a gap to the next."""
    width = WIDE / max(1, count)
    gap = width * _GAP
    return at * width + gap / 2, width - gap


def _vertical_span(axis: Axis, low: float, high: float) -> tuple[float, float]:
    """Return the upper end and the height of a part."""
    return from_above(axis.at(high)), (axis.at(high) - axis.at(low)) * HIGH


def _runs(series: Series, axis: Axis, width: float) -> Iterator[str]:
    """Yield the points of each run of bins with values. A single value is drawn as a short dash."""
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
    """Return the y coordinate of a position from 0 (bottom) to 1 (top)."""
    return HIGH * (1 - place)
