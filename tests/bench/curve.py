"""What is measured at some sizes of one thing, and whether it grows. Pure.

A curve grows if the median at some size is more than 20 % above that at a smaller one. A byte costs everybody: bodies
may cost as much more as they cost the plain floor that takes the same bytes, and 20 % of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from statistics import median

GROWTH = 1.2
HEADINGS = ["cost by", "CPU µs (memory MB)", "highest growth", "target", ""]


@dataclass
class Point:
    size: int
    costs: list[float] = field(default_factory=list)
    floors: list[float] = field(default_factory=list)
    memory: float = 0.0

    @property
    def cost(self) -> float:
        return median(self.costs)

    @property
    def floor(self) -> float:
        return median(self.floors)


@dataclass
class Curve:
    """``what``: the axis below; ``unit``: of the one at the left."""

    what: str
    unit: str
    points: list[Point]

    @property
    def growth(self) -> float:
        """The highest ratio of a size to a smaller one; 1 where there is none. With a floor: of a size to what the
        smallest one and the growth of the floor would make together."""
        first = self.points[0]
        if first.floors:
            beyond = first.cost - first.floor
            return max(each.cost / (beyond + each.floor) for each in self.points)
        pairs = combinations(self.points, 2)
        return max((later.cost / earlier.cost for earlier, later in pairs), default=1.0)

    @property
    def flat(self) -> bool:
        return self.growth <= GROWTH

    @property
    def verdict(self) -> str:
        beside = " beyond the floor" if self.points[0].floors else ""
        if self.flat:
            return f"flat{beside}"
        return f"grows by {self.growth - 1:.0%}{beside}"

    def cells(self) -> list[str]:
        told = ", ".join(
            f"{each.size:,}: {each.cost:.1f}{_floor(each)} ({each.memory:.0f})"
            for each in self.points
        )
        return [self.what, told, f"{self.growth:.2f}", f"≤ {GROWTH:g}", self.verdict]


def _floor(point: Point) -> str:
    return f" (floor {point.floor:.1f})" if point.floors else ""
