"""Durations in fixed buckets.

An observation costs a search among a dozen numbers and two additions (figures in
docs/operations.md).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

QUICK = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""The bucket bounds in seconds for durations that a caller waits for."""
LONG = (0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0)
"""The bucket bounds in seconds for durations that include an unavailable target."""

SERIES_BOUND = 200  # label sets of a histogram; further ones count as "other"
SUM = "sum"  # the bucket label in ``counts`` of the sum of all durations, in microseconds
REST = "+Inf"


class Timing:
    """The series of a histogram for one set of labels."""

    __slots__ = ("_bounds", "buckets", "seconds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(self._bounds, seconds)] += 1
        self.seconds += seconds

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield the count of each bucket with its upper bound, not cumulated, and at last the sum
        in microseconds.
        """
        yield from zip((*map(repr, self._bounds), REST), self.buckets, strict=True)
        yield SUM, round(self.seconds * 1e6)


class Histogram(dict[tuple[str, ...], Timing]):
    """A histogram: ``histogram[labels]`` returns the series to add to, with one dictionary search.

    ``folded`` counts the requests for label sets beyond the bound, which share the labels
    ``other``.
    """

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
        """Return the counts in the form of a counter, with the bucket as the last label."""
        return {
            (*labels, bucket): count
            for labels, timing in self.items()
            for bucket, count in timing.counts()
        }
