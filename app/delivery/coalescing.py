"""Many of the same told as few: the first at once, the others counted until a window is over."""

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
    """At most one word about a key in ``seconds``; every occurrence is in one of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._windows: dict[K, _Window] = {}

    def add(self, key: K, now: float) -> int:
        """How many to tell of now: 1 for the first in long, 0 while its window is open."""
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = _Window(now + self._seconds)
            return 1
        window.count += 1
        return 0

    def due(self, now: float) -> dict[K, int]:
        """Keys whose window is over, with what came in it. Each of them has a new one; a key that was
        quiet has none."""
        over = [key for key, window in self._windows.items() if window.until <= now]
        return self._close(over, now)

    def rest(self, now: float) -> dict[K, int]:
        """All that was not told yet, windows over or not."""
        return self._close(list(self._windows), now)

    def next_due(self) -> float | None:
        return min((window.until for window in self._windows.values()), default=None)

    def _close(self, keys: list[K], now: float) -> dict[K, int]:
        found = {}
        for key in keys:
            count = self._windows.pop(key).count
            if count:
                found[key] = count
                self._windows[key] = _Window(now + self._seconds)
        return found
