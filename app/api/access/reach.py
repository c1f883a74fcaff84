"""Limit the parts of a service to the subscriptions and topics that a caller's token permits. A token with
such a limit is called bound.

``demand_path`` checks the objects that the path of a request names, before the body is read.
``reachable_parts`` gives each operation the parts limited to its caller. Lists and counts leave out all other
objects. A request that names another object is refused with 403. Operations contain no checks of their own,
except that ``produce`` and ``test`` check the source of an event.
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
from app.api.asked.alerts import Alerting, AlertView
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
"""The broker and the topics that each subscription reads, by subscription id."""


class OutsideBinding(RequestRefused):
    """A refusal with 403: the request names a subscription or topic that the token does not permit."""

    def __init__(self, caller: AdminCaller, what: str) -> None:
        detail = f"the token {caller.name} is bound to {caller.binding}: {what}"
        super().__init__(403, "outside-binding", detail)


class Reach:
    """The subscriptions and topics that one caller may access. A caller may access a subscription if its
    token permits the id and every topic that the subscription reads."""

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
        """Return the ids of the existing subscriptions that the caller may access."""
        return tuple(filter(self.subscription, self._sources))

    @property
    def hidden(self) -> frozenset[str]:
        """Return the ids of the existing subscriptions that the caller may not access."""
        return frozenset(self._sources) - frozenset(self.known)

    def subscription(self, name: str) -> bool:
        """Return True if the caller may access the subscription. The result is False for a deleted
        subscription if the token limits topics, because the topics of the subscription are unknown."""
        if not self._binding.subscription(name):
            return False
        known = self._sources.get(name)
        if known is None:
            return self._binding.topics is None
        broker, topics = known
        return all(self._binding.topic(broker, each) for each in topics)

    def topic(self, broker: str, name: str) -> bool:
        """Return True if the caller may access the topic."""
        return self._binding.topic(broker, name)

    def demand_subscriptions(self, *names: str) -> None:
        """Raise OutsideBinding unless the caller may access all these subscriptions. An id that does not
        exist passes if the token permits it; the operation then reports that it does not exist."""
        for name in names:
            is_known = name in self._sources
            if not (self.subscription(name) if is_known else self._binding.subscription(name)):
                raise OutsideBinding(self._caller, f"subscription {name[:127]} is not included")

    def demand_topic(self, broker: str, name: str) -> None:
        """Raise OutsideBinding unless the caller may access the topic."""
        if not self.topic(broker, name):
            what = f"topic {name[:127]} of broker {broker[:127]} is not included"
            raise OutsideBinding(self._caller, what)

    def demand_document(self, wanted: Subscription, before: Subscription | None) -> None:
        """Check a new or changed subscription against the limits of the caller.

        Args:
            wanted: The subscription after the change.
            before: The subscription that ``wanted`` replaces, or None.

        Raises:
            OutsideBinding: The subscription reads or writes a topic that the token does not permit.
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
    """Return the URL to which a webhook subscription sends. If the setting ``request`` appends a path, return
    a URL below the configured one."""
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
    """Return the settings that decide which events a subscription delivers and where."""
    source, filters = subscription.source, subscription.filters
    return source, filters, subscription.sink, subscription.dead_letter


async def _sources(subscriptions: Subscriptions, registry: Registry) -> Sources:
    """Return the broker and topics of each subscription. Subscriptions that cannot run are included, but if
    the store does not answer, they are left out."""
    declared = await subscriptions.declared()
    found = {each.id: (each.source.broker, each.source.topics) for each in declared}
    try:
        entries = await registry.entries()
    except StoreUnavailable:
        return found
    return {each.id: _source_of_document(each) for each in entries if each.id not in found} | found


def _source_of_document(entry: SubscriptionEntry) -> tuple[str, Sequence[str]]:
    """Return the broker and topics that the document of a subscription names. A document that cannot be
    parsed yields an empty topic, which no token with limited topics permits."""
    source = entry.document.get("source")
    read: Mapping[str, Any] = source if isinstance(source, Mapping) else {}
    topics = read.get("topics")
    if not isinstance(topics, list) or not topics:
        return "", ("",)
    return str(read.get("broker")), list(map(str, topics))


async def reach_of(given: ServiceParts, caller: AdminCaller) -> Reach:
    """Return the subscriptions and topics that a caller may access. If its token has no limits, the
    subscriptions are not read."""
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
    """Raise OutsideBinding unless the caller may access the objects that the path of its request names.

    ``named`` has the parameters of the path. With ``whole``, the operation applies to the whole service, and
    every caller with a bound token is refused.
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
    """The parts of a service, limited to what one caller may access. ``reach`` is None for a caller without
    limits."""

    def __init__(self, given: ServiceParts, reach: Reach | None) -> None:
        self._given = given
        self._reach = reach

    def of(self, kind: type[T]) -> T:
        """Return the part of a kind, limited to what the caller may access. Raise LookupError if the service
        has no such part."""
        part, reach = self._given.of(kind), self._reach
        if reach is None:
            return part
        view = (_OF_BOUND if reach.is_bound else _OF_ANY).get(kind)
        return part if view is None else cast("T", view(part, reach))


async def reachable_parts(given: ServiceParts, caller: AdminCaller | None) -> ReachableParts:
    """Return the parts of the service, limited to the caller. ``caller`` is None for a request without a
    token, which only the probes and the login answer."""
    return ReachableParts(given, await reach_of(given, caller) if _is_limited(caller) else None)


def _is_limited(caller: AdminCaller | None) -> TypeGuard[AdminCaller]:
    return caller is not None and (caller.binding != UNBOUND or caller.targets is not None)


class _LimitedView:
    """A limited view of a part of the service. A subclass replaces the methods that must be limited. All
    other methods are those of the part."""

    def __init__(self, whole: Any, reach: Reach) -> None:
        self._whole = whole
        self._reach = reach

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class AlertingWithin(_LimitedView):
    """The alerts, which are about the whole service."""

    def views(self) -> Sequence[AlertView]:
        """Return no alerts."""
        return ()


class BrokersWithin(_LimitedView):
    """The brokers of the configuration. Their logs are limited to the topics that the caller may access."""

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
    """The declared subscriptions and their state, limited to those that the caller may access."""

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
    """Return the items whose subscription the caller may access."""
    return [each for each in found if reach.subscription(each.subscription)]


class RegistryWithin(_LimitedView):
    """A registry of subscriptions that shows and changes only those that the caller may access."""

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
    """The metrics without the series of subscriptions that the caller may not access."""

    def values(self) -> Mapping[str, Mapping[tuple[str, ...], int]]:
        hidden = self._reach.hidden
        return {
            name: {labels: n for labels, n in series.items() if hidden.isdisjoint(labels)}
            for name, series in self._whole.values().items()
        }


class LogWithin(_LimitedView):
    """A log that shows only the topics that the caller may access."""

    _whole: Log

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: Sequence[str] = ()
    ) -> LogMetadata:
        """Return the metadata of the topics that the caller may access.

        Raises:
            BrokerRefused: One topic alone was requested, and the caller may not access it. A search then
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
    subscriptions. Other tables are read by the id of one subscription, and ``demand_path`` has checked
    this id."""

    def __init__(self, whole: Store, reach: Reach) -> None:
        super().__init__(whole, reach)
        self.letters = LettersWithin(whole.letters, reach)
        self.parked = ParkedWithin(whole.parked, reach)
        self.attempts = AttemptsWithin(whole.attempts, reach)
        self.pulled = PulledWithin(whole.pulled, reach)


def _limited_method(verb: str, nothing: Callable[[], Any]) -> Any:
    """Return a method of ``LettersWithin`` that acts only on dead letters of subscriptions that the caller
    may access.

    Args:
        verb: The method of the whole store to call.
        nothing: A function that makes the answer if the caller may access none of the chosen subscriptions.
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
    """The dead letters of the subscriptions that the caller may access."""

    find = _limited_method("find", list)
    count = _limited_method("count", dict)
    count_over_time = _limited_method("count_over_time", dict)
    discard = _limited_method("discard", int)
    redrive = _limited_method("redrive", int)

    async def _narrowed(self, choice: DeadLetterFilter) -> DeadLetterFilter | None:
        """Return the filter limited to subscriptions that the caller may access, or None if there are none.

        Raises:
            OutsideBinding: The filter names a subscription that the caller may not access, directly or by the
                id of one dead letter.
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
    """The parked messages of the subscriptions that the caller may access."""

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
    """The delivery attempts of the subscriptions that the caller may access."""

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
    """The pull queues of the subscriptions that the caller may access."""

    async def count_all(self) -> Mapping[str, QueueCount]:
        found: Mapping[str, QueueCount] = await self._whole.count_all()
        return {name: each for name, each in found.items() if self._reach.subscription(name)}

    async def named(self, event_id: str, most: int) -> list[PullMessage]:
        return _reachable(self._reach, await self._whole.named(event_id, most))


_OF_ANY: Mapping[type[Any], type[_LimitedView]] = {Registry: RegistryWithin}
_OF_BOUND: Mapping[type[Any], type[_LimitedView]] = {
    **_OF_ANY,
    Alerting: AlertingWithin,
    Brokers: BrokersWithin,
    Counters: CountersWithin,
    ReadinessSource: ReadinessWithin,
    Store: StoreWithin,
    Subscriptions: SubscriptionsWithin,
}
"""The limited view of each kind of part for a caller with a bound token. Parts of other kinds are not
limited. For any other caller only the Registry is limited, because the token may limit the targets of
subscriptions."""
