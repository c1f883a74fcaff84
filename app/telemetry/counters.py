"""Counters of the service. A count costs the hot path one integer addition. Each part of the
service adds to plain integers, and ``api`` formats them for Prometheus. The number of label values
is bounded: routes, subscriptions and brokers come from the configuration, never from a request.
Values beyond the bound count as ``other``, and a further metric counts how often that happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from app.telemetry.histograms import QUICK, Histogram

LABEL_BOUND = 1000  # largest number of series of a metric; further label values count as "other"
FOLDED = "labels_folded"


class Counters:
    """Named integers with labels: ``counters.add("published", route)``. Only the event loop may
    write to them.
    """

    def __init__(self) -> None:
        self._values: dict[str, Counter[tuple[str, ...]]] = {}
        self._histograms: dict[str, Histogram] = {}
        self._folded: Counter[tuple[str, ...]] = Counter()

    def add(self, name: str, *labels: str, by: int = 1) -> None:
        series = self._values.get(name)
        if series is None:
            series = self._values[name] = Counter()
        if labels not in series and len(series) >= LABEL_BOUND:
            self._folded[name,] += by
            labels = ("other",) * len(labels)
        series[labels] += by

    def series(self, name: str) -> Counter[tuple[str, ...]]:
        """Return the counts of one metric by labels, to which a hot path with few labels adds
        directly.

        Labels beyond the bound are combined into ``other`` when ``values`` is called.
        """
        return self._values.setdefault(name, Counter())

    def histogram(self, name: str, bounds: Sequence[float] = QUICK) -> Histogram:
        """Return the histogram of this name, in seconds. All callers get the same object."""
        return self._histograms.setdefault(name, Histogram(bounds))

    def values(self) -> Mapping[str, Mapping[tuple[str, ...], int]]:
        """Return the present value of every counter. A histogram becomes one counter for each
        bucket, with the bucket as the last label (``Histogram.counts``)."""
        found: dict[str, Mapping[tuple[str, ...], int]] = {}
        folded = self._folded.copy()
        for name, series in self._values.items():
            found[name], beyond = _bounded(series)
            if beyond:
                folded[name,] += beyond
        for name, histogram in self._histograms.items():
            found[name] = histogram.counts()
            if histogram.folded:
                folded[name,] += histogram.folded
        if folded:
            found[FOLDED] = folded
        return found

    def total(self, name: str) -> int:
        return sum(self._values.get(name, {}).values())


def _bounded(series: Counter[tuple[str, ...]]) -> tuple[Counter[tuple[str, ...]], int]:
    """Return the counts of the oldest label sets with all others added up as ``other``, and the sum
    of these others."""
    kept: Counter[tuple[str, ...]] = Counter()
    beyond = 0
    for number, (labels, count) in enumerate(series.items()):
        other = ("other",) * len(labels)
        if number < LABEL_BOUND or labels == other:
            kept[labels] += count
        else:
            kept[other] += count
            beyond += count
    return kept, beyond
