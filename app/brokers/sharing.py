"""Several askers, one answer: status, metrics and a person who looks ask the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from app.errors import BrokerUnavailable

T = TypeVar("T")


class Shared:
    """Questions under way. Whoever asks one of them again gets the answer that is coming, and an asker
    who goes away takes nothing from the others."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}

    async def ask(self, what: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        """The same ``what`` must always mean the same question. Raises what the question raised, and
        BrokerUnavailable for one that is given up by ``close``."""
        task = self._asked.get(what)
        if task is None:
            task = asyncio.ensure_future(_put(question))
            self._asked[what] = task
            task.add_done_callback(lambda done: self._forget(what, done))
        await asyncio.wait({task})
        if task.cancelled():  # the question was, not its asker
            raise BrokerUnavailable("this log is going down")
        answer: T = task.result()
        return answer

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _forget(self, what: Hashable, task: asyncio.Task[Any]) -> None:
        if self._asked.get(what) is task:
            del self._asked[what]
        if not task.cancelled():
            task.exception()  # nobody may be left to hear it


async def _put(question: Callable[[], Awaitable[T]]) -> T:
    return await question()
