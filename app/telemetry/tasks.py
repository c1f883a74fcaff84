"""Tasks that run as long as the part they serve. None of them ends unnoticed.

An error of a task is logged, counted and reported by health, and the task is restarted after a
growing wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import random
from typing import Any, Literal

from app.telemetry.counters import Counters

TaskName = Literal[
    "alerts",
    "attempts",
    "certificates",
    "configuration-file",
    "configuration-signal",
    "history",
    "named-files",
    "kafka-producer",
    "kubernetes",
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
"""All tasks; also the values of a label of ``skybridge_task_failures_total``."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a failed task is restarted
STEADY = 60.0  # seconds of running after which earlier failures are forgotten

_log = logging.getLogger("skybridge.tasks")


class Failures:
    """The failed tasks of this process. The failures are counted in ``counters``."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._troubles: dict[tuple[TaskName, str], str] = {}

    def count(self, name: TaskName, of: str, error: BaseException) -> None:
        """Log and count a failure that the caller reports to health. A known cause is logged in one
        line.
        """
        _log.error("%s", _words(name, of, error), exc_info=None if is_known(error) else error)
        self.counters.add("task_failures", name)

    def failed(self, name: TaskName, of: str, error: BaseException) -> None:
        """Log and count a failure, and report it to health until ``over`` is called."""
        self.count(name, of, error)
        self._troubles[name, of] = _words(name, of, error)

    def over(self, name: TaskName, of: str) -> None:
        """Stop reporting a failure: the task runs well again, or has ended."""
        self._troubles.pop((name, of), None)

    def causes(self) -> list[str]:
        """Return a sentence for each task that has failed recently."""
        return list(self._troubles.values())


FAILURES = Failures()
"""The failures of this process; the service sets its counters.

The object is global because tasks are started deep inside brokers, listeners and roles. An argument
would have to pass through all constructors above them.
"""


def is_known(error: BaseException) -> bool:
    """Return True if the error needs no traceback: an expected error of Skybridge, or a refusal of
    the system.

    A group of errors is known if each of its errors is.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_known(each) for each in error.exceptions)
    return isinstance(error, OSError) or getattr(error, "expected", False) is True


def cause_of(error: BaseException) -> str:
    """Return type and message of an error. For a group of errors, return those of its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _words(name: TaskName, of: str, error: BaseException) -> str:
    return f"task {f'{name} {of}'.rstrip()} failed and is restarted: {cause_of(error)}"


def keep(
    name: TaskName, work: Callable[[], Coroutine[Any, Any, None]], of: str = ""
) -> asyncio.Task[None]:
    """Return a task that runs ``work``, and runs it again whenever it raises. The task is done when
    ``work`` returns.

    Args:
        name: The name of the task.
        work: Returns the coroutine to run.
        of: The part that the task serves, if several tasks share the name.
    """
    return asyncio.create_task(_kept(name, work, of), name=f"{name} {of}".rstrip())


async def stop_task(task: asyncio.Task[None] | None, within: float = 0.0) -> None:
    """Wait up to ``within`` seconds for a task to end, then cancel it, and return when it has
    ended.
    """
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
            except Exception as error:  # noqa: BLE001 - no other code would report the error
                failures = 1 if loop.time() - begun > STEADY else failures + 1
                FAILURES.failed(name, of, error)
            finally:
                steady.cancel()
            pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 32))
            await asyncio.sleep(pause * (1 + random()) / 2)  # noqa: S311 - jitter, not a secret
    finally:
        FAILURES.over(name, of)
