"""Run one dispatcher per subscription, and restart each one that fails.

``apply`` changes the subscriptions while the supervisor runs. It starts new subscriptions, and ends removed or
changed ones in order. Other subscriptions are not affected."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice
from typing import Any

import msgspec

from app.errors import SetupError, StoreUnavailable
from app.filters.selection import Selection
from app.interfaces import (
    Attempt,
    Clock,
    Command,
    Halt,
    Log,
    Notify,
    RetryRequest,
    Sink,
    Store,
    WaitingEvent,
    notify_nothing,
)
from app.model.pull import Pull
from app.model.spool import group_name, shared_group_name
from app.model.subscription import Subscription
from app.model.subscription_status import PAUSED_BY_CONFIGURATION, SubscriptionStatus
from app.sinks.pull_queue import PullQueueSink, Wakeups
from app.telemetry import Counters
from app.worker.attempts import AttemptLog, OfferLog
from app.worker.budget import Budget
from app.worker.commands import run_command
from app.worker.components import Components
from app.worker.dispatch import Dispatcher
from app.worker.gate import halt_cause
from app.worker.supervised_dispatcher import SupervisedDispatcher, bare_status
from app.worker.suspensions import Suspensions

CHANGE_DRAIN = 5.0  # seconds for attempts on the wire of a subscription that is changed or deleted

_log = logging.getLogger("skybridge.worker")


class Supervisor:
    """Runs the dispatchers of all subscriptions of a worker process.

    Args:
        logs: the logs by broker name.
        kinds: the kind of each broker by name; a broker without a kind is embedded.
        sink_for: makes the sink of a subscription. Each sink has connections of its own, so that a slow target does
            not use the connections of other subscriptions.
    """

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
        kinds: Mapping[str, str] | None = None,
        wakeups: Wakeups | None = None,
        notify: Notify = notify_nothing,
        keep: Callable[[Attempt], None] = lambda _: None,
        jitter: Callable[[], float] = random.random,
        budget: Budget | None = None,
    ) -> None:
        self._logs = logs
        self._store = store
        self._sink_for = sink_for
        self._clock = clock
        self._counters = counters
        self._installation = installation
        self._kinds = kinds or {}
        self._wakeups = wakeups or Wakeups()
        self._notify = notify
        self._keep_attempt = keep
        self._jitter = jitter
        self._budget = budget or Budget()
        self.suspensions = Suspensions(clock)
        self._runs = {each.id: self._run(each, None) for each in subscriptions}
        self._wanted = {each.id: each for each in subscriptions}
        self._broken: dict[str, SubscriptionStatus] = {}
        self._restarted: set[str] = set()
        self._halts: Mapping[str, Halt] = {}
        self._changing: dict[str, asyncio.Lock] = {}
        self._commands: set[asyncio.Task[None]] = set()
        self._retried: frozenset[int] = (
            frozenset()
        )  # ids of the valid commands ``retry`` that were run
        self._leaving = False

    async def start(self) -> None:
        """Start all subscriptions and return at once; ``status`` reports their progress.

        Raises:
            SetupError: a subscription names a broker that is not configured.
        """
        for run in self._runs.values():
            self._check(run.subscription)
        for run in self._runs.values():
            run.begin()

    async def taken(self, broker: str) -> None:
        """Wait until each subscription of this broker has joined its group or has ended."""
        for run in list(self._runs.values()):
            if run.subscription.source.broker == broker:
                await run.taken()

    async def stop(self, drain: float) -> None:
        """Stop all subscriptions at once, each with ``drain`` seconds for its requests in flight."""
        self._leaving = True
        for command in self._commands:
            command.cancel()
        await asyncio.gather(*(self._leave(name, drain) for name in list(self._runs)))

    async def apply(self, subscriptions: Sequence[Subscription]) -> None:
        """Replace the subscriptions by these, and return when every changed one has ended or started.

        It may be called again while it runs. A subscription that cannot be started is reported as broken and does
        not affect others."""
        self._wanted = {each.id: each for each in subscriptions}
        await asyncio.gather(
            *(
                self._change(name)
                for name in {*self._runs, *self._broken, *self._wanted}
                if self._differs(name)
            )
        )

    def renew(
        self,
        sink_for: Callable[[Subscription], Sink],
        restarted: Collection[str],
        bounds: tuple[int, ...],
    ) -> None:
        """Replace the sink factory and the bounds after a change of the configuration.

        Args:
            sink_for: makes the sink of a subscription.
            restarted: ids of subscriptions that the next ``apply`` restarts although their own settings are
                unchanged.
            bounds: arguments of ``Budget.rebound``.
        """
        self._sink_for = sink_for
        self._restarted |= set(restarted)
        self._budget.rebound(*bounds)

    def halt(self, halts: Mapping[str, Halt]) -> None:
        """Pause and resume dispatchers according to the halts that the store has now.

        A dispatcher that received a 410 has halted itself already. A dispatcher that starts reads the store. A halt
        whose row was being written during the read is found by the next call."""
        before, self._halts = self._halts, halts
        for name, run in self._runs.items():
            if run.dispatcher is None:
                continue
            gone = name not in halts and run.dispatcher.disabled
            if halts.get(name) == before.get(name) and not gone:
                continue
            if name in halts:
                run.dispatcher.pause(halt_cause(halts[name]))
            elif run.subscription.paused:
                run.dispatcher.pause(PAUSED_BY_CONFIGURATION)
            else:
                run.dispatcher.enable()

    async def take_commands(self) -> None:
        """Take the pending commands of the running subscriptions from the store, and run each in a task of its own."""
        names = [name for name, run in self._runs.items() if run.begun]
        now_ms = int(self._store.clock.now() * 1000)
        for command in await self._store.commands.take(names, now_ms):
            self._spawn(self._obey(command))
        retries = {each.id: each for each in await self._store.commands.retries(names, now_ms)}
        for number, command in retries.items():
            if number not in self._retried:
                self._spawn(self._retry(command))
        self._retried = self._retried | retries.keys() if retries else frozenset()

    async def look(self) -> None:
        """Let the running dispatchers look for new replays and redriven rows in the store."""
        replayed = {row.subscription for row in await self._store.replays.all()}
        for name, run in self._runs.items():
            if run.dispatcher is not None:
                run.dispatcher.look(replays=name in replayed)

    def status(self, names: Collection[str] | None = None) -> list[SubscriptionStatus]:
        """Return the status of these subscriptions, or of all."""
        return list(self.statuses(names))

    def statuses(self, names: Collection[str] | None = None) -> Iterator[SubscriptionStatus]:
        """Yield the status of these subscriptions, or of all. Each status is made when it is requested."""
        every = [*self._runs, *self._broken] if names is None else names
        runs = [self._runs[name] for name in every if name in self._runs]
        broken = [self._broken[name] for name in every if name in self._broken]
        return chain((run.status() for run in runs), broken)

    def attempts(self, subscription: str | None = None, limit: int = 100) -> list[Attempt]:
        """Return the newest attempts first, of one subscription or of all."""
        return sorted(self.remembered(subscription, limit), key=_newest_first)

    def remembered(self, subscription: str | None, limit: int) -> Iterator[Attempt]:
        """Yield the newest attempts first, in the approximate order of their ends."""
        if subscription is None:
            runs = list(self._runs.values())
        else:
            runs = [self._runs[subscription]] if subscription in self._runs else []
        recent = [run.attempts.recent(limit) for run in runs]
        return islice(merge(*recent, key=_newest_first), limit)

    def waiting(self, subscription: str | None, event_id: str) -> list[WaitingEvent]:
        """Return the untried events with this id that the worker holds, for one subscription or for all."""
        return [
            each
            for name, run in self._runs.items()
            if subscription in {None, name} and run.dispatcher is not None
            for each in run.dispatcher.waiting(event_id)
        ]

    def _run(self, subscription: Subscription, attempts: AttemptLog | None) -> SupervisedDispatcher:
        """Make the runner of a subscription. It keeps ``attempts`` of its predecessor, so that the last error stays
        visible."""
        kind = OfferLog if isinstance(subscription.sink, Pull) else AttemptLog
        return SupervisedDispatcher(
            subscription,
            self._open(subscription),
            attempts
            if type(attempts) is kind
            else kind(subscription.id, self._counters, self._keep_attempt),
            group_name(self._installation, subscription.id),
            self._dispatcher,
            self._clock,
            self._jitter,
            self._wakeups,
        )

    def _differs(self, name: str) -> bool:
        """Return True if the subscription has changed, is to be restarted, or could not be started before."""
        run = self._runs.get(name)
        found = None if run is None else run.subscription
        return name in self._broken or name in self._restarted or found != self._wanted.get(name)

    async def _change(self, name: str) -> None:
        async with self._lock(name):
            run, attempts = self._runs.get(name), None
            if run is not None and self._differs(name):
                await run.end(CHANGE_DRAIN)
                attempts = run.attempts
                del self._runs[name]
            self._broken.pop(name, None)
            self._restarted.discard(name)
            wanted = self._wanted.get(name)
            if wanted is not None and name not in self._runs and not self._leaving:
                self._try(wanted, attempts)

    def _try(self, wanted: Subscription, attempts: AttemptLog | None) -> None:
        try:
            self._check(wanted)
            run = self._runs[wanted.id] = self._run(wanted, attempts)
        except SetupError as error:
            _log.error("%s cannot run: %s", wanted.id, error)
            group = group_name(self._installation, wanted.id)
            self._broken[wanted.id] = bare_status(wanted, group, "broken", str(error))
            self._wakeups.tell(wanted.id)
        else:
            run.begin()

    async def _leave(self, name: str, drain: float) -> None:
        async with self._lock(name):
            if name in self._runs:
                await self._runs[name].end(drain)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._changing.setdefault(name, asyncio.Lock())

    async def _obey(self, command: Command) -> None:
        run = self._runs.get(command.subscription)
        if run is None:  # the subscription ended meanwhile; the API answers that no worker replied
            return
        kind = self._kinds.get(run.subscription.source.broker, "embedded")
        answer = await run_command(command, run.subscription, run.sink, kind, self._clock)
        try:
            await self._store.commands.answer(command.id, answer)
        except StoreUnavailable as error:
            _log.warning("%s: the answer to a command is lost: %s", command.subscription, error)
        else:
            self._wakeups.tell(command.subscription)

    async def _retry(self, command: Command) -> None:
        run = self._runs.get(command.subscription)
        if run is None or run.dispatcher is None:
            return
        request = msgspec.json.decode(command.body, type=RetryRequest)
        try:
            result = await run.dispatcher.retry(request)
            await self._store.commands.add_result(command.id, result)
        except StoreUnavailable as error:
            _log.warning("%s: a retry is lost: %s", command.subscription, error)
        else:
            self._wakeups.tell(command.subscription)

    def _spawn(self, command: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(command)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

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

    def _dispatcher(self, run: SupervisedDispatcher, selection: Selection) -> Dispatcher:
        subscription = run.subscription
        target = subscription.dead_letter
        return Dispatcher(
            Components(
                subscription,
                self._logs[subscription.source.broker],
                self._store,
                run.sink,
                self._clock,
                group=run.group,
                shared_group=self._shared_group(subscription),
                attempts=run.attempts,
                selection=selection,
                kind=self._kinds.get(subscription.source.broker, "embedded"),
                copies=None if target is None else self._logs[target.broker],
                notify=self._notify,
                jitter=self._jitter,
                budget=self._budget,
                suspensions=self.suspensions,
            ),
            run.tell,
        )

    def _shared_group(self, subscription: Subscription) -> str:
        if subscription.sharing == "none":
            return ""
        return shared_group_name(self._installation, subscription.source.topics[0])

    def _open(self, subscription: Subscription) -> Sink:
        """Make the sink of a subscription. A pull queue is a table of the store, so its sink is made here."""
        if not isinstance(subscription.sink, Pull):
            return self._sink_for(subscription)
        bound = subscription.sink.pull.max_waiting
        queue = self._store.pulled
        return PullQueueSink(
            subscription, queue, self._store.clock, self._wakeups, bound, self._jitter
        )


def _newest_first(attempt: Attempt) -> int:
    return -attempt.started_ms
