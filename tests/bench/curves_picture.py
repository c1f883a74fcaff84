"""The curves as one drawing: of each the cost by size, and what is found."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from curve import Curve
from drawing import HIGH, apart, frame, high, levels, line, text

from app.pipeline.report.charts import linear

WIDE, TOP, LEFT = 350, 62, 56
ROW = HIGH + 106
RIGHT = LEFT + WIDE + 150
TITLE = "Cost of an event by the size of something"
DESCRIBED = (
    "For each curve a chart: microseconds of CPU an event or a delivery from the smallest size to the largest, on a "
    "logarithmic axis. The figures are in the table beside the drawing."
)


def picture(curves: Sequence[Curve]) -> str:
    """Two charts a row."""
    drawn = "".join(
        f'<g transform="translate({(at % 2) * (RIGHT - LEFT)} {at // 2 * ROW + TOP})">{_chart(curve)}</g>'
        for at, curve in enumerate(curves)
    )
    return frame(1030, ROW * ((len(curves) + 1) // 2) + 6, TITLE, DESCRIBED, drawn)


def _chart(curve: Curve) -> str:
    lines = [[each.cost for each in curve.points]]
    if curve.points[0].floors:
        lines.append([each.floor for each in curve.points])
    axis = linear(max(max(each) for each in lines) * 1.15)
    places = [LEFT + WIDE * at for at in _along([each.size for each in curve.points])]
    drawn = text(LEFT - 40, -34, f"by {curve.what}", "name")
    drawn += text(LEFT - 40, -16, f"{curve.unit}; {curve.verdict}", "begin")
    drawn += levels(LEFT, WIDE, axis)
    for x, each in zip(places, curve.points, strict=True):
        drawn += text(x, HIGH + 16, f"{each.size:,}", "middle")
    names = ("Skybridge", "floor") if len(lines) > 1 else ("",)
    tops = apart([high(axis, values[-1]) for values in lines])
    for colour, (name, values, top) in enumerate(zip(names, lines, tops, strict=True)):
        at = [(x, high(axis, value)) for x, value in zip(places, values, strict=True)]
        drawn += line(at, colour) + _dots(at, colour)
        told = f"{name} {values[-1]:.1f}".lstrip()
        drawn += text(LEFT + WIDE + 8, top + 4, told, f"begin own{colour}")
    return drawn


def _dots(at: Sequence[tuple[float, float]], colour: int) -> str:
    return "".join(f'<circle class="own{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in at)


def _along(sizes: Sequence[int]) -> list[float]:
    """From 0 to 1, by the logarithm."""
    low, high = log10(sizes[0]), log10(sizes[-1])
    if high == low:
        return [0.5 for _ in sizes]
    return [(log10(each) - low) / (high - low) for each in sizes]
