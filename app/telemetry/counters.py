"""Counters that cost the hot path one integer addition.

The registry of each part is a plain object with integers; ``api`` turns them into Prometheus text.
Labels are bounded: routes, subscriptions and brokers come from the configuration, never from a
request. What comes beyond the bound counts as ``other``, and how much that was is counted too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from app.telemetry.histograms import QUICK, Histogram

LABEL_BOUND = 1000  # series of one metric; beyond it values fall under "other" (rule 8)
FOLDED = "labels_folded"


class Counters:
    """Named integers with labels: ``counters.add("published", route)``. Not thread-safe by design:
    the event loop alone writes.
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
        """One metric by its labels, for a hot path whose labels are few by nature: add to it. What is
        beyond the bound is folded when somebody looks."""
        return self._values.setdefault(name, Counter())

    def histogram(self, name: str, bounds: Sequence[float] = QUICK) -> Histogram:
        """Of seconds; the same object for every caller."""
        return self._histograms.setdefault(name, Histogram(bounds))

    def values(self) -> Mapping[str, Mapping[tuple[str, ...], int]]:
        """All of them now. A histogram has its buckets as a last label (``Histogram.counts``)."""
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
    """The oldest series and ``other``, and how much is in ``other`` that ``add`` did not put there."""
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
