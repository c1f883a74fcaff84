"""Follow an event from a topic: the subscriptions that read there, and the places to which mirrors copy it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from app.bindings.record import Decoded, Record
from app.bindings.table import BINDINGS
from app.errors import SenderError
from app.event.value import CloudEvent
from app.filters.explain import Explainer, FilterVerdict, Work
from app.model.route import Exchange, Target
from app.model.subscription import Subscription
from app.routing.order import lane_words
from app.routing.places import EXCHANGE, compile_place
from app.routing.publications import DEFAULT_PULSAR_PROFILE, PulsarProfile, encode_options_of

T = TypeVar("T")

Steps = Generator[int | Work, None, T]
"""A generator that yields the units of work done since the last yield, or a long step for another thread.

Its return value is the result.
"""

HOPS = 8  # the most mirrors in a chain that are followed
FOLLOWED = 256  # the most mirrors followed from one place: mirrors that read each other's topics have endless paths


def finish(steps: Steps[T]) -> T:
    """Do all the work of the steps and return their result."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if not isinstance(step, int):
            step()


class JourneyHop(msgspec.Struct, frozen=True, kw_only=True):
    """A place to which an event comes, by its route or by a mirror.

    Attributes:
        broker: The broker.
        topic: The topic, or the place as ``routing.places`` writes it.
        by: The route or mirror that writes the event there.
        key: The record key.
        record: The record as the route writes it. None after a mirror, which encodes the event again.
        subscriptions: All subscriptions that read there, whether they want the event or not.
        untold: Subscriptions that may or may not read the event, because an exchange of RabbitMQ chooses the
            queues.
    """

    broker: str
    topic: str
    by: str
    key: bytes | None
    record: Record | None = None
    subscriptions: tuple[SubscriptionVerdict, ...] = ()
    untold: tuple[str, ...] = ()


class ShapedPreview(msgspec.Struct, frozen=True):
    """The request that a subscription with the setting ``request`` would send, with its secrets hidden."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: str


Preview = Callable[[Subscription, CloudEvent], ShapedPreview | None]
"""A function that returns the shaped request of an event, or None if the subscription sends CloudEvents. It raises
SenderError."""


def no_preview(_subscription: Subscription, _event: CloudEvent) -> ShapedPreview | None:
    """Return None, so that no requests are shown."""
    return None


class SubscriptionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one subscription on an event.

    Attributes:
        id: The subscription.
        wants: True if the event passes all its filters.
        sink: The sink, as text.
        lane: The events with which this event is delivered in order (its lane), in words.
        filters: The verdict of each filter.
        fault: Why the record is no event to the subscription, or cannot be copied. "" if neither is so.
        onward: The place to which a mirror copies the event. None if it does not.
        request: The shaped request to the target. None if the subscription sends CloudEvents.
    """

    id: str
    wants: bool
    sink: str
    lane: str = ""
    filters: tuple[FilterVerdict, ...] = ()
    fault: str = ""
    onward: JourneyHop | None = None
    request: ShapedPreview | None = None


def all_hops(hops: Sequence[JourneyHop]) -> Iterator[JourneyHop]:
    """Yield each place that an event reaches, and the places to which mirrors copy the event from there."""
    for hop in hops:
        yield hop
        for each in hop.subscriptions:
            if each.onward is not None:
                yield from all_hops([each.onward])


class EventFollower:
    """Follows an event through the subscriptions in force.

    Attributes:
        units: The most filters that one event evaluates, if each subscription evaluates the event once.
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        kinds: Mapping[str, str],
        manners: Mapping[str, PulsarProfile],
        preview: Preview = no_preview,
    ) -> None:
        """Create a follower.

        Args:
            subscriptions: The subscriptions in force.
            kinds: The kind of each broker, by name.
            manners: The Pulsar settings of brokers, by name.
            preview: Shapes the request of a subscription.
        """
        self._preview = preview
        self._subscriptions = tuple(subscriptions)
        self._kinds = kinds
        self._manners = manners
        self._explain = {each.id: Explainer(each.filters) for each in subscriptions}
        self.units = sum(1 + each.units for each in self._explain.values())

    def follow(self, broker: str, topic: str, by: str, record: Record) -> Steps[JourneyHop]:
        """Return the place to which ``by`` writes the record, with everything that follows."""
        return self._hop(broker, topic, by, record, (), iter(range(FOLLOWED)))

    def _hop(
        self,
        broker: str,
        topic: str,
        by: str,
        record: Record,
        seen: tuple[str, ...],
        turns: Iterator[int],
    ) -> Steps[JourneyHop]:
        """Return one place with its subscriptions.

        Args:
            broker: The broker of the place.
            topic: The topic.
            by: The route or mirror that writes there.
            record: The record as written there.
            seen: The mirrors that led here, so that a circle ends.
            turns: One item for each mirror that may still be followed.
        """
        on_broker = [each for each in self._subscriptions if each.source.broker == broker]
        by_exchange = topic.startswith(EXCHANGE)
        verdicts: list[SubscriptionVerdict] = []
        for each in () if by_exchange else on_broker:
            if topic in each.source.topics:
                verdict = yield from self._subscription(each, record, seen, turns)
                verdicts.append(verdict)
        return JourneyHop(
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
        """Return the verdict of one subscription, which sees the event as its broker's binding decodes the record."""
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
        onward, request, fault = None, None, ""
        if wants:
            try:
                request = self._preview(subscription, decoded.event)
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
            request=request,
        )

    def _onward(
        self,
        mirror: Subscription,
        decoded: Decoded,
        record: Record,
        seen: tuple[str, ...],
        turns: Iterator[int],
    ) -> Steps[JourneyHop | None]:
        """Return the place to which a mirror copies the event, with the same key. Return None if the mirror is not
        followed.

        Raises SenderError if the event cannot be encoded for that place.
        """
        target = mirror.sink
        if not isinstance(target, Target | Exchange) or mirror.id in seen or len(seen) >= HOPS:
            return None
        if next(turns, None) is None:
            return None
        kind = self._kinds.get(target.broker, "embedded")
        topic = compile_place(target, kind)(decoded.event.attributes)
        writing = encode_options_of(
            mirror, self._manners.get(target.broker, DEFAULT_PULSAR_PROFILE)
        )
        written = BINDINGS[kind].encode(decoded, writing, record.key)
        by, seen = f"mirror {mirror.id}", (*seen, mirror.id)
        return (yield from self._hop(target.broker, topic, by, written, seen, turns))
