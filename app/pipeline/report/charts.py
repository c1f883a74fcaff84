"""Charts as SVG, with axes in HTML around it: the drawing stretches with the page, its texts do not.

Pure: numbers in, markup out. All texts are escaped here. What a chart shows can be read without a pointer
(axes, legend, the table under it); ``title`` elements tell single values to those who have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from html import escape
from math import ceil, floor, log10
from typing import Final

import msgspec

from app.pipeline.report import words

WIDE: Final = 1000.0
HIGH: Final = 400.0
TICKS: Final = 4
_LEAST: Final = 1e-3  # of a logarithmic axis: what is below is drawn there
_GAP: Final = 0.12  # of a bar

Texts = Callable[[float], str]


class Series(msgspec.Struct, frozen=True):
    """``values``: one a bin; None where there is nothing. ``colour``: its number; 9 is that of the rest."""

    name: str
    values: Sequence[float | None]
    colour: int


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
) -> str:
    """Columns over time, one series upon the other."""
    sums = [sum(each.values[at] or 0 for each in series) for at in range(len(begins))]
    axis = linear(max(sums, default=0) or 1)
    width = WIDE / max(1, len(begins))
    drawn: list[str] = []
    for at, begin in enumerate(begins):
        if not sums[at]:
            continue
        below = 0.0
        told = [f"{words.moment(begin)}: {words.number(sums[at])}"]
        parts: list[str] = []
        for each in series:
            if value := each.values[at] or 0:
                parts.append(
                    _rect(at * width, width, axis.at(below), axis.at(below + value), each.colour)
                )
                told.append(f"{each.name}: {words.number(value)}")
                below += value
        drawn.append(f"<g>{_title(told)}{''.join(parts)}</g>")
    return _framed(
        "".join(drawn),
        axis,
        words.short,
        _times(begins, step),
        label,
        f"time, UTC; a column is {words.seconds(step.total_seconds())}",
    ) + legend(series)


def lines(
    begins: Sequence[datetime],
    step: timedelta,
    series: Sequence[Series],
    *,
    label: str,
    texts: Texts,
) -> str:
    """Over time, on a logarithmic axis: delays of one source may be a thousand times those of another."""
    axis = logarithmic([value for each in series for value in each.values if value is not None])
    width = WIDE / max(1, len(begins))
    drawn = "".join(_line(each, axis, width) for each in series)
    for at, begin in enumerate(begins):
        told = [
            f"{each.name}: {texts(value)}"
            for each in series
            if (value := each.values[at]) is not None
        ]
        if told:
            drawn += (
                f'<rect class="hit" x="{at * width:.1f}" y="0" width="{width:.1f}" height="{HIGH:.0f}">'
                f"{_title([words.moment(begin), *told])}</rect>"
            )
    return _framed(drawn, axis, texts, _times(begins, step), label, "time, UTC") + legend(series)


def histogram(labels: Sequence[str], values: Sequence[int], *, label: str, below: str) -> str:
    """``labels``: where each bar begins."""
    axis = linear(max(values, default=0) or 1)
    width = WIDE / max(1, len(values))
    drawn = "".join(
        f"<g>{_title([f'from {name}: {words.number(value)}'])}"
        f"{_rect(at * width, width, 0, axis.at(value), 0)}</g>"
        for at, (name, value) in enumerate(zip(labels, values, strict=True))
        if value
    )
    every = max(1, ceil(len(labels) / 6))
    places = [(at / len(labels), name) for at, name in enumerate(labels) if at % every == 0]
    return _framed(drawn, axis, words.short, places, label, below)


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Lying ones: a name, a value and how it is told."""
    most = max((value for _, value, _ in rows), default=0) or 1
    items = "".join(
        f'<li><span class="name">{escape(name)}</span><span class="value">{escape(told)}</span>'
        f'<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="c0" width="{max(0.4, 100 * value / most):.2f}" height="1"/></svg></li>'
        for name, value, told in rows
    )
    return f'<ol class="bars">{items}</ol>'


def legend(series: Sequence[Series]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 1 1" aria-hidden="true"><rect class="c{each.colour}" width="1" height="1"/></svg>'
        f"{escape(each.name)}</li>"
        for each in series
    )
    return f'<ul class="legend">{items}</ul>'


def _framed(
    drawn: str,
    axis: Axis,
    texts: Texts,
    across: Sequence[tuple[float, str]],
    label: str,
    below: str,
) -> str:
    """``across``: place from 0 to 1 and text of the ticks below."""
    grid = "".join(
        f'<line class="grid" x1="0" x2="{WIDE:.0f}" y1="{_y(axis.at(each)):.1f}" y2="{_y(axis.at(each)):.1f}"/>'
        for each in axis.ticks
    )
    up = "".join(
        f'<span style="bottom:{100 * axis.at(each):.2f}%">{escape(texts(each))}</span>'
        for each in axis.ticks
    )
    along = "".join(
        f'<span class="{"odd" if at % 2 else "even"}" style="left:{100 * place:.2f}%">{escape(text)}</span>'
        for at, (place, text) in enumerate(across)
    )
    return (
        f'<div class="chart" role="img" aria-label="{escape(label)}"><p class="label">{escape(label)}</p>'
        f'<div class="up">{up}</div>'
        f'<svg viewBox="0 0 {WIDE:.0f} {HIGH:.0f}" preserveAspectRatio="none">{grid}{drawn}</svg>'
        f'<div class="along">{along}</div><p class="label below">{escape(below)}</p></div>'
    )


def _times(begins: Sequence[datetime], step: timedelta) -> list[tuple[float, str]]:
    every = max(1, ceil(len(begins) / 6))
    return [
        (at / len(begins), words.tick(begin, step))
        for at, begin in enumerate(begins)
        if at % every == 0
    ]


def _rect(left: float, width: float, low: float, high: float, colour: int) -> str:
    gap = width * _GAP
    return (
        f'<rect class="c{colour}" x="{left + gap / 2:.1f}" y="{_y(high):.1f}" width="{width - gap:.1f}"'
        f' height="{(high - low) * HIGH:.1f}"/>'
    )


def _line(series: Series, axis: Axis, width: float) -> str:
    """A stretch of bins with values each; one alone is a short dash."""
    drawn, points = [], list[str]()
    for at, value in enumerate([*series.values, None]):
        if value is not None:
            points.append(f"{(at + 0.5) * width:.1f},{_y(axis.at(value)):.1f}")
            continue
        if len(points) == 1:
            x, y = points[0].split(",")
            points = [f"{float(x) - width / 3:.1f},{y}", f"{float(x) + width / 3:.1f},{y}"]
        if points:
            drawn.append(f'<polyline class="l{series.colour}" points="{" ".join(points)}"/>')
        points = []
    return "".join(drawn)


def _title(told: Sequence[str]) -> str:
    return f"<title>{escape(chr(10).join(told))}</title>"


def _y(place: float) -> float:
    return HIGH * (1 - place)
