"""How long things take, in buckets that are fixed: an observation costs a search among a dozen numbers
and two additions (figures in docs/operations.md).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

QUICK = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Seconds: of what somebody waits for."""
LONG = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0)
"""Seconds: of what may wait for a target that is away."""

SERIES_BOUND = (
    200  # label sets of one histogram, each of a dozen series; beyond it "other" (rule 8)
)
SUM = "sum"  # among the buckets of ``counts``: all seconds together, in microseconds
REST = "+Inf"


class Timing:
    """One label set of a histogram."""

    __slots__ = ("_bounds", "buckets", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(self._bounds, seconds)] += 1
        self.seconds += seconds

    def counts(self) -> Iterator[tuple[str, int]]:
        """By upper bound, each bucket alone; last the sum."""
        yield from zip((*map(repr, self._bounds), REST), self.buckets, strict=True)
        yield SUM, round(self.seconds * 1e6)


class Histogram(dict[tuple[str, ...], Timing]):
    """``histogram[labels]`` is the series to add to: the search of a dictionary, for the hot path. ``folded``:
    label sets that came beyond the bound, by how often they were asked for."""

    def __init__(self, bounds: Sequence[float] = QUICK) -> None:
        super().__init__()
        self._bounds = bounds
        self.folded = 0

    def __missing__(self, labels: tuple[str, ...]) -> Timing:
        if len(self) >= SERIES_BOUND:
            self.folded += 1
            labels = ("other",) * len(labels)
        return self.setdefault(labels, Timing(self._bounds))

    def counts(self) -> dict[tuple[str, ...], int]:
        """As a counter with one more label, the bucket: so a snapshot holds one kind of number."""
        return {
            (*labels, bucket): count
            for labels, timing in self.items()
            for bucket, count in timing.counts()
        }
