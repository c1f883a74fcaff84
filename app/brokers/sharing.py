"""Share one request among concurrent callers.

Status pages, metrics and operators often send the same request to a broker at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from app.errors import BrokerUnavailable

T = TypeVar("T")


class SingleFlight:
    """The requests in progress. Several callers can wait for one request.

    A caller that makes a request which is already in progress waits for the same answer. A caller that is
    cancelled does not cancel the request for the others.

    Args:
        reuse_for: Seconds for which an answer is reused, counted from its request. 0 means not at all. A
            failure is never reused. Answers stay in memory for good, so the number of different requests must
            be small.
        monotonic: The clock, in seconds.
    """

    def __init__(
        self, reuse_for: float = 0.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._reuse_for = reuse_for
        self._monotonic = monotonic
        self._asked: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def ask(self, what: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of ``question``. If an equal request is in progress, wait for its answer instead.

        Args:
            what: The key of the request. Equal keys must always mean the same request.
            question: A function that sends the request to the broker.

        Raises:
            BrokerUnavailable: ``close`` cancelled the request. Errors of ``question`` are raised unchanged.
        """
        now = self._monotonic()
        since, task = self._asked.get(what, (now, None))
        if task is None or (task.done() and now - since >= self._reuse_for):
            task = asyncio.ensure_future(_put(question))
            self._asked[what] = now, task
            task.add_done_callback(lambda done: self._conclude(what, done))
        await asyncio.wait({task})
        if task.cancelled():  # the request was cancelled, not this caller
            raise BrokerUnavailable("this log is closing")
        answer: T = task.result()
        return answer

    async def close(self) -> None:
        """Cancel all requests in progress and wait until they have ended."""
        tasks = [task for _, task in self._asked.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _conclude(self, what: Hashable, task: asyncio.Task[Any]) -> None:
        failed = (
            task.cancelled() or task.exception() is not None
        )  # marks the exception as retrieved
        _, current = self._asked.get(what, (0.0, None))
        if current is task and (failed or not self._reuse_for):
            del self._asked[what]


async def _put(question: Callable[[], Awaitable[T]]) -> T:
    return await question()
