"""From the client's own threads to the event loop, in bundles.

The C++ client calls back on threads that know nothing of the loop (reliability 5.3, #184). Such a
call does nothing but append here, so that it holds the interpreter for a moment only, and many of
them share one wake-up of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from pulsar import Result

from app.brokers.pulsar.errors import ClientError

log = logging.getLogger(__name__)


class Bridge:
    """One a loop. ``post`` may be called from any thread; everything else on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have ``call`` made on the loop. Order is kept."""
        self._calls.append((call, arguments))
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        self._woken = False  # first: what is appended from here on wakes the loop again
        calls = self._calls
        while calls:
            call, arguments = calls.popleft()
            try:
                call(*arguments)
            except Exception:
                log.exception("a call from Pulsar's client failed")

    async def ask(self, begin: Callable[..., None], *arguments: Any, within: float) -> Any:
        """What ``begin(*arguments, callback)`` answers, for the rare calls. A handle that comes when
        nobody waits any more is closed again. Raises ClientError or TimeoutError."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        begin(*arguments, partial(self.post, _conclude, answer))
        async with asyncio.timeout(within):
            return await answer


def _conclude(answer: asyncio.Future[Any], result: Result, value: Any = None) -> None:
    if answer.done():
        if result == Result.Ok and hasattr(value, "close_async"):
            value.close_async(ignore)
    elif result == Result.Ok:
        answer.set_result(value)
    else:
        answer.set_exception(ClientError(result))


def ignore(_result: Result) -> None:
    """For calls whose outcome changes nothing."""
