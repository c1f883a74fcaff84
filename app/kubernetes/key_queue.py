"""The keys of objects that wait for a look, each once, and the times at which keys are looked at again."""

from __future__ import annotations

import asyncio
from collections import deque

Key = tuple[str, str]
"""The namespace and the name of an object."""

_LONGEST_WAIT = 15.0  # seconds before a key whose work fails is tried again


class KeyQueue:
    """The queue. A key has at most one place in it, and at most one timer."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Key]] = {}  # by namespace, the next one first
        self._count = asyncio.Semaphore(0)  # its value is the number of keys that wait
        self._queued: set[Key] = set()
        self._busy: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}  # in a row
        self._failed: set[Key] = set()  # keys in work that have failed

    @property
    def waiting(self) -> int:
        """Return how many keys wait or are in work. Keys with a timer do not count."""
        return len(self._queued) + len(self._busy)

    def add(self, key: Key) -> None:
        """Put a key into the queue, unless it is there already."""
        if key not in self._queued:
            self._queued.add(key)
            self._waiting.setdefault(key[0], deque()).append(key)
            self._count.release()

    def add_later(self, key: Key, seconds: float) -> None:
        """Put a key into the queue after some seconds, or earlier if an earlier time is set already."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._is_due, key)

    def add_failed(self, key: Key, seconds: float) -> None:
        """Put a key whose work failed into the queue after some seconds, twice as many for each further failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._failed.add(key)
        self.add_later(key, min(_LONGEST_WAIT, seconds * 2.0 ** min(failures, 10)))

    async def take(self, soon: float) -> Key:
        """Return the next key that no other task works on. One that is in work comes again after ``soon`` seconds.
        Namespaces take turns, so that no tenant with many changes delays those of another."""
        while True:
            await self._count.acquire()
            key = self._next()
            if key not in self._busy:
                self._busy.add(key)
                return key
            self.add_later(key, soon)

    def done(self, key: Key) -> None:
        """Give back a key that ``take`` returned. Its failures count on only if the work has failed again."""
        self._busy.discard(key)
        if key not in self._failed:
            self._failures.pop(key, None)
        self._failed.discard(key)

    def _next(self) -> Key:
        namespace = next(iter(self._waiting))
        keys = self._waiting.pop(namespace)
        key = keys.popleft()
        if keys:
            self._waiting[namespace] = keys
        self._queued.discard(key)
        return key

    def _is_due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)
