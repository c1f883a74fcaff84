"""Functions by which tests wait for the effect of another task, thread or process.

``until`` is awaited and does not block the event loop. ``wait_until`` blocks the thread.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

PATIENCE = 240.0  # seconds; only a bound, because every wait ends with its condition
_SOON = 0.001  # seconds

Value = TypeVar("Value")


async def until(
    condition: Callable[[], Any],
    what: str = "",
    within: float = PATIENCE,
    turn: float = 0.01,
    moved: Callable[[], object] = lambda: None,
) -> Value:
    """Await until a condition, plain or asynchronous, is true, and return its value.

    Args:
        condition: Called every ``turn`` seconds.
        what: What did not happen, for the text of the error.
        within: Seconds until TimeoutError is raised.
        turn: Seconds between two calls of the condition. A plain condition costs little, so it is called
            sooner at first: after one, two and four milliseconds.
        moved: Return the state of a long load. The bound restarts as long as the state changes, so
            that a slow machine fails no test.
    """
    patience = _Patience(what, within, moved)
    pause = min(_SOON, turn)
    while True:
        found = condition()
        if inspect.isawaitable(found):
            pause, found = turn, await found
        if found:
            return found
        patience.check()
        await asyncio.sleep(pause)
        pause = min(2 * pause, turn)


def wait_until(
    condition: Callable[[], Value],
    what: str = "",
    within: float = PATIENCE,
    turn: float = 0.02,
    moved: Callable[[], object] = lambda: None,
) -> Value:
    """Block until a condition is true, and return its value. The arguments are those of ``until``."""
    patience = _Patience(what, within, moved)
    while not (value := condition()):
        patience.check()
        time.sleep(turn)
    return value


class _Patience:
    """The bound of one wait. The bound restarts when the state of the load has changed."""

    def __init__(self, what: str, within: float, moved: Callable[[], object]) -> None:
        self._what, self._within, self._moved = what, within, moved
        self._last = moved()
        self._deadline = time.monotonic() + within

    def check(self) -> None:
        """Raise TimeoutError if the time is over and the state of the load has not changed."""
        if time.monotonic() <= self._deadline:
            return
        before, self._last = self._last, self._moved()
        if self._last == before:
            raise TimeoutError(f"not within {self._within:g} s: {self._what or 'the condition'}")
        self._deadline = time.monotonic() + self._within
