"""The context that all parts of one dispatcher share: settings, store, clock, tasks and bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import InitVar, dataclass
from typing import Any, NamedTuple

from app.delivery.backoff import backoff_delay
from app.interfaces import Clock, Store
from app.model.subscription import Subscription
from app.worker.attempts import AttemptLog
from app.worker.budget import BudgetShare
from app.worker.suspensions import Suspensions
from app.worker.timing import Timekeeper

LEASE_RECHECK = 0.2  # seconds until a doubtful ownership is checked again


class TaskScope(asyncio.TaskGroup):
    """The tasks of one dispatcher. An error in one task cancels all of them."""

    def __init__(self) -> None:
        super().__init__()
        self._running: set[asyncio.Task[None]] = set()
        self._ending = False

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
        """Start a task and return it. Return None if the tasks are ending or the scope has not been entered."""
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
        """Cancel all tasks. Their deliveries stay unfinished."""
        self._ending = True
        for task in self._running:
            task.cancel()


class DispatcherContext(NamedTuple):
    """The settings, store, clock, tasks and bounds that all parts of one dispatcher share.

    ``jitter`` returns a random number in [0, 1). ``scope`` holds the tasks. ``budget`` is the subscription's share
    of the process's bounds."""

    subscription: Subscription
    store: Store
    clock: Clock
    jitter: Callable[[], float]
    scope: TaskScope
    timekeeper: Timekeeper
    attempts: AttemptLog
    budget: BudgetShare
    suspensions: Suspensions


@dataclass(eq=False, repr=False)
class DispatcherPart:
    """Base class of the parts of a dispatcher. The fields of a subclass are the other parts that it needs.

    ``trouble`` describes, for an operator, what currently fails in this part. It is empty if nothing fails."""

    shared: InitVar[DispatcherContext]

    def __post_init__(self, shared: DispatcherContext) -> None:
        self._subscription = shared.subscription
        self._store = shared.store
        self._clock = shared.clock
        self._jitter = shared.jitter
        self._scope = shared.scope
        self._timekeeper = shared.timekeeper
        self._attempts = shared.attempts
        self._budget = shared.budget
        self._suspensions = shared.suspensions
        self.trouble = ""
        self._failures = 0  # of requests to the store, in a row

    def clear_trouble(self) -> None:
        """Clear the trouble and the failure count after a successful request to the store."""
        self.trouble, self._failures = "", 0

    def retry_delay(self) -> float:
        """Return the seconds until the next try: backoff after a refusal of the store, else a short wait for the
        ownership."""
        if not self.trouble:
            return LEASE_RECHECK
        self._failures += 1
        return backoff_delay(self._failures, self._jitter())
