"""The contents of charts: columns over time with positions, heights and texts, which ``page.html``
draws as SVG with HTML axes. Pure.

The drawing stretches with the page, the texts do not. Axes, legend and the table below can be read
without a pointer. With a pointer, ``title`` elements show single values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from math import ceil, floor, log10
from typing import Final

import msgspec

from app.pipeline.report import words
from app.pipeline.report.spans import Span

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
_GAP: Final = 0.12  # share of a column's width
_THIN: Final = 4.0  # least height of a column on a logarithmic axis

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
    """The values of one bin.

    Attributes:
        title: The text that a pointer shows.
        left: The left end in the drawing.
        width: The width.
        parts: Colour, y and height of each part.
    """

    title: str
    left: float
    width: float
    parts: Sequence[tuple[int, float, float]]


class Chart(msgspec.Struct, frozen=True):
    """A chart.

    Attributes:
        label: The title of the chart.
        below: The text below the horizontal axis.
        up: The ticks of the vertical axis: positions from 0 to 1 and texts.
        along: The ticks of the horizontal axis, in the same form.
        columns: The columns.
        series: The series of the legend.
    """

    label: str
    below: str
    up: Sequence[tuple[float, str]]
    along: Sequence[tuple[float, str]]
    columns: Sequence[Column]
    series: Sequence[Series]


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
    low = floor(log10(min(some)))
    high = max(ceil(log10(max(some))), low + 1)
    every = max(1, ceil((high - low) / 5))
    ticks = [10.0**n for n in range(low, high + 1, every)]
    return Axis(ticks, 10.0**low, 10.0**high, logarithmic=True)


def stacked(span: Span, series: Sequence[Series], *, label: str) -> Chart:
    """Return a chart with the counts of all series on top of each other."""
    bins = zip(*(each.values for each in series), strict=True)
    ends = [[*accumulate((value or 0 for value in each), initial=0)] for each in bins]
    axis = linear(max((each[-1] for each in ends), default=0) or 1)
    titles = [_title(series, at, words.number) for at in range(len(ends))]
    return _drawn(span, series, axis, ends, titles, label, words.short)


def spread(span: Span, low: Series, high: Series, *, label: str) -> Chart:
    """Return a chart of delays in seconds, with a column from the value of ``low`` to that of ``high``.
    Its axis is logarithmic, because delays may differ by a factor of a thousand."""
    pairs = [*zip(low.values, high.values, strict=True)]
    ends = [[] if a is None or b is None else [a, b] for a, b in pairs]
    axis = logarithmic([value for each in ends for value in each])
    titles = [_title((low, high), at, words.seconds) for at in range(len(pairs))]
    drawn = Series(f"from {low.name} to {high.name}", (), high.colour)
    return _drawn(span, [drawn], axis, ends, titles, label, words.seconds)


def _drawn(
    span: Span,
    series: Sequence[Series],
    axis: Axis,
    ends: Sequence[Sequence[float]],
    titles: Sequence[str],
    label: str,
    short: Texts,
) -> Chart:
    """Return a chart with a part for each series. ``ends`` has the bounds of the parts of each bin."""
    begins, step = span.bins(), span.step
    width = WIDE / len(begins)
    columns = [
        Column(
            f"{words.moment(begins[at])}\n{titles[at]}",
            (at + _GAP / 2) * width,
            (1 - _GAP) * width,
            [
                drawn
                for each, part in zip(series, parts, strict=True)
                if (drawn := _part(axis, each.colour, *part))[2]
            ],
        )
        for at, each_end in enumerate(ends)
        if any(each_end) and (parts := [*pairwise(each_end)])
    ]
    every = max(1, ceil(len(begins) / 6))  # as many texts as fit below the axis
    return Chart(
        label,
        f"time, UTC; a column is {words.seconds(step.total_seconds())}",
        [(axis.at(each), short(each)) for each in axis.ticks],
        [(at * width / WIDE, words.tick(begins[at], step)) for at in range(0, len(begins), every)],
        columns,
        series,
    )


def _part(axis: Axis, colour: int, low: float, high: float) -> tuple[int, float, float]:
    """Return colour, y and height of a part. On a logarithmic axis it is never too thin to be seen."""
    height = (axis.at(high) - axis.at(low)) * HIGH
    return colour, from_above(axis.at(high)), max(height, _THIN if axis.logarithmic else 0.0)


def _title(series: Sequence[Series], at: int, text: Texts) -> str:
    """Return a line with the name and the value of each series in one bin."""
    values = [(each.name, each.values[at]) for each in series]
    return "\n".join(f"{name}: {text(value)}" for name, value in values if value)


def from_above(place: float) -> float:
    """Return the y coordinate of a position from 0 (bottom) to 1 (top)."""
    return HIGH * (1 - place)
