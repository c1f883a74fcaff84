"""What a series of samples says: flat, or growing. Pure.

The slope is Theil and Sen's: the median of the slopes between all pairs of points, which a few peaks do not move
(H. Theil 1950; P. K. Sen, J. Am. Stat. Assoc. 63, 1968). A point is the lowest of some samples: what comes with a
burst and goes with it is not kept, what leaks stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

HOUR = 3600.0
SMALLEST = 16  # bytes of the smallest block that Python's allocator gives out
WARM_UP = (
    1 / 2
)  # of the time: the log has its size after ten minutes, pools and the heap have theirs after a quarter of an hour


POINTS = 30  # that a series is made of


def points(times: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """The lowest of each thirtieth of the samples."""
    size = max(1, len(times) // POINTS)
    firsts = range(0, len(times) - size + 1, size)
    return [(times[at], min(values[at : at + size])) for at in firsts]


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """In units of ``values`` a second."""
    pairs = combinations(points(times, values), 2)
    return median((b - a) / (until - since) for (since, a), (until, b) in pairs)


@dataclass(frozen=True)
class Trend:
    """A quantity after the warm-up. ``first``, ``last``: medians of the first and the last fifth. ``bound``: how
    much it may grow in an hour and still be called flat."""

    name: str
    first: float
    last: float
    hourly: float
    bound: float

    @property
    def flat(self) -> bool:
        return self.hourly < self.bound


def trend(name: str, times: Sequence[float], values: Sequence[float], bound: float) -> Trend:
    fifth = max(1, len(values) // 5)
    return Trend(
        name,
        median(values[:fifth]),
        median(values[-fifth:]),
        HOUR * slope(times, values),
        bound,
    )


def warm(times: Sequence[float], length: float) -> int:
    """The number of the first sample behind the warm-up."""
    return sum(time < length * WARM_UP for time in times)


def memory_bound(repeated: float) -> float:
    """MB an hour. Less than the smallest object of Python kept for each attempt that was made again, of which
    there are ``repeated`` an hour: nothing is kept for each event, nor for each of the few that fail."""
    return repeated * SMALLEST / 1e6


def count_bound(seconds: float) -> float:
    """An hour: less than one more by the end of ``seconds``."""
    return HOUR / seconds
