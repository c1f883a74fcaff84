"""Operator events, and the attempts that the store keeps. Both observe deliveries."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from app.bindings.table import BINDINGS
from app.bindings.transcode import EncodeOptions
from app.config.lint.reach import feeds, may_both_match
from app.config.model.brokers import PulsarBroker
from app.config.model.config import Config
from app.interfaces import Clock, Log, Store
from app.model.route import Exchange, Filter, Target
from app.model.subscription import Subscription
from app.telemetry import Counters
from app.worker.attempt_writer import AttemptWriter
from app.worker.operator_events import OperatorEvents

REMEMBERED = 5.0  # seconds that the readers of the topic are cached, as they change rarely

_OPERATOR_EVENTS = (Filter.model_validate({"prefix": {"type": "dev.skybridge."}}),)


def open_operator_events(
    config: Config,
    logs: Mapping[str, Log],
    clock: Clock,
    counters: Counters,
    subscriptions: Callable[[], Sequence[Subscription]],
) -> OperatorEvents | None:
    """Return the publisher of operator events, or None if they are not configured. ``subscriptions`` is a
    function that returns all subscriptions that exist now."""
    target = config.operator_events
    if target is None:
        return None
    broker = config.brokers[target.broker]
    writing = EncodeOptions()
    if isinstance(broker, PulsarBroker):
        writing = EncodeOptions(names=broker.names, strings=broker.strings)
    return OperatorEvents(
        target,
        logs[target.broker],
        BINDINGS[broker.kind],
        clock,
        counters,
        installation=config.installation,
        writing=writing,
        echoes=Echoes(target, subscriptions, clock),
        jitter=random.random,
    )


def open_keeper(config: Config, store: Store, counters: Counters) -> AttemptWriter:
    """Return the writer of attempts to the store."""
    kept = config.store.attempts
    return AttemptWriter(
        store.attempts,
        store.clock,
        counters,
        keep=kept.keep,
        bodies=kept.bodies,
        bodies_retention=kept.bodies_retention,
        retention=kept.retention,
        most=kept.max_rows,
        jitter=random.random,
    )


class Echoes:
    """A check whether a subscription reads operator events, from their topic or from a topic to which a
    mirror copies them. If that cannot be decided, the answer is True."""

    def __init__(
        self, target: Target, subscriptions: Callable[[], Sequence[Subscription]], clock: Clock
    ) -> None:
        self._target = target
        self._subscriptions = subscriptions
        self._clock = clock
        self._read_at = float("-inf")
        self._readers: frozenset[str] = frozenset()

    def __call__(self, subscription: str) -> bool:
        """Return True if the subscription may read operator events."""
        now = self._clock.monotonic()
        if now - self._read_at >= REMEMBERED:
            self._readers = frozenset(readers(self._target, self._subscriptions()))
            self._read_at = now
        return subscription in self._readers


def readers(target: Target, subscriptions: Sequence[Subscription]) -> set[str]:
    """Return the subscriptions that read operator events from ``target``, directly or through mirrors."""
    found: set[str] = set()
    places: list[tuple[Target | Exchange, Sequence[Filter]]] = [(target, _OPERATOR_EVENTS)]
    while places:
        place, filters = places.pop()
        for each in _reading(place, filters, subscriptions):
            if each.id not in found:
                found.add(each.id)
                if isinstance(each.sink, Target | Exchange):
                    places.append((each.sink, (*each.filters, *_OPERATOR_EVENTS)))
    return found


def _reading(
    place: Target | Exchange, filters: Sequence[Filter], subscriptions: Sequence[Subscription]
) -> Iterator[Subscription]:
    """Yield the subscriptions that read operator events from a topic or exchange. ``filters`` are the filters
    of the mirrors through which the events get there."""
    for each in subscriptions:
        source = each.source
        if (
            source.broker == place.broker
            and any(feeds(place, filters, topic) for topic in source.topics)
            and may_both_match(each.filters, _OPERATOR_EVENTS)
        ):
            yield each
