"""What the parts of one dispatcher share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from app.interfaces import Clock, Store
from app.model.subscription import Subscription
from app.worker.attempts import AttemptLog
from app.worker.budget import Part
from app.worker.tasks import TaskScope
from app.worker.timing import Timekeeper


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


class DispatcherPart:
    """``trouble``: what hinders it, in words for a person; "" when nothing does."""

    def __init__(self, shared: Shared) -> None:
        self._subscription = shared.subscription
        self._store = shared.store
        self._clock = shared.clock
        self._jitter = shared.jitter
        self._scope = shared.scope
        self._timekeeper = shared.timekeeper
        self._attempts = shared.attempts
        self._part = shared.part
        self.trouble = ""
