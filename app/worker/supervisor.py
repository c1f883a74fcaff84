"""Runs one dispatcher a subscription, begins one anew that died, and says so: never silently."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from app.delivery.backoff import doubling
from app.errors import SetupError
from app.interfaces import Attempt, Clock, Log, Sink, Store
from app.model.subscription import Subscription
from app.telemetry import Counters
from app.worker.attempts import AttemptLog
from app.worker.dispatch import Dispatcher
from app.worker.joining import group_name
from app.worker.status import SubscriptionStatus

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a dispatcher that died begins anew
HEALTHY = 60.0  # seconds of running after which earlier deaths are forgotten

_log = logging.getLogger("skybridge.worker")


class _Run:
    """One subscription as it is kept running."""

    def __init__(self, subscription: Subscription, sink: Sink, attempts: AttemptLog) -> None:
        self.subscription = subscription
        self.sink = sink
        self.attempts = attempts
        self.dispatcher: Dispatcher | None = None
        self.task: asyncio.Task[None] | None = None
        self.restarts = 0
        self.death = ""
        self.ending = False


class Supervisor:
    """``logs`` by broker name. ``sink_for`` makes the sink of a subscription: a pool of connections
    each, so that one target that hangs takes none from the others."""

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        logs: Mapping[str, Log],
        store: Store,
        sink_for: Callable[[Subscription], Sink],
        clock: Clock,
        counters: Counters,
        *,
        installation: str,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._logs = logs
        self._store = store
        self._clock = clock
        self._installation = installation
        self._jitter = jitter
        self._runs = {
            subscription.id: _Run(
                subscription, sink_for(subscription), AttemptLog(subscription.id, counters)
            )
            for subscription in subscriptions
        }

    async def start(self) -> None:
        """Begin all; returns at once, ``status`` tells how they fare. Raises SetupError for a broker
        that nobody configured."""
        for run in self._runs.values():
            self._check(run.subscription)
        for name, run in self._runs.items():
            run.task = asyncio.create_task(self._keep(run), name=f"subscription {name}")

    async def stop(self, drain: float) -> None:
        """All at once; each gives its attempts on the wire ``drain`` seconds (rule 11)."""
        await asyncio.gather(*(self._end(run, drain) for run in self._runs.values()))

    def status(self) -> list[SubscriptionStatus]:
        return [self._status(run) for run in self._runs.values()]

    def attempts(self, subscription: str | None = None, limit: int = 100) -> list[Attempt]:
        """The newest first; of one subscription or all."""
        runs = [
            run for name, run in self._runs.items() if subscription is None or subscription == name
        ]
        found = [attempt for run in runs for attempt in run.attempts.recent(limit)]
        return sorted(found, key=lambda attempt: -attempt.started_ms)[:limit]

    async def enable(self, subscription: str) -> None:
        """Deliver again after a 410. KeyError for a subscription that there is none of."""
        run = self._runs[subscription]
        await self._store.enable(subscription)
        if run.dispatcher is not None:
            run.dispatcher.enable()

    def _check(self, subscription: Subscription) -> None:
        places = {"source.broker": subscription.source.broker}
        if subscription.dead_letter is not None:
            places["dead_letter.broker"] = subscription.dead_letter.broker
        for setting, broker in places.items():
            if broker not in self._logs:
                raise SetupError(
                    f"there is no broker {broker!r}",
                    setting=f"subscriptions.{subscription.id}.{setting}",
                    cure=f"name one of: {', '.join(self._logs) or 'none is configured'}",
                )

    async def _keep(self, run: _Run) -> None:
        """Until its dispatcher ends by itself: it was stopped, or asks for a person."""
        name, deaths = run.subscription.id, 0
        while True:
            begun = self._clock.monotonic()
            run.dispatcher = self._dispatcher(run)
            run.death = ""
            try:
                await run.dispatcher.run()
                return
            except Exception as error:  # noqa: BLE001 - whatever it died of, it is said and begun anew
                deaths = 1 if self._clock.monotonic() - begun > HEALTHY else deaths + 1
                run.restarts += 1
                run.death = _cause(error)
                _log.exception("%s died of %s", name, run.death)
            if run.ending:
                return
            await self._clock.sleep(doubling(FIRST_PAUSE, LONGEST_PAUSE, deaths, self._jitter()))

    def _dispatcher(self, run: _Run) -> Dispatcher:
        subscription = run.subscription
        target = subscription.dead_letter
        return Dispatcher(
            subscription,
            self._logs[subscription.source.broker],
            self._store,
            run.sink,
            self._clock,
            group=group_name(self._installation, subscription.id),
            attempts=run.attempts,
            copies=None if target is None else self._logs[target.broker],
            jitter=self._jitter,
        )

    async def _end(self, run: _Run, drain: float) -> None:
        run.ending = True
        if run.task is not None:
            if self._status(run).state in {"starting", "restarting"}:
                run.task.cancel()
            elif run.dispatcher is not None:
                await run.dispatcher.stop(drain)
            await asyncio.wait((run.task,))
        await run.sink.stop()

    def _status(self, run: _Run) -> SubscriptionStatus:
        if run.dispatcher is None or run.death:
            return SubscriptionStatus(
                subscription=run.subscription.id,
                sink=run.subscription.sink,
                state="restarting" if run.death else "starting",
                cause=run.death,
                restarts=run.restarts,
            )
        return replace(run.dispatcher.status(), restarts=run.restarts)


def _cause(error: BaseException) -> str:
    """The first that went wrong, without the group that carried it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
