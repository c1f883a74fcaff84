"""Decide from samples whether the lag of a group grows.

A lag falls with each commit and rises with each publish, so two samples do not show a trend. The lowest lag of each
minute is compared: if it is greater in every minute than in the one before, deliveries are slower than events.
"""

from __future__ import annotations

from typing import NamedTuple

SPAN = 60.0  # seconds of which the lowest lag counts
SPANS = 60  # spans that are remembered


class LagGrowth(NamedTuple):
    """The growth of a lag: the records by which it has grown, and the seconds since it began to grow."""

    records: int = 0
    seconds: float = 0.0


class LagTrend:
    """The lag of one group over time. Times are in seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._ended: list[
            tuple[float, int]
        ] = []  # begin and lowest lag; an empty deque is ten times as large
        self._begun, self._lowest = 0.0, -1

    def note(self, lag: int | None, now: float) -> None:
        """Note a sample. None means that the lag is unknown."""
        if lag is None:
            return
        if self._lowest < 0:
            self._begun, self._lowest = now, lag
        elif now - self._begun < SPAN:
            self._lowest = min(self._lowest, lag)
        else:
            self._end(now, lag)

    def _end(self, now: float, lag: int) -> None:
        """End a span, and forget earlier ones if the lag has not grown since the last."""
        if self._ended and self._lowest <= self._ended[-1][1]:
            self._ended.clear()
        self._ended.append((self._begun, self._lowest))
        del self._ended[:-SPANS]
        self._begun, self._lowest = now, lag

    def growth(self, now: float) -> LagGrowth:
        """Return by how much the lag has grown, and since when. The running span does not count, unless the lag
        has already fallen in it."""
        if len(self._ended) < 2 or self._lowest <= self._ended[-1][1]:  # noqa: PLR2004 - a comparison
            return LagGrowth()
        begun, first = self._ended[0]
        return LagGrowth(self._lowest - first, now - begun)
