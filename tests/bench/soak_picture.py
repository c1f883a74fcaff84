"""The soak as one drawing: for each log its memory and its counts over time. SVG, without scripts; light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from soak_house import Sample

from app.pipeline.report.charts import DARK, LIGHT, Axis, linear

WIDE, HIGH, TOP, LEFT = 390, 150, 66, 56
ROW = HIGH + 100
RIGHT = LEFT + WIDE + 80  # where the second chart of a row begins
COUNTS = ("descriptors", "tasks", "sockets", "threads")
APART = 14  # pixels between the names of two lines


def picture(told: Sequence[tuple[str, str, Sequence[Sample], float]]) -> str:
    """Of each log its name, what was found in a line, its samples, and the seconds of the warm-up."""
    rows = "".join(_row(at * ROW, *each) for at, each in enumerate(told))
    return _FRAME.format(high=ROW * len(told) + 6, style=_style(), rows=rows)


def _row(top: int, name: str, found: str, samples: Sequence[Sample], warm: float) -> str:
    memory = [each.memory for each in samples]
    axis = linear(max(memory) * 1.1)
    left = (
        _grid(LEFT, axis, samples, warm, "memory, MB")
        + _line(LEFT, axis, samples, memory, 0)
        + _text(LEFT + WIDE, HIGH * (1 - axis.at(memory[-1])) - 8, f"{memory[-1]:.0f} MB", "own0")
    )
    values = [[getattr(each, what) for each in samples] for what in COUNTS]
    axis = linear(max(max(each) for each in values) * 1.1)
    right = _grid(RIGHT, axis, samples, warm, "at a time")
    places = _apart([HIGH * (1 - axis.at(each[-1])) for each in values])
    for at, (what, of, place) in enumerate(zip(COUNTS, values, places, strict=True), 1):
        right += _line(RIGHT, axis, samples, of, at)
        right += _text(RIGHT + WIDE + 6, place + 4, f"{of[-1]} {what}", f"begin own{at}")
    head = _text(16, -34, name, "name") + _text(16, -16, found, "begin")
    return f'<g transform="translate(0 {top + TOP})">{head}{left}{right}</g>'


def _apart(places: Sequence[float]) -> list[float]:
    """Moved so that texts at them do not touch, in the same order."""
    moved = list(places)
    order = sorted(range(len(places)), key=lambda at: places[at])
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + APART)
    over = max(0.0, moved[order[-1]] - HIGH)
    return [place - over for place in moved]


def _grid(left: int, axis: Axis, samples: Sequence[Sample], warm: float, label: str) -> str:
    length = samples[-1].at
    drawn = (
        f'<rect class="warm" x="{left}" y="0" width="{WIDE * warm / length:.1f}" height="{HIGH}"/>'
    )
    for tick in axis.ticks:
        y = HIGH * (1 - axis.at(tick))
        drawn += f'<path class="grid" d="M{left} {y:.1f}h{WIDE}"/>'
        drawn += _text(left - 6, y + 4, f"{tick:g}", "end")
    minutes = length / 60
    for at in linear(minutes).ticks:
        if at <= minutes * 1.001:
            x = left + WIDE * at / minutes
            drawn += _text(x, HIGH + 16, f"{at:g}" if at else "0 min", "middle")
    drawn += _text(left + 5, 13, f"{label}; shaded: warm-up", "begin")
    return drawn


def _line(
    left: int, axis: Axis, samples: Sequence[Sample], values: Sequence[float], colour: int
) -> str:
    length = samples[-1].at
    points = " ".join(
        f"{left + WIDE * each.at / length:.1f},{HIGH * (1 - axis.at(value)):.1f}"
        for each, value in zip(samples, values, strict=True)
    )
    return f'<polyline class="line{colour}" points="{points}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _colours(palette: Sequence[str]) -> str:
    return "".join(
        f" .line{at} {{ stroke: {colour}; }} .own{at} {{ fill: {colour}; }}"
        for at, colour in enumerate(palette[: 1 + len(COUNTS)])
    )


def _style() -> str:
    return (
        "text { fill: #52606d; font-size: 12px; } .name { fill: #1f2933; font-size: 15px; font-weight: 600; }"
        " .own0 { text-anchor: end; } .end { text-anchor: end; } .middle { text-anchor: middle; }"
        " polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }"
        " .grid { stroke: #d9dee5; } .warm { fill: #f0f2f5; }"
        f"{_colours(LIGHT)}"
        " @media (prefers-color-scheme: dark) { text { fill: #b3bec9; } .name { fill: #e6ebf0; }"
        f" .grid {{ stroke: #363d47; }} .warm {{ fill: #1d2127; }}{_colours(DARK)} }}"
    )


_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" viewBox="0 0 1030 {high}" role="img" aria-labelledby="title desc">
<title id="title">Memory and counts of a service under a soak</title>
<desc id="desc">For each log two charts over time: the resident memory of the service, and how many descriptors, tasks, sockets and threads it has. The figures are in the table beside the drawing.</desc>
<style>{style}</style>
{rows}
</svg>
"""
