"""Several askers, one answer: status, metrics and a person who looks ask the same at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from app.errors import BrokerUnavailable

T = TypeVar("T")


class Shared:
    """Questions under way. A second asker of one of them gets the answer that is coming, and an asker
    who goes away takes nothing from the others.

    ``kept``: seconds, from when it was asked for, that an answer serves those who come later; its place
    in memory stays, so the questions must be few. A failure is not kept."""

    def __init__(self, kept: float = 0.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._kept = kept
        self._monotonic = monotonic
        self._asked: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def ask(self, what: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        """The same ``what`` must always mean the same question. Raises what the question raised, and
        BrokerUnavailable for one that is given up by ``close``."""
        now = self._monotonic()
        since, task = self._asked.get(what, (now, None))
        if task is None or (task.done() and now - since >= self._kept):
            task = asyncio.ensure_future(_put(question))
            self._asked[what] = now, task
            task.add_done_callback(lambda done: self._conclude(what, done))
        await asyncio.wait({task})
        if task.cancelled():  # the question was, not its asker
            raise BrokerUnavailable("this log is closing")
        answer: T = task.result()
        return answer

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = [task for _, task in self._asked.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _conclude(self, what: Hashable, task: asyncio.Task[Any]) -> None:
        failed = task.cancelled() or task.exception() is not None  # nobody may be left to hear it
        _, current = self._asked.get(what, (0.0, None))
        if current is task and (failed or not self._kept):
            del self._asked[what]


async def _put(question: Callable[[], Awaitable[T]]) -> T:
    return await question()
