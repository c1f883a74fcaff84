"""Where an event goes on from a place: the subscriptions that read there, and what mirrors bring further."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.bindings.record import Decoded, Record
from app.bindings.table import BINDINGS
from app.errors import SenderError
from app.filters.explain import Explainer, FilterVerdict, Work
from app.model.route import Exchange, Target
from app.model.subscription import Subscription
from app.routing.order import lane_words
from app.routing.places import EXCHANGE, compile_place
from app.routing.publications import USUAL, Manner, writing_of

T = TypeVar("T")

Steps = Generator[int | Work, None, T]
"""Yields the number of filters that were evaluated since the last time, or a step for a thread; returns the result."""

HOPS = 8  # mirrors that are followed, one behind the other
FOLLOWED = 256  # and of one place: mirrors that read each other's topics have ways without number


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """A place that the event comes to: by its route, or by the mirror ``by``.

    ``record``         as it is written there by a route; None behind a mirror, which writes it again.
    ``subscriptions``  all that read there, whether they want it or not.
    ``untold``         those of the broker that may read it, where an exchange of RabbitMQ decides that.
    """

    broker: str
    topic: str
    by: str
    key: bytes | None
    record: Record | None = None
    subscriptions: tuple[SubscriptionVerdict, ...] = ()
    untold: tuple[str, ...] = ()


class SubscriptionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """``lane``: what it is in line with there, in words. ``fault``: why what arrives is no event to it, or cannot go on.
    ``onward``: the place a mirror brings it to; None for what is no mirror, or does not want it."""

    id: str
    wants: bool
    sink: str
    lane: str = ""
    filters: tuple[FilterVerdict, ...] = ()
    fault: str = ""
    onward: Hop | None = None


class Follower:
    """Follows an event through the subscriptions in force. ``kinds`` and ``manners``: as ``Router`` takes them.

    ``units``: filters that one event evaluates at most, when every subscription is asked once.
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        kinds: Mapping[str, str],
        manners: Mapping[str, Manner],
    ) -> None:
        self._subscriptions = tuple(subscriptions)
        self._kinds = kinds
        self._manners = manners
        self._explain = {each.id: Explainer(each.filters) for each in subscriptions}
        self.units = sum(1 + each.units for each in self._explain.values())

    def follow(self, broker: str, topic: str, by: str, record: Record) -> Steps[Hop]:
        """Return the place that ``by`` writes the record to, with all that follows."""
        return self._hop(broker, topic, by, record, (), iter(range(FOLLOWED)))

    def _hop(
        self,
        broker: str,
        topic: str,
        by: str,
        record: Record,
        seen: tuple[str, ...],
        turns: Iterator[int],
    ) -> Steps[Hop]:
        """``seen``: the mirrors that led here, so that a circle ends. ``turns``: one for each mirror that may still
        be followed."""
        on_broker = [each for each in self._subscriptions if each.source.broker == broker]
        by_exchange = topic.startswith(EXCHANGE)
        verdicts: list[SubscriptionVerdict] = []
        for each in () if by_exchange else on_broker:
            if topic in each.source.topics:
                verdict = yield from self._subscription(each, record, seen, turns)
                verdicts.append(verdict)
        return Hop(
            broker=broker,
            topic=topic,
            by=by,
            key=record.key,
            record=None if seen else record,
            subscriptions=tuple(verdicts),
            untold=tuple(each.id for each in on_broker) if by_exchange else (),
        )

    def _subscription(
        self,
        subscription: Subscription,
        record: Record,
        seen: tuple[str, ...],
        turns: Iterator[int],
    ) -> Steps[SubscriptionVerdict]:
        """It sees what its broker's binding reads, not what the sender wrote."""
        kind = self._kinds.get(subscription.source.broker, "embedded")
        try:
            decoded = BINDINGS[kind].decode(record)
        except SenderError as error:
            return SubscriptionVerdict(
                id=subscription.id, wants=False, sink=subscription.sink_text, fault=str(error)
            )
        explain_all = self._explain[subscription.id]
        filters = yield from explain_all.steps(decoded.event)
        wants = all(each.passes for each in filters)
        onward, fault = None, ""
        if wants:
            try:
                onward = yield from self._onward(subscription, decoded, record, seen, turns)
            except SenderError as error:
                fault = str(error)
        return SubscriptionVerdict(
            id=subscription.id,
            wants=wants,
            sink=subscription.sink_text,
            lane=lane_words(subscription, decoded.event, record.key),
            filters=filters,
            fault=fault,
            onward=onward,
        )

    def _onward(
        self,
        mirror: Subscription,
        decoded: Decoded,
        record: Record,
        seen: tuple[str, ...],
        turns: Iterator[int],
    ) -> Steps[Hop | None]:
        """A worker never re-keys (K11). Raises SenderError for what cannot be written there."""
        target = mirror.sink
        if not isinstance(target, Target | Exchange) or mirror.id in seen or len(seen) >= HOPS:
            return None
        if next(turns, None) is None:
            return None
        kind = self._kinds.get(target.broker, "embedded")
        topic = compile_place(target, kind)(decoded.event.attributes)
        writing = writing_of(mirror, self._manners.get(target.broker, USUAL))
        written = BINDINGS[kind].encode(decoded, writing, record.key)
        by, seen = f"mirror {mirror.id}", (*seen, mirror.id)
        return (yield from self._hop(target.broker, topic, by, written, seen, turns))
