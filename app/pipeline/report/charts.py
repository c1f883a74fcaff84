"""The contents of charts: columns over time with heights and texts, which ``page.html`` draws. Pure.

Axes, legend and the table below can be read without a pointer. With a pointer, titles show single
values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import Final

import msgspec

from app.pipeline.report import words
from app.pipeline.report.spans import Span

REST: Final = 6
"""The number of the colour of all names without their own colour. ``page.css`` has the colours."""

TICKS: Final = 4
_LEAST: Final = 1e-3  # lower end of a logarithmic axis: smaller values are drawn there

Texts = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """The values of one name over the bins.

    Attributes:
        name: The name in the legend.
        values: One value for each bin; None for no value.
        colour: The number of a colour.
    """

    name: str
    values: Sequence[float | None]
    colour: int


class Column(msgspec.Struct, frozen=True):
    """The values of one bin.

    Attributes:
        title: The text that a pointer shows.
        parts: The colour of each part from the bottom up, and its share of the height; None for a part
            that is not drawn.
    """

    title: str
    parts: Sequence[tuple[int | None, float]]


class Chart(msgspec.Struct, frozen=True):
    """A chart.

    Attributes:
        label: The title of the chart.
        below: The text below the horizontal axis.
        up: The ticks of the vertical axis: positions from 0 to 1 and texts.
        along: The ticks of the horizontal axis, in the same form.
        columns: A column for each bin.
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
    rows = [
        [value or 0.0 for value in row]
        for row in zip(*(each.values for each in series), strict=True)
    ]
    axis = linear(max(map(sum, rows), default=0.0) or 1.0)
    columns = [
        Column(
            _title(span, at, series, words.number),
            [
                (each.colour, axis.at(value))
                for each, value in zip(series, row, strict=True)
                if value
            ],
        )
        for at, row in enumerate(rows)
    ]
    return _chart(span, axis, columns, series, label, words.short)


def spread(span: Span, low: Series, high: Series, *, label: str) -> Chart:
    """Return a chart of delays in seconds, with a column from the value of ``low`` to that of ``high``.
    Its axis is logarithmic, because delays may differ by a factor of a thousand."""
    rows = [*zip(low.values, high.values, strict=True)]
    axis = logarithmic([value for row in rows for value in row if value is not None])
    columns = []
    for at, (begin, end) in enumerate(rows):
        if begin is None or end is None:
            columns.append(Column("", ()))
            continue
        parts = [(None, axis.at(begin)), (high.colour, axis.at(end) - axis.at(begin))]
        columns.append(Column(_title(span, at, (low, high), words.seconds), parts))
    drawn = Series(f"from {low.name} to {high.name}", (), high.colour)
    return _chart(span, axis, columns, [drawn], label, words.seconds)


def _chart(
    span: Span,
    axis: Axis,
    columns: Sequence[Column],
    series: Sequence[Series],
    label: str,
    short: Texts,
) -> Chart:
    begins, step = span.bins(), span.step
    every = max(1, ceil(len(begins) / 6))  # as many texts as fit below the axis
    shown = range(0, len(begins), every)
    return Chart(
        label,
        f"time, UTC; a column is {words.seconds(step.total_seconds())}",
        [(axis.at(each), short(each)) for each in axis.ticks],
        [(at / len(begins), words.tick(begins[at], step)) for at in shown],
        columns,
        series,
    )


def _title(span: Span, at: int, series: Sequence[Series], text: Texts) -> str:
    """Return the time of a bin, and a line with the name and the value of each series in it."""
    values = [(each.name, each.values[at]) for each in series]
    lines = [f"{name}: {text(value)}" for name, value in values if value]
    return "\n".join([words.moment(span.bins()[at]), *lines])
