"""What the parts of one dispatcher share, their tasks among it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import InitVar, dataclass
from typing import Any, NamedTuple

from app.delivery.backoff import try_again_in
from app.interfaces import Clock, Store
from app.model.subscription import Subscription
from app.worker.attempts import AttemptLog
from app.worker.budget import Part
from app.worker.timing import Timekeeper

LEASE_RECHECK = 0.2  # seconds until what is in doubt is looked at again


class TaskScope(asyncio.TaskGroup):
    """An error in one of its tasks ends them all, rather than go unseen."""

    def __init__(self) -> None:
        super().__init__()
        self._running: set[asyncio.Task[None]] = set()
        self._ending = False

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
        """None: the tasks are ending, or have not begun."""
        try:
            task = None if self._ending else self.create_task(work, name=name)
        except RuntimeError:  # one of them failed, or all have ended
            task = None
        if task is None:
            work.close()
            return None
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """End all of them. What they had under way stays unfinished."""
        self._ending = True
        for task in self._running:
            task.cancel()


class Shared(NamedTuple):
    """``jitter`` in [0, 1). ``scope``: their tasks. ``part``: of the process's bounds."""

    subscription: Subscription
    store: Store
    clock: Clock
    jitter: Callable[[], float]
    scope: TaskScope
    timekeeper: Timekeeper
    attempts: AttemptLog
    part: Part


@dataclass(eq=False, repr=False)
class DispatcherPart:
    """Its fields are the other parts that it needs.

    ``trouble``: what hinders it, in words for a person; "" when nothing does."""

    shared: InitVar[Shared]

    def __post_init__(self, shared: Shared) -> None:
        self._subscription = shared.subscription
        self._store = shared.store
        self._clock = shared.clock
        self._jitter = shared.jitter
        self._scope = shared.scope
        self._timekeeper = shared.timekeeper
        self._attempts = shared.attempts
        self._part = shared.part
        self.trouble = ""
        self._failures = 0  # in a row, of what it asks of the store

    def well(self) -> None:
        """The store did what it was asked for."""
        self.trouble, self._failures = "", 0

    def pause(self) -> float:
        """Seconds until it is asked again: it refused, which is the trouble, or a partition is in doubt."""
        if not self.trouble:
            return LEASE_RECHECK
        self._failures += 1
        return try_again_in(self._failures, self._jitter())
