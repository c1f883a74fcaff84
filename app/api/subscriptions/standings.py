"""Read the status of subscriptions from their workers, their groups, the store and the counters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from app.api.access.redaction import Redaction
from app.api.asked.registry import SubscriptionEntry
from app.api.asked.subscriptions import Subscriptions
from app.api.http.slices import ROW, Slices
from app.api.http.views import Attention
from app.api.subscriptions.answers import (
    ParkedOfSubscription,
    PullQueueView,
    Standing,
    SubscriptionView,
)
from app.api.subscriptions.facts import facts_of
from app.delivery.lag_trend import LagGrowth
from app.delivery.subscription_verdicts import subscription_verdicts
from app.errors import StoreUnavailable
from app.interfaces import Clock, DeadLetterFilter, Log, QueueCount, Store
from app.model.metadata import GroupLag, LogHealth
from app.model.subscription_status import SubscriptionStatus
from app.telemetry import Counters
from app.telemetry.filter_errors import COUNTER

K = TypeVar("K")
V = TypeVar("V")
StandingT = TypeVar("StandingT", bound=Standing)

GroupedCounter = Mapping[str, Mapping[str, int]]
"""The values of a counter by its first label, then by its last label."""


class SubscriptionStatusReader:
    """A reader of the status of subscriptions for one caller. ``logs`` are by name of the broker."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        logs: Mapping[str, Log],
        store: Store,
        counters: Counters,
        clock: Clock,
        shown: Redaction,
    ) -> None:
        self._subscriptions = subscriptions
        self._logs = logs
        self._store = store
        self._counters = counters
        self._clock = clock
        self._shown = shown
        self._letters: Mapping[str, Mapping[str, int]] | None = None

    async def letters(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of dead letters by subscription, then by cause. The store is asked once."""
        if self._letters is None:
            self._letters = _by_subscription_and_cause(await letters_of(self._store))
        return self._letters

    async def one(self, entry: SubscriptionEntry) -> Standing:
        """Return the status of one subscription."""
        states = await self._subscriptions.states([entry])
        (found,) = await self.all([entry], states, Standing, Slices())
        return found

    async def all(
        self,
        entries: Sequence[SubscriptionEntry],
        states: Sequence[SubscriptionStatus],
        kind: type[StandingT],
        slices: Slices,
    ) -> list[StandingT]:
        """Return the status of each entry as ``kind``. ``states`` has the worker's status of each entry, in
        the same order."""
        pairs = zip(entries, await self.views(states, slices), strict=True)
        return await slices.each((kind.of(each, health=health) for each, health in pairs), ROW)

    async def views(
        self, states: Sequence[SubscriptionStatus], slices: Slices
    ) -> list[SubscriptionView]:
        """Return the answer for each of these worker statuses."""
        if not states:
            return []
        counts = self._counters.values()
        now = _Now(
            lag=_by_group(await self._subscriptions.lag()),
            dead=await self.letters(),
            parked=await parked_of(self._store, self._clock),
            failed=filter_errors(counts),
            delivered=grouped(counts, "deliveries"),
            answered=grouped(counts, "answers"),
            brokers=await brokers_of(self._logs),
            shown=self._shown,
            queues=await self._queues(),
            growth=self._subscriptions.lag_growth,
            wall=self._clock.now(),
        )
        return await slices.each((_view(each, now) for each in states), ROW)

    async def _queues(self) -> Mapping[str, QueueCount] | None:
        """Return the number of events in each pull queue. Return None if the store does not answer."""
        try:
            return await self._store.pulled.count_all()
        except StoreUnavailable:
            return None


class _Now(NamedTuple):
    """Values that are read once for all subscriptions."""

    lag: Mapping[str, Sequence[int | None]]
    dead: Mapping[str, Mapping[str, int]]
    parked: Mapping[str, ParkedOfSubscription]
    failed: Mapping[tuple[str, ...], int]
    delivered: GroupedCounter
    answered: GroupedCounter
    brokers: Mapping[str, LogHealth]
    shown: Redaction
    queues: Mapping[str, QueueCount] | None
    growth: Callable[[str], LagGrowth]
    wall: float


_UNKNOWN = LogHealth(healthy=False, cause="the configuration has no such broker")


def _error_text(status: int | None, detail: str) -> str:
    """Return the answer to a failed attempt as text. A caller without the scope ``data`` sees its status."""
    if status is None:
        return detail
    return f"{status} ({detail})" if detail else str(status)


def _view(state: SubscriptionStatus, now: _Now) -> SubscriptionView:
    queue, growth = _queue(state, now), now.growth(state.group)
    is_unknown = queue is not None and now.queues is None
    view = SubscriptionView.of(
        state,
        broker_health=now.brokers.get(state.broker, _UNKNOWN),
        partitions=list(map(str, state.partitions)),
        last_error=_error_text(state.last_status, now.shown.text(state.last_error)),
        lag=None if is_unknown else _lag_of(now.lag.get(state.group, ()), queue),
        lag_grew=growth.records,
        lag_grows_for=round(growth.seconds, 3),
        queue=queue,
        failing_for=round(state.failing_for, 3),
        parked=now.parked.get(state.id, ParkedOfSubscription()),
        dead_letters=now.dead.get(state.id, {}),
        delivered=now.delivered.get(state.id, {}).get("delivered", 0),
        answers=now.answered.get(state.id, {}),
        filter_errors=now.failed.get(("subscription", state.id), 0),
    )
    view.attention = list(map(Attention.of, subscription_verdicts(facts_of(view))))
    return view


def _queue(state: SubscriptionStatus, now: _Now) -> PullQueueView | None:
    """Return the pull queue of a subscription, or None if its sink is another."""
    if state.queue_bound is None:
        return None
    count = None if now.queues is None else now.queues.get(state.id)
    if count is None:
        return PullQueueView(waiting=0, most=state.queue_bound, oldest_seconds=None)
    oldest = max(0.0, round(now.wall - count.oldest_ms / 1000, 3))
    return PullQueueView(waiting=count.rows, most=state.queue_bound, oldest_seconds=oldest)


def grouped(counts: Mapping[str, Mapping[tuple[str, ...], int]], counter: str) -> GroupedCounter:
    """Sum up a counter by its first and last label. All series are read in one pass, because a thousand
    subscriptions may have series of their own."""
    found: dict[str, dict[str, int]] = {}
    for (first, *_, last), count in counts.get(counter, {}).items():
        of_first = found.setdefault(first, {})
        of_first[last] = of_first.get(last, 0) + count
    return found


def filter_errors(
    counts: Mapping[str, Mapping[tuple[str, ...], int]],
) -> Mapping[tuple[str, ...], int]:
    """Return the number of filter errors by kind (``route`` or ``subscription``) and name."""
    return counts.get(COUNTER, {})


def _by_group(lag: Sequence[GroupLag]) -> Mapping[str, Sequence[int | None]]:
    """Return the lag of each partition by group."""
    found: dict[str, list[int | None]] = {}
    for each in lag:
        found.setdefault(each.group, []).append(each.lag)
    return found


def _by_subscription_and_cause(
    letters: Mapping[tuple[str, str], int],
) -> Mapping[str, Mapping[str, int]]:
    """Return the number of dead letters by subscription, then by cause."""
    found: dict[str, dict[str, int]] = {}
    for (owner, cause), count in letters.items():
        found.setdefault(owner, {})[cause] = count
    return found


def _lag_of(partitions: Sequence[int | None], queue: PullQueueView | None) -> int | None:
    """Return the sum of the lags and of the events in the pull queue. Return None if one is unknown, because a
    partial sum would mislead."""
    known = [count for count in partitions if count is not None]
    if not known or len(known) != len(partitions):
        return None
    return sum(known) + (0 if queue is None else queue.waiting)


async def brokers_of(logs: Mapping[str, Log]) -> dict[str, LogHealth]:
    """Return the health of each broker."""
    return {name: await log.health() for name, log in logs.items()}


async def letters_of(store: Store) -> Mapping[tuple[str, str], int]:
    """Return the number of dead letters by subscription and cause. It is empty if the store does not answer,
    so that the other parts of the status are shown."""
    return await _or_empty(store.letters.count(DeadLetterFilter()))


async def parked_of(store: Store, clock: Clock) -> Mapping[str, ParkedOfSubscription]:
    """Return the parked events by subscription. It is empty if the store does not answer."""
    found, now = await _or_empty(store.parked.count()), clock.now()
    return {
        name: ParkedOfSubscription(
            rows=each.rows,
            keys=each.keys,
            keyless=each.keyless,
            redriven=each.redriven,
            oldest_seconds=max(0.0, round(now - each.oldest_ms / 1000, 3)),
        )
        for name, each in found.items()
    }


async def _or_empty(asked: Awaitable[Mapping[K, V]]) -> Mapping[K, V]:
    """Return the mapping that the store returns, or an empty mapping if the store is unavailable."""
    try:
        return await asked
    except StoreUnavailable:
        return {}
