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
from app.interfaces import DeadLetterFilter, Log, QueueCount, Store
from app.model.metadata import LogHealth
from app.model.subscription_status import SubscriptionStatus
from app.telemetry import Counters
from app.telemetry.filter_errors import COUNTER

T = TypeVar("T")
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
        shown: Redaction,
    ) -> None:
        self._subscriptions = subscriptions
        self._logs = logs
        self._store = store
        self._counters = counters
        self._shown = shown
        self._letters: Mapping[str, Mapping[str, int]] | None = None
        self._has_asked_for_letters = False

    async def letters(self) -> Mapping[str, Mapping[str, int]] | None:
        """Return the number of dead letters by subscription, then by cause. Return None if the store does not
        answer. The store is asked once."""
        if not self._has_asked_for_letters:
            self._has_asked_for_letters = True
            found = await letters_of(self._store)
            self._letters = None if found is None else _by_subscription_and_cause(found)
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
            lag=(await self._subscriptions.lag()).totals(),
            dead=await self.letters(),
            parked=await parked_of(self._store),
            failed=filter_errors(counts),
            delivered=grouped(counts, "deliveries"),
            answered=grouped(counts, "answers"),
            brokers=await brokers_of(self._logs),
            shown=self._shown,
            queues=await _if_available(self._store.pulled.count_all()),
            growth=self._subscriptions.lag_growth,
            wall=self._store.clock.now(),
        )
        return await slices.each((_view(each, now) for each in states), ROW)


class _Now(NamedTuple):
    """Values that are read once for all subscriptions. ``dead``, ``parked`` and ``queues`` are None if the store
    does not answer."""

    lag: Mapping[str, int | None]
    dead: Mapping[str, Mapping[str, int]] | None
    parked: Mapping[str, ParkedOfSubscription] | None
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
    view = SubscriptionView.of(
        state,
        broker_health=now.brokers.get(state.broker, _UNKNOWN),
        partitions=list(map(str, state.partitions)),
        last_error=_error_text(state.last_status, now.shown.text(state.last_error)),
        lag=_lag_of(now.lag.get(state.group), queue),
        lag_grew=growth.records,
        lag_grows_for=round(growth.seconds, 3),
        queue=queue,
        failing_for=round(state.failing_for, 3),
        parked=_counted(now.parked, state.id, ParkedOfSubscription()),
        dead_letters=_counted(now.dead, state.id, {}),
        delivered=now.delivered.get(state.id, {}).get("delivered", 0),
        answers=now.answered.get(state.id, {}),
        filter_errors=now.failed.get(("subscription", state.id), 0),
    )
    view.attention = list(map(Attention.of, subscription_verdicts(facts_of(view))))
    return view


def _counted(counts: Mapping[str, T] | None, subscription: str, none: T) -> T | None:
    """Return the count of a subscription, or ``none`` if the store has none of it. Return None if all counts are
    unknown."""
    return None if counts is None else counts.get(subscription, none)


def _queue(state: SubscriptionStatus, now: _Now) -> PullQueueView | None:
    """Return the pull queue of a subscription, or None if its sink is another. The number of its events is None if
    the store does not answer."""
    if state.queue_bound is None:
        return None
    count = None if now.queues is None else now.queues.get(state.id)
    if count is None:
        waiting = None if now.queues is None else 0
        return PullQueueView(waiting=waiting, most=state.queue_bound, oldest_seconds=None)
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


def _by_subscription_and_cause(
    letters: Mapping[tuple[str, str], int],
) -> Mapping[str, Mapping[str, int]]:
    """Return the number of dead letters by subscription, then by cause."""
    found: dict[str, dict[str, int]] = {}
    for (owner, cause), count in letters.items():
        found.setdefault(owner, {})[cause] = count
    return found


def _lag_of(lag: int | None, queue: PullQueueView | None) -> int | None:
    """Return the sum of the lag and of the events in the pull queue. Return None if one is unknown, because a
    partial sum would mislead."""
    waiting = 0 if queue is None else queue.waiting
    return None if lag is None or waiting is None else lag + waiting


async def brokers_of(logs: Mapping[str, Log]) -> dict[str, LogHealth]:
    """Return the health of each broker."""
    return {name: await log.health() for name, log in logs.items()}


async def letters_of(store: Store) -> Mapping[tuple[str, str], int] | None:
    """Return the number of dead letters by subscription and cause. Return None if the store does not answer."""
    return await _if_available(store.letters.count(DeadLetterFilter()))


async def parked_of(store: Store) -> Mapping[str, ParkedOfSubscription] | None:
    """Return the parked events by subscription. Return None if the store does not answer."""
    found, now = await _if_available(store.parked.count()), store.clock.now()
    if found is None:
        return None
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


async def _if_available(asked: Awaitable[T]) -> T | None:
    """Return the answer of the store, or None if the store is unavailable. The other parts of a status are then
    still shown, and the caller reports the missing part as unknown."""
    try:
        return await asked
    except StoreUnavailable:
        return None
