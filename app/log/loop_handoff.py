"""Pass results from a thread of the log to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class LoopHandoff:
    """Schedules calls and future results on the event loop from another thread. A closed loop is ignored."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def answer(self, future: asyncio.Future[Any], result: object) -> None:
        self.call(_answer, future, result)

    def refuse(self, future: asyncio.Future[Any], error: BaseException) -> None:
        self.call(_refuse, future, error)


def _answer(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _refuse(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
