"""Tasks that last as long as the part they serve: none of them ends without a word.

What one raises is logged, counted and told by health, and the task begins again with back-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import random
from typing import Any, Literal

from app.telemetry.counters import Counters

TaskName = Literal[
    "attempts",
    "certificates",
    "configuration-file",
    "configuration-signal",
    "history",
    "named-files",
    "kafka-producer",
    "listener",
    "operator-events",
    "pulsar-lanes",
    "pulsar-owners",
    "pulsar-producer",
    "pulsar-topics",
    "rabbitmq-confirms",
    "rabbitmq-producer",
    "retention",
    "spools",
    "store-changes",
    "subscription",
    "watching",
]
"""All that there are; a label of ``skybridge_task_failures_total``."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a task that failed begins again
STEADY = 60.0  # seconds of running after which earlier failures are forgotten

_log = logging.getLogger("skybridge.tasks")


class Failures:
    """Of the tasks of this process. ``counters``: where they are counted."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._troubles: dict[tuple[TaskName, str], str] = {}

    def count(self, name: TaskName, of: str, error: BaseException) -> None:
        """Log and count the failure; the caller reports it to health by itself. A known cause is one line."""
        _log.error("%s", _words(name, of, error), exc_info=None if is_known(error) else error)
        self.counters.add("task_failures", name)

    def failed(self, name: TaskName, of: str, error: BaseException) -> None:
        self.count(name, of, error)
        self._troubles[name, of] = _words(name, of, error)

    def over(self, name: TaskName, of: str) -> None:
        """It runs well again, or has ended."""
        self._troubles.pop((name, of), None)

    def causes(self) -> list[str]:
        """Of the tasks that failed lately, in words for a person."""
        return list(self._troubles.values())


FAILURES = Failures()
"""Of the process, and global for this reason: tasks are kept deep inside brokers, listeners and roles, and an
argument would lead to each of them through every constructor above it. The service says where they are
counted."""


def is_known(error: BaseException) -> bool:
    """Return True if the error needs no traceback: it is one of ours, or the system refused something. Of a group,
    each has to be."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_known(each) for each in error.exceptions)
    return isinstance(error, OSError) or getattr(error, "expected", False) is True


def cause_of(error: BaseException) -> str:
    """The first that went wrong, without the group that carried it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _words(name: TaskName, of: str, error: BaseException) -> str:
    return f"task {f'{name} {of}'.rstrip()} failed and is restarted: {cause_of(error)}"


def keep(
    name: TaskName, work: Callable[[], Coroutine[Any, Any, None]], of: str = ""
) -> asyncio.Task[None]:
    """``work`` as a task, begun again whenever it raises; done when it returns or is cancelled. ``of``:
    whose it is, where there may be several."""
    return asyncio.create_task(_kept(name, work, of), name=f"{name} {of}".rstrip())


async def ended(task: asyncio.Task[None] | None, within: float = 0.0) -> None:
    """It has ended when this returns: by itself within so many seconds, else cancelled."""
    if task is not None:
        if within:
            await asyncio.wait((task,), timeout=within)
        task.cancel()
        await asyncio.wait((task,))


async def _kept(name: TaskName, work: Callable[[], Coroutine[Any, Any, None]], of: str) -> None:
    loop = asyncio.get_running_loop()
    failures = 0
    try:
        while True:
            begun = loop.time()
            steady = loop.call_later(STEADY, FAILURES.over, name, of)
            try:
                await work()
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody else would hear of it
                failures = 1 if loop.time() - begun > STEADY else failures + 1
                FAILURES.failed(name, of, error)
            finally:
                steady.cancel()
            pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 32))
            await asyncio.sleep(pause * (1 + random()) / 2)  # noqa: S311 - spread, no secret
    finally:
        FAILURES.over(name, of)
