"""The one way a test waits for something that another task, thread or process brings about.

``until`` is awaited and lets the loop of the test go on; ``wait_until`` blocks the thread.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

PATIENCE = 240.0  # seconds; a bound and no claim: every wait ends with its condition

Value = TypeVar("Value")


async def until(
    condition: Callable[[], Any],
    what: str = "",
    within: float = PATIENCE,
    turn: float = 0.01,
) -> Any:
    """Await until a condition, plain or asynchronous, is true, and return its value.

    Args:
        condition: called once each ``turn`` seconds.
        what: names in the error what did not happen.
        within: seconds until TimeoutError is raised.
    """
    deadline = time.monotonic() + within
    while True:
        found = condition()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        _check(deadline, what, within)
        await asyncio.sleep(turn)


def wait_until(
    condition: Callable[[], Value], what: str = "", within: float = PATIENCE, turn: float = 0.02
) -> Value:
    """Block until a condition is true and return its value, as ``until`` does in a loop."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        _check(deadline, what, within)
        time.sleep(turn)
    return value


def _check(deadline: float, what: str, within: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError(f"not within {within:g} s: {what or 'the condition'}")
