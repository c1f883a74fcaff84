"""What the drawings of the benches share: SVG without scripts, light and dark, colours told apart by most people."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from app.pipeline.report.charts import Axis

HIGH = 150  # pixels of a chart
APART = 14  # pixels between two texts above each other
LINES = 5  # colours at a time
LIGHT = ("#2a6fdb", "#e0761c", "#1b9a77", "#b3479d", "#c9a400")
DARK = ("#6aa5ff", "#ff9d4d", "#45caa4", "#e083cc", "#e6c84a")


def text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def line(places: Sequence[tuple[float, float]], colour: int) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline class="line{colour}" points="{points}"/>'


def high(axis: Axis, value: float) -> float:
    """Pixels from above."""
    return HIGH * (1 - axis.at(value))


def levels(left: int, wide: int, axis: Axis) -> str:
    """A line for each tick of the axis, with its number."""
    return "".join(
        f'<path class="grid" d="M{left} {high(axis, tick):.1f}h{wide}"/>'
        + text(left - 6, high(axis, tick) + 4, f"{tick:g}", "end")
        for tick in axis.ticks
    )


def apart(places: Sequence[float]) -> list[float]:
    """Moved so that texts at them do not touch, in the same order."""
    moved = list(places)
    order = sorted(range(len(places)), key=lambda at: places[at])
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + APART)
    over = max(0.0, moved[order[-1]] - HIGH)
    return [place - over for place in moved]


def frame(wide: int, tall: int, title: str, described: str, drawn: str) -> str:
    return _FRAME.format(
        wide=wide,
        tall=tall,
        title=escape(title),
        described=escape(described),
        style=_style(),
        drawn=drawn,
    )


def _colours(palette: Sequence[str]) -> str:
    return "".join(
        f" .line{at} {{ stroke: {colour}; }} .own{at} {{ fill: {colour}; }}"
        for at, colour in enumerate(palette[:LINES])
    )


def _style() -> str:
    return (
        "text { fill: #52606d; font-size: 12px; } .name { fill: #1f2933; font-size: 15px; font-weight: 600; }"
        " .end { text-anchor: end; } .middle { text-anchor: middle; }"
        " polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }"
        " .grid { stroke: #d9dee5; } .warm { fill: #f0f2f5; }"
        f"{_colours(LIGHT)}"
        " @media (prefers-color-scheme: dark) { text { fill: #b3bec9; } .name { fill: #e6ebf0; }"
        f" .grid {{ stroke: #363d47; }} .warm {{ fill: #1d2127; }}{_colours(DARK)} }}"
    )


_FRAME = """<svg xmlns="http://www.w3.org/2000/svg" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" viewBox="0 0 {wide} {tall}" role="img" aria-labelledby="title desc">
<title id="title">{title}</title>
<desc id="desc">{described}</desc>
<style>{style}</style>
{drawn}
</svg>
"""
