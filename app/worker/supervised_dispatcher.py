"""A subscription that is kept running: its dispatcher is restarted when it dies, and ended in order."""

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
    )


@dataclass(eq=False, repr=False)
class SupervisedDispatcher:
    """A subscription with the dispatcher that runs it now. Each dispatcher runs once. ``group``: the consumer group
    in the log. ``wakeups``: hear when it is in its group, has failed or has ended."""

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
        return self._task is not None

    def begin(self) -> None:
        name = f"subscription {self.subscription.id}"
        self._task = asyncio.create_task(self._keep(), name=name)
        self._task.add_done_callback(lambda _: self.tell())

    async def taken(self) -> None:
        """Returns when it is in its group, or has ended."""
        while self.status().state in BEGINNING:
            await self._wakeups.next(self.subscription.id).wait()

    def tell(self) -> None:
        """Give word that the state is another."""
        self._wakeups.tell(self.subscription.id)

    async def end(self, drain: float) -> None:
        """``drain``: seconds for its attempts on the wire (rule 11)."""
        self._ending = True
        if self._task is not None:
            if self.status().state in BEGINNING:
                self._task.cancel()
            elif self.dispatcher is not None:
                await self.dispatcher.stop(drain)
            await asyncio.wait((self._task,))
        await self.sink.stop()

    def status(self) -> SubscriptionStatus:
        if self.dispatcher is None or self._death:
            state = "restarting" if self._death else "starting"
            status = bare_status(self.subscription, self.group, state, self._death)
        else:
            status = self.dispatcher.status()
        return replace(status, restarts=self._restarts)

    async def _selected(self) -> Selection:
        """Return the filters, compiled once for all restarts; long ones in a thread."""
        if self._selection is None:
            filters = self.subscription.filters
            select = partial(Selection, filters, self.attempts.filter_failed)
            self._selection = await in_thread(select) if are_long(filters) else select()
        return self._selection

    async def _keep(self) -> None:
        """Until its dispatcher ends by itself: it was stopped, or asks for a person."""
        deaths = 0
        while True:
            begun = self._clock.monotonic()
            self.dispatcher = self._make(self, await self._selected())
            self._death = ""
            try:
                await self.dispatcher.run()
                return
            except Exception as error:  # noqa: BLE001 - whatever it died of, it is logged and restarted
                deaths = 1 if self._clock.monotonic() - begun > HEALTHY else deaths + 1
                self._restarts += 1
                self._death = cause_of(error)
                FAILURES.count("subscription", self.subscription.id, error)  # ``status`` tells
                self.tell()
            if self._ending:
                return
            await self._clock.sleep(doubling(FIRST_PAUSE, LONGEST_PAUSE, deaths, self._jitter()))
