"""Keep the dispatcher of one subscription running: restart it when it fails, and stop it in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from app.delivery.backoff import doubling
from app.filters.dialects import are_long
from app.filters.selection import Selection
from app.interfaces import Clock, Sink
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.sinks.pull_queue import Wakeups
from app.telemetry.slices import in_thread
from app.telemetry.tasks import FAILURES, cause_of
from app.worker.attempts import AttemptLog
from app.worker.dispatch import Dispatcher

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a dispatcher that died restarts
BEGINNING = frozenset({"starting", "restarting"})
HEALTHY = 60.0  # seconds of running after which earlier deaths are forgotten


def bare_status(
    subscription: Subscription, group: str, state: str, cause: str
) -> SubscriptionStatus:
    """Return the status of a subscription that has no dispatcher now."""
    return SubscriptionStatus(
        id=subscription.id,
        sink=subscription.sink_text,
        broker=subscription.source.broker,
        group=group,
        state=state,
        cause=cause,
        queue_bound=subscription.queue_bound,
    )


@dataclass(eq=False, repr=False)
class SupervisedDispatcher:
    """A subscription with its current dispatcher, which is replaced when it fails.

    ``group`` is the consumer group. ``wakeups`` are notified when the dispatcher has joined its group, has failed,
    or has ended."""

    subscription: Subscription
    sink: Sink
    attempts: AttemptLog
    group: str
    _make: Callable[[SupervisedDispatcher, Selection], Dispatcher]
    _clock: Clock
    _jitter: Callable[[], float]
    _wakeups: Wakeups

    def __post_init__(self) -> None:
        self.dispatcher: Dispatcher | None = None
        self._task: asyncio.Task[None] | None = None
        self._selection: Selection | None = None
        self._restarts = 0
        self._death = ""
        self._ending = False

    @property
    def begun(self) -> bool:
        """Return True if the dispatcher was started."""
        return self._task is not None

    def begin(self) -> None:
        """Start the task that runs the dispatchers."""
        name = f"subscription {self.subscription.id}"
        self._task = asyncio.create_task(self._keep(), name=name)
        self._task.add_done_callback(lambda _: self.tell())

    async def taken(self) -> None:
        """Wait until the dispatcher has joined its group or has ended."""
        while self.status().state in BEGINNING:
            await self._wakeups.next(self.subscription.id).wait()

    def tell(self) -> None:
        """Notify the listeners of ``wakeups`` that the state has changed."""
        self._wakeups.tell(self.subscription.id)

    async def end(self, drain: float) -> None:
        """Stop the dispatcher and the sink, with ``drain`` seconds for requests in flight."""
        self._ending = True
        if self._task is not None:
            if self.status().state in BEGINNING:
                self._task.cancel()
            elif self.dispatcher is not None:
                await self.dispatcher.stop(drain)
            await asyncio.wait((self._task,))
        await self.sink.stop()

    def status(self) -> SubscriptionStatus:
        """Return the status of the subscription, also while no dispatcher runs."""
        if self.dispatcher is None or self._death:
            state = "restarting" if self._death else "starting"
            status = bare_status(self.subscription, self.group, state, self._death)
        else:
            status = self.dispatcher.status()
        return replace(
            status,
            restarts=self._restarts,
            failures=self.attempts.failures,
            failing_for=self.attempts.failing_for(self._clock.monotonic()),
        )

    async def _selected(self) -> Selection:
        """Return the compiled filters, which all restarts share. Long filters are compiled in a thread."""
        if self._selection is None:
            filters = self.subscription.filters
            select = partial(Selection, filters, self.attempts.count_filter_error)
            self._selection = await in_thread(select) if are_long(filters) else select()
        return self._selection

    async def _keep(self) -> None:
        """Run dispatchers until one ends without an error, because it was stopped or needs an operator."""
        deaths = 0
        while True:
            begun = self._clock.monotonic()
            self.dispatcher = self._make(self, await self._selected())
            self._death = ""
            try:
                await self.dispatcher.run()
                return
            except Exception as error:  # noqa: BLE001 - any failure is logged, and the dispatcher restarts
                deaths = 1 if self._clock.monotonic() - begun > HEALTHY else deaths + 1
                self._restarts += 1
                self._death = cause_of(error)
                FAILURES.count(
                    "subscription", self.subscription.id, error
                )  # ``status`` has the cause
                self.tell()
            if self._ending:
                return
            await self._clock.sleep(doubling(FIRST_PAUSE, LONGEST_PAUSE, deaths, self._jitter()))
