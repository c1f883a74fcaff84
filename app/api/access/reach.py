"""Limit the parts of a service to the subscriptions and topics that a bound token reaches.

``demand_path`` checks what the path of a request names, before the body is read. ``reachable_parts`` gives each
operation the parts limited to its caller. Lists and counts leave out everything else, and naming something
else is a 403. No operation checks this by itself, except that ``produce`` and ``test`` check the source of an
event.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, TypeGuard, TypeVar, cast

from msgspec.structs import replace

from app.access.rights import UNBOUND, TokenRestriction
from app.api.access.callers import AdminCaller
from app.api.asked.brokers import Brokers
from app.api.asked.readiness import ReadinessSource
from app.api.asked.registry import Document, Registry, SubscriptionEntry
from app.api.asked.subscriptions import Subscriptions
from app.api.http.given import ServiceParts
from app.api.http.problems import RequestRefused
from app.delivery.target_url import is_listed
from app.errors import BrokerRefused, StoreUnavailable
from app.event.validate import clip
from app.interfaces import (
    Attempt,
    AttemptFilter,
    DeadLetterFilter,
    Located,
    Log,
    Parked,
    ParkedCount,
    ParkedKey,
    PullMessage,
    QueueCount,
    Store,
    WaitingEvent,
)
from app.model.message import Message, Partition
from app.model.metadata import LogMetadata
from app.model.outlet import RequestTemplates
from app.model.route import Exchange, Target
from app.model.subscription import IGNORE, Subscription
from app.model.subscription_status import SubscriptionStatus
from app.telemetry import Counters

T = TypeVar("T")

Sources = Mapping[str, tuple[str, Sequence[str]]]
"""Broker and topics of each subscription, by subscription id."""


class OutsideBinding(RequestRefused):
    """A refusal with 403: the token is bound and does not reach what the request names."""

    def __init__(self, caller: AdminCaller, what: str) -> None:
        detail = f"the token {caller.name} is bound to {caller.binding}: {what}"
        super().__init__(403, "outside-binding", detail)


class Reach:
    """The subscriptions and topics that one caller reaches. A caller reaches a subscription if the binding
    has its id and every topic that it reads."""

    def __init__(self, caller: AdminCaller, sources: Sources) -> None:
        self._caller = caller
        self._binding: TokenRestriction = caller.binding
        self._sources = sources

    @property
    def is_bound(self) -> bool:
        """Return True if the caller's token is limited to some subscriptions or topics."""
        return self._binding.is_bound

    @property
    def known(self) -> tuple[str, ...]:
        """Return the ids of the existing subscriptions that the caller reaches."""
        return tuple(filter(self.subscription, self._sources))

    @property
    def hidden(self) -> frozenset[str]:
        """Return the ids of the existing subscriptions that the caller does not reach."""
        return frozenset(self._sources) - frozenset(self.known)

    def subscription(self, name: str) -> bool:
        """Return True if the caller reaches the subscription. A deleted subscription is out of reach if the
        binding limits topics, because its topics are unknown."""
        if not self._binding.subscription(name):
            return False
        known = self._sources.get(name)
        if known is None:
            return self._binding.topics is None
        broker, topics = known
        return all(self._binding.topic(broker, each) for each in topics)

    def topic(self, broker: str, name: str) -> bool:
        """Return True if the caller reaches the topic."""
        return self._binding.topic(broker, name)

    def demand_subscriptions(self, *names: str) -> None:
        """Raise OutsideBinding unless the caller reaches all these subscriptions. An id that does not exist
        passes if the binding has it; the operation handles that case."""
        for name in names:
            is_known = name in self._sources
            if not (self.subscription(name) if is_known else self._binding.subscription(name)):
                raise OutsideBinding(self._caller, f"subscription {name[:127]} is not included")

    def demand_topic(self, broker: str, name: str) -> None:
        """Raise OutsideBinding unless the caller reaches the topic."""
        if not self.topic(broker, name):
            what = f"topic {name[:127]} of broker {broker[:127]} is not included"
            raise OutsideBinding(self._caller, what)

    def demand_document(self, wanted: Subscription, before: Subscription | None) -> None:
        """Check a new or changed subscription against the limits of the caller.

        Args:
            wanted: The subscription after the change.
            before: The subscription that ``wanted`` replaces, or None.

        Raises:
            OutsideBinding: The subscription reads or writes beyond the binding.
            Refused: The caller may not choose this target.
        """
        binding = self._binding
        if not binding.subscription(wanted.id):
            what = f"subscription {wanted.id[:127]} is not included. Choose an id that is"
            raise OutsideBinding(self._caller, what)
        for topic in wanted.source.topics:
            self.demand_topic(wanted.source.broker, topic)
        for place in _published_targets(wanted):
            self.demand_topic(place.broker, place.place)
        sends = binding.topics is not None or binding.event_sources is not None
        if sends and wanted.reply != IGNORE:
            what = "reply publishes events of any source from the target's answers, by a route"
            raise OutsideBinding(self._caller, what)
        if before is None or _delivery_settings(before) != _delivery_settings(wanted):
            self._demand_target(wanted, before)

    def _demand_target(self, wanted: Subscription, before: Subscription | None) -> None:
        targets = self._caller.targets
        if targets is None:
            return
        copies = wanted.dead_letter is not None and (
            before is None or wanted.dead_letter != before.dead_letter
        )
        if copies or not wanted.webhook_url or not is_listed(targets, _reached(wanted)):
            raise RequestRefused(
                403,
                "target-not-configurable",
                f"the token {self._caller.name} has no scope data, so its subscriptions may send only to"
                f" webhooks.configurable_targets: {', '.join(targets) or 'none'}",
            )


def _reached(subscription: Subscription) -> str:
    """Return the URL of a webhook; with a path that ``request`` appends, a URL below that one."""
    url = subscription.webhook_url
    request = subscription.request
    if request is None or (isinstance(request, RequestTemplates) and not request.path):
        return url
    return url.partition("?")[0].rstrip("/") + "/-"


def _published_targets(subscription: Subscription) -> Iterator[Target | Exchange]:
    """Yield the topics or exchanges to which a subscription publishes: its sink and its dead-letter topic."""
    if isinstance(subscription.sink, Target | Exchange):
        yield subscription.sink
    if subscription.dead_letter is not None:
        yield subscription.dead_letter


def _delivery_settings(subscription: Subscription) -> tuple[object, ...]:
    """Return the settings that decide which events a subscription delivers where."""
    source, filters = subscription.source, subscription.filters
    return source, filters, subscription.sink, subscription.dead_letter


async def _sources(subscriptions: Subscriptions, registry: Registry) -> Sources:
    """Return the broker and topics of each subscription. Subscriptions that cannot run are included, unless
    the store does not answer."""
    declared = await subscriptions.declared()
    found = {each.id: (each.source.broker, each.source.topics) for each in declared}
    try:
        entries = await registry.entries()
    except StoreUnavailable:
        return found
    return {each.id: _source_of_document(each) for each in entries if each.id not in found} | found


def _source_of_document(entry: SubscriptionEntry) -> tuple[str, Sequence[str]]:
    """Return the broker and topics that a document names. A document that cannot be parsed yields an empty
    topic, which no binding of topics includes."""
    source = entry.document.get("source")
    read: Mapping[str, Any] = source if isinstance(source, Mapping) else {}
    topics = read.get("topics")
    if not isinstance(topics, list) or not topics:
        return "", ("",)
    return str(read.get("broker")), list(map(str, topics))


async def reach_of(given: ServiceParts, caller: AdminCaller) -> Reach:
    """Return the reach of a caller. For a caller that is not bound, the subscriptions are not read."""
    if not caller.binding.is_bound:
        return Reach(caller, {})
    return Reach(caller, await _sources(given.of(Subscriptions), given.of(Registry)))


async def demand_path(
    given: ServiceParts,
    caller: AdminCaller,
    operation: str,
    named: Mapping[str, Any],
    *,
    whole: bool,
) -> None:
    """Raise OutsideBinding unless the caller reaches what the path of its request names.

    ``named`` has the parameters of the path. With ``whole``, the operation applies to the whole service,
    which no bound caller reaches.
    """
    if not caller.binding.is_bound:
        return
    if whole:
        raise OutsideBinding(caller, f"{operation} is about the whole service")
    if "topic" in named:
        (await reach_of(given, caller)).demand_topic(named["broker"], named["topic"])
    elif name := named.get("id") or named.get("name"):
        (await reach_of(given, caller)).demand_subscriptions(name)


def demand_source(caller: AdminCaller, source: str | None) -> None:
    """Raise OutsideBinding unless the caller may publish an event of this source. None means that the source
    cannot be read."""
    if not caller.binding.event_source(source or ""):
        what = (
            f"an event of source {clip(source)}"
            if source
            else "an event whose source cannot be read"
        )
        raise OutsideBinding(caller, f"{what} is not included")


class ReachableParts:
    """The parts of a service, limited to what one caller reaches. ``reach`` is None for a caller without
    limits."""

    def __init__(self, given: ServiceParts, reach: Reach | None) -> None:
        self._given = given
        self._reach = reach

    def of(self, kind: type[T]) -> T:
        """Return the part of a kind, limited to what the caller reaches. Raise LookupError if there is none."""
        part, reach = self._given.of(kind), self._reach
        if reach is None:
            return part
        view = (_OF_BOUND if reach.is_bound else _OF_ANY).get(kind)
        return part if view is None else cast("T", view(part, reach))


async def reachable_parts(given: ServiceParts, caller: AdminCaller | None) -> ReachableParts:
    """Return the parts of the service, limited to the caller. None is a caller without a token, whom only
    probes and the login answer."""
    return ReachableParts(given, await reach_of(given, caller) if _is_limited(caller) else None)


def _is_limited(caller: AdminCaller | None) -> TypeGuard[AdminCaller]:
    return caller is not None and (caller.binding != UNBOUND or caller.targets is not None)


class _LimitedView:
    """A limited view of a part. A subclass replaces the limited methods; all others are those of the part."""

    def __init__(self, whole: Any, reach: Reach) -> None:
        self._whole = whole
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class BrokersWithin(_LimitedView):
    """The brokers of the configuration, with logs that are limited to the topics that the caller reaches."""

    @property
    def logs(self) -> Mapping[str, Any]:
        return {name: LogWithin(log, self._reach) for name, log in self._whole.logs.items()}


class ReadinessWithin(_LimitedView):
    """The readiness of each role, without its causes."""

    async def readiness(self) -> Mapping[str, Any]:
        """Return the readiness of each role without the causes, which name subscriptions and topics."""
        found = await self._whole.readiness()
        return {role: each.model_copy(update={"causes": []}) for role, each in found.items()}


class SubscriptionsWithin(_LimitedView):
    """The declared subscriptions and their state, limited to those that the caller reaches."""

    def groups(self, broker: str, topic: str) -> Mapping[str, str]:
        found: Mapping[str, str] = self._whole.groups(broker, topic)
        return {group: name for group, name in found.items() if self._reach.subscription(name)}

    async def declared(self) -> Sequence[Subscription]:
        return [each for each in await self._whole.declared() if self._reach.subscription(each.id)]

    async def statuses(self) -> Sequence[SubscriptionStatus]:
        return [each for each in await self._whole.statuses() if self._reach.subscription(each.id)]

    def attempts(self, subscription: str | None, limit: int) -> Iterable[Attempt]:
        found = self._whole.attempts(subscription, limit)
        return (each for each in found if self._reach.subscription(each.subscription))

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[WaitingEvent]:
        return _reachable(self._reach, self._whole.waiting(subscription, event_id))


def _reachable(reach: Reach, found: Sequence[Any]) -> list[Any]:
    """Return the items whose subscription the caller reaches."""
    return [each for each in found if reach.subscription(each.subscription)]


class RegistryWithin(_LimitedView):
    """A registry of subscriptions that shows and changes only what the caller reaches."""

    async def entries(self) -> list[SubscriptionEntry]:
        return [each for each in await self._whole.entries() if self._reach.subscription(each.id)]

    async def make(self, document: Document) -> SubscriptionEntry:
        if isinstance(name := document.get("id", ""), str):
            self._reach.demand_subscriptions(name)
        made: SubscriptionEntry = await self._whole.make(document, self._reach.demand_document)
        return made

    async def change(self, entry: SubscriptionEntry, document: Document) -> SubscriptionEntry:
        demand = self._reach.demand_document
        changed: SubscriptionEntry = await self._whole.change(entry, document, demand)
        return changed


class CountersWithin(_LimitedView):
    """The metrics without the series of subscriptions that the caller does not reach."""

    def values(self) -> Mapping[str, Mapping[tuple[str, ...], int]]:
        hidden = self._reach.hidden
        return {
            name: {labels: n for labels, n in series.items() if hidden.isdisjoint(labels)}
            for name, series in self._whole.values().items()
        }


class LogWithin(_LimitedView):
    """A log that shows only the topics that the caller reaches."""

    _whole: Log

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: Sequence[str] = ()
    ) -> LogMetadata:
        """Return the metadata of the topics that the caller reaches.

        Raises:
            BrokerRefused: One topic alone was requested, and the caller does not reach it. A search then
                reports that it did not search this topic.
        """
        if topics is not None and len(topics) == 1 and not self._has(topics[0]):
            what = f"the token is bound, and topic {topics[0][:127]} is not included"
            raise BrokerRefused(what, kind="not-authorised", broker=self._whole.name)
        asked = topics if topics is None else [each for each in topics if self._has(each)]
        found = await self._whole.metadata(asked, groups)
        return replace(found, topics=tuple(each for each in found.topics if self._has(each.name)))

    def read(
        self, partition: Partition, start: str, until: str | None = None
    ) -> AsyncGenerator[Message, None]:
        self._reach.demand_topic(self._whole.name, partition.topic)
        return self._whole.read(partition, start, until)

    async def locate(self, event_id: str, source: str | None, since_ms: int) -> Located | None:
        found = await self._whole.locate(event_id, source, since_ms)
        if found is None:
            return None
        return replace(
            found, places=tuple(each for each in found.places if self._has(each[0].topic))
        )

    def _has(self, topic: str) -> bool:
        return self._reach.topic(self._whole.name, topic)


class StoreWithin(_LimitedView):
    """A store whose dead letters, parked messages, attempts and pull queues are limited to the caller's
    subscriptions. Other tables are read by the id of a subscription, which ``demand_path`` has checked."""

    def __init__(self, whole: Store, reach: Reach) -> None:
        super().__init__(whole, reach)
        self.letters = LettersWithin(whole.letters, reach)
        self.parked = ParkedWithin(whole.parked, reach)
        self.attempts = AttemptsWithin(whole.attempts, reach)
        self.pulled = PulledWithin(whole.pulled, reach)


def _limited_method(verb: str, nothing: Callable[[], Any]) -> Any:
    """Return a method of ``LettersWithin`` that limits its choice to subscriptions that the caller reaches.

    Args:
        verb: The method of the whole store to call.
        nothing: A function that makes the answer if the caller reaches none of the chosen subscriptions.
    """

    async def asked(
        self: LettersWithin, choice: DeadLetterFilter, *more: Any, **others: Any
    ) -> Any:
        narrowed = await self._narrowed(choice)
        if narrowed is None:
            return nothing()
        return await getattr(self._whole, verb)(narrowed, *more, **others)

    return asked


class LettersWithin(_LimitedView):
    """The dead letters of the subscriptions that the caller reaches."""

    find = _limited_method("find", list)
    count = _limited_method("count", dict)
    count_over_time = _limited_method("count_over_time", dict)
    discard = _limited_method("discard", int)
    redrive = _limited_method("redrive", int)

    async def _narrowed(self, choice: DeadLetterFilter) -> DeadLetterFilter | None:
        """Return the choice limited to subscriptions that the caller reaches, or None if it reaches none.

        Raises:
            OutsideBinding: The choice names a subscription beyond the reach, directly or by the id of one
                dead letter.
        """
        self._reach.demand_subscriptions(
            *choice.subscriptions, *filter(None, [choice.subscription])
        )
        if choice.subscriptions or choice.subscription:
            named = choice.subscriptions or (choice.subscription,)
        else:
            named = tuple({name for name, _ in await self._whole.count(choice)})
            if len(choice.ids) == 1:
                self._reach.demand_subscriptions(*named)
        within = tuple(name for name in named if name and self._reach.subscription(name))
        return replace(choice, subscriptions=within) if within else None


class ParkedWithin(_LimitedView):
    """The parked messages of the subscriptions that the caller reaches."""

    async def count(self) -> Mapping[str, ParkedCount]:
        found = await self._whole.count()
        return {name: each for name, each in found.items() if self._reach.subscription(name)}

    async def find(
        self,
        subscription: str | None = None,
        limit: int = 100,
        after: int = 0,
        event_id: str | None = None,
    ) -> list[Parked]:
        found: list[Parked] = []
        for name in await self._names(subscription):
            found += await self._whole.find(name, limit, after, event_id)
        return sorted(found, key=lambda each: each.id)[:limit]

    async def keys(self, subscription: str | None = None, limit: int = 100) -> list[ParkedKey]:
        found: list[ParkedKey] = []
        for name in await self._names(subscription):
            found += await self._whole.keys(name, limit)
        return sorted(found, key=lambda each: each.oldest.id)[:limit]

    async def _names(self, subscription: str | None) -> Collection[str]:
        if subscription is None:
            return await self.count()
        self._reach.demand_subscriptions(subscription)
        return [subscription] if self._reach.subscription(subscription) else ()


class AttemptsWithin(_LimitedView):
    """The attempts of the subscriptions that the caller reaches."""

    async def find(self, choice: AttemptFilter, limit: int = 100) -> list[Attempt]:
        if choice.subscription is not None:
            self._reach.demand_subscriptions(choice.subscription)
        named = [choice.subscription] if choice.subscription else self._reach.known
        within = tuple(filter(self._reach.subscription, named))
        if not within:
            return []
        found: list[Attempt] = await self._whole.find(replace(choice, subscriptions=within), limit)
        return found


class PulledWithin(_LimitedView):
    """The pull queues of the subscriptions that the caller reaches."""

    async def count_all(self) -> Mapping[str, QueueCount]:
        found: Mapping[str, QueueCount] = await self._whole.count_all()
        return {name: each for name, each in found.items() if self._reach.subscription(name)}

    async def named(self, event_id: str, most: int) -> list[PullMessage]:
        return _reachable(self._reach, await self._whole.named(event_id, most))


_OF_ANY: Mapping[type[Any], type[_LimitedView]] = {Registry: RegistryWithin}
_OF_BOUND: Mapping[type[Any], type[_LimitedView]] = {
    **_OF_ANY,
    Brokers: BrokersWithin,
    Counters: CountersWithin,
    ReadinessSource: ReadinessWithin,
    Store: StoreWithin,
    Subscriptions: SubscriptionsWithin,
}
"""The view of each kind of part for a bound caller. Other kinds are not limited. A caller that is not bound
has a limited Registry alone, because its choice of targets may be limited."""
