"""The rows of the benchmark: rounds of what was measured beside rounds of its floor."""

from __future__ import annotations

import os
import platform
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isinf
from pathlib import Path
from statistics import median
from typing import Protocol


class Line(Protocol):
    """What stands in a row of a table."""

    def cells(self) -> list[str]: ...


@dataclass
class Row:
    """Microseconds of CPU an event, or what ``unit`` says, one value a round. ``most`` bounds the ratio to the
    floor, or, where there is no floor, what was measured; infinite where there is no target.
    """

    name: str
    floor_name: str
    most: float
    measured: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    memory: str = ""
    unit: str = "µs"
    digits: int = 1

    @property
    def value(self) -> float:
        """What the target bounds: the median ratio of the rounds, or the median itself."""
        if not self.floor_name:
            return median(self.measured)
        return median(own / floor for own, floor in zip(self.measured, self.floor, strict=True))

    @property
    def met(self) -> bool:
        return self.value <= self.most

    def cells(self) -> list[str]:
        floor = f"{spread(self.floor)} ({self.floor_name})" if self.floor_name else ""
        ratio = f"{self.value:.2f}" if self.floor_name else ""
        verdict = self._verdict()
        return [self.name, self._told(), floor, ratio, self._target(), verdict, self.memory]

    def _told(self) -> str:
        return spread(self.measured, self.digits) + ("" if self.unit == "µs" else f" {self.unit}")

    def _target(self) -> str:
        if isinf(self.most):
            return ""
        return f"≤ {self.most:g}" + ("" if self.floor_name else f" {self.unit}")

    def _verdict(self) -> str:
        if isinf(self.most):
            return ""
        return "met" if self.met else f"missed by {self.value / self.most - 1:.0%}"


class Plain(Row):
    """Beside no floor, in a table of its own (``PLAIN``)."""

    def cells(self) -> list[str]:
        return [self.name, self._told(), self._target(), self._verdict()]


PLAIN = ["what", "measured", "target", ""]
HEADINGS = ["what", "CPU µs/event", "floor µs/event", "ratio", "target", "", "memory MB now/peak"]


def spread(values: Sequence[float], digits: int = 1) -> str:
    return f"{median(values):.{digits}f} [{min(values):.{digits}f}-{max(values):.{digits}f}]"


def text(rows: Sequence[Line], headings: Sequence[str] = HEADINGS) -> str:
    lines = [headings, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def table(rows: Sequence[Line], headings: Sequence[str]) -> str:
    """As Markdown."""
    lines = [headings, ["---"] * len(headings), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def part(
    preface: str,
    rows: Sequence[Line],
    headings: Sequence[str],
    command: str,
    remarks: Sequence[str],
) -> str:
    """A part of the page that is measured by itself."""
    notes = "\n".join(f"- {remark}" for remark in [*machine(), *remarks])
    return f"{preface}\n{NOT_RUN}\n```bash\n{command}\n```\n\n{table(rows, headings)}\n\n{notes}\n"


def with_part(page: str, name: str, text: str, order: Sequence[str] = ()) -> str:
    """The page, with this part instead of the one of that name that it had. One that it had not comes before
    those that ``order`` has behind it, else behind all others."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    if found:
        after = rest.partition(end)[2]
    else:
        place = _place(page, name, order)
        before, after = page[:place], f"\n\n{page[place:].lstrip()}".rstrip() + "\n"
    return f"{before.rstrip()}\n\n{begin}\n\n{text}\n{end}{after}"


def _place(page: str, name: str, order: Sequence[str]) -> int:
    later = order[order.index(name) + 1 :] if name in order else ()
    places = (page.find(f"<!-- {each} -->") for each in later)
    return min((place for place in places if place >= 0), default=len(page))


NOT_RUN = "<!-- not run: it measures for minutes and writes this page -->"

PREFACE = """# Figures

Written by the commands below and by nothing else. CPU time is utime + stime of the measured process,
not wall time: it is what carries over to another machine. Each figure is the median of interleaved
rounds with its lowest and highest in brackets; a ratio is the median of the rounds' ratios.

Load, where a part says nothing else: 64 keep-alive connections from a process of its own, one request in flight on each,
0.6 kB of JSON in seven header fields, 10,000 keys, 8 partitions, key from the Partitioning extension.

Each part has its own command. [How to measure](guides/bench.md) lists them, with the time that each takes.
"""


def machine() -> list[str]:
    """What a reader needs to compare."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return [
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
        (
            f"{os.cpu_count()} CPUs ({models[0] if models else platform.machine()}), "
            f"{platform.system()} {platform.release()}, Python {platform.python_version()}{_build()}."
        ),
    ]


def _build() -> str:
    """An interpreter that was not optimised by profile runs Python a tenth to a third slower, and C as fast."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return "" if "--enable-optimizations" in options else " (built without --enable-optimizations)"
