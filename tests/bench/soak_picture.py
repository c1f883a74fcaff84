"""The soak as one drawing: for each log its memory and its counts over time."""

from __future__ import annotations

from collections.abc import Sequence

from drawing import HIGH, apart, frame, high, levels, line, text
from soak_house import Sample

from app.pipeline.report.charts import Axis, linear

WIDE, TOP, LEFT = 390, 66, 56
ROW = HIGH + 100
RIGHT = LEFT + WIDE + 80  # where the second chart of a row begins
COUNTS = ("descriptors", "tasks", "sockets", "threads")
TITLE = "Memory and counts of a service under a soak"
DESCRIBED = (
    "For each log two charts over time: the resident memory of the service, and how many descriptors, tasks, sockets and "
    "threads it has. The figures are in the table beside the drawing."
)


def picture(told: Sequence[tuple[str, str, Sequence[Sample], float]]) -> str:
    """Of each log its name, what was found in a line, its samples, and the seconds of the warm-up."""
    rows = "".join(_row(at * ROW, *each) for at, each in enumerate(told))
    return frame(1030, ROW * len(told) + 6, TITLE, DESCRIBED, rows)


def _row(top: int, name: str, found: str, samples: Sequence[Sample], warm: float) -> str:
    memory = [each.memory for each in samples]
    axis = linear(max(memory) * 1.1)
    left = (
        _grid(LEFT, axis, samples, warm, "memory, MB")
        + _line(LEFT, axis, samples, memory, 0)
        + text(LEFT + WIDE, high(axis, memory[-1]) - 8, f"{memory[-1]:.0f} MB", "end own0")
    )
    values = [[getattr(each, what) for each in samples] for what in COUNTS]
    axis = linear(max(max(each) for each in values) * 1.1)
    right = _grid(RIGHT, axis, samples, warm, "at a time")
    places = apart([high(axis, each[-1]) for each in values])
    for at, (what, of, place) in enumerate(zip(COUNTS, values, places, strict=True), 1):
        right += _line(RIGHT, axis, samples, of, at)
        right += text(RIGHT + WIDE + 6, place + 4, f"{of[-1]} {what}", f"begin own{at}")
    head = text(16, -34, name, "name") + text(16, -16, found, "begin")
    return f'<g transform="translate(0 {top + TOP})">{head}{left}{right}</g>'


def _grid(left: int, axis: Axis, samples: Sequence[Sample], warm: float, label: str) -> str:
    length = samples[-1].at
    drawn = (
        f'<rect class="warm" x="{left}" y="0" width="{WIDE * warm / length:.1f}" height="{HIGH}"/>'
    )
    drawn += levels(left, WIDE, axis)
    minutes = length / 60
    for at in linear(minutes).ticks:
        if at <= minutes * 1.001:
            x = left + WIDE * at / minutes
            drawn += text(x, HIGH + 16, f"{at:g}" if at else "0 min", "middle")
    drawn += text(left + 5, 13, f"{label}; shaded: warm-up", "begin")
    return drawn


def _line(
    left: int, axis: Axis, samples: Sequence[Sample], values: Sequence[float], colour: int
) -> str:
    length = samples[-1].at
    places = [
        (left + WIDE * each.at / length, high(axis, value))
        for each, value in zip(samples, values, strict=True)
    ]
    return line(places, colour)
