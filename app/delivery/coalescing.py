"""Combine repeated notifications. The first is sent at once. Later ones are counted, and their number is sent
when a time window ends."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class _Window:
    __slots__ = ("count", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.count = 0


class Coalescer(Generic[K]):
    """A counter of occurrences by key. Each key is reported at most once in ``seconds``, with the number of
    occurrences, so that all are reported."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._windows: dict[K, _Window] = {}

    def add(self, key: K, now: float) -> int:
        """Count an occurrence. Return the number to report now: 1 if no window of the key is open, else 0."""
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = _Window(now + self._seconds)
            return 1
        window.count += 1
        return 0

    def due(self, now: float) -> dict[K, int]:
        """Return the keys whose window has ended, with their counts.

        Each returned key gets a new window. A key without occurrences in its window is removed."""
        over = [key for key, window in self._windows.items() if window.until <= now]
        return self._close(over, now)

    def rest(self, now: float) -> dict[K, int]:
        """Return all counts that were not reported yet, including those of windows that have not ended."""
        return self._close(list(self._windows), now)

    def next_due(self) -> float | None:
        """Return when the next window ends, or None without open windows."""
        return min((window.until for window in self._windows.values()), default=None)

    def _close(self, keys: list[K], now: float) -> dict[K, int]:
        found = {}
        for key in keys:
            count = self._windows.pop(key).count
            if count:
                found[key] = count
                self._windows[key] = _Window(now + self._seconds)
        return found
