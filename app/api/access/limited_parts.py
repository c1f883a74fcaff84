"""Limit the parts of a service to what a caller may access. Lists and counts leave out all other objects.

``reachable_parts`` returns the parts for the caller of a request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar, cast

from msgspec.structs import replace

from app.access.rights import UNBOUND
from app.api.access.callers import AdminCaller
from app.api.access.limited_store import StoreWithin
from app.api.access.limited_view import LimitedView, reachable
from app.api.access.reach import Reach, reach_of
from app.api.asked.alerts import Alerting, AlertView
from app.api.asked.brokers import Brokers
from app.api.asked.readiness import ReadinessSource
from app.api.asked.registry import Document, Registry, SubscriptionEntry
from app.api.asked.subscriptions import Subscriptions
from app.api.http.given import ServiceParts
from app.errors import BrokerRefused
from app.interfaces import Attempt, Located, Log, Store, WaitingEvent
from app.model.message import Message, Partition
from app.model.metadata import NO_GROUPS, LogMetadata, ReadTopics
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus
from app.telemetry import Counters

T = TypeVar("T")


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
    if caller is None:
        return False
    return caller.binding != UNBOUND or caller.targets is not None or bool(caller.owner)


class AlertingWithin(LimitedView):
    """The alerts, which are about the whole service."""

    def views(self) -> Sequence[AlertView]:
        """Return no alerts."""
        return ()


class BrokersWithin(LimitedView):
    """The brokers of the configuration. Their logs are limited to the topics that the caller may access."""

    @property
    def logs(self) -> Mapping[str, Any]:
        return {name: LogWithin(log, self._reach) for name, log in self._whole.logs.items()}


class ReadinessWithin(LimitedView):
    """The readiness of each role, without its causes."""

    async def readiness(self) -> Mapping[str, Any]:
        """Return the readiness of each role without the causes, which name subscriptions and topics."""
        found = await self._whole.readiness()
        return {role: each.model_copy(update={"causes": []}) for role, each in found.items()}


class SubscriptionsWithin(LimitedView):
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
        return reachable(self._reach, self._whole.waiting(subscription, event_id))


class RegistryWithin(LimitedView):
    """A registry of subscriptions that shows and changes only those that the caller may access. What the caller
    writes belongs to the owner of its token."""

    async def entries(self) -> list[SubscriptionEntry]:
        return [each for each in await self._whole.entries() if self._reach.subscription(each.id)]

    async def make(self, document: Document) -> SubscriptionEntry:
        if isinstance(name := document.get("id", ""), str):
            self._reach.demand_subscriptions(name)
        demand, owner = self._reach.demand_document, self._reach.owner
        made: SubscriptionEntry = await self._whole.make(document, demand, owner)
        return made

    async def change(self, entry: SubscriptionEntry, document: Document) -> SubscriptionEntry:
        demand, owner = self._reach.demand_document, self._reach.owner
        changed: SubscriptionEntry = await self._whole.change(entry, document, demand, owner)
        return changed

    async def remove(self, entry: SubscriptionEntry) -> None:
        await self._whole.remove(entry, self._reach.owner)


class CountersWithin(LimitedView):
    """The metrics without the series of subscriptions that the caller may not access."""

    def values(self) -> Mapping[str, Mapping[tuple[str, ...], int]]:
        hidden = self._reach.hidden
        return {
            name: {labels: n for labels, n in series.items() if hidden.isdisjoint(labels)}
            for name, series in self._whole.values().items()
        }


class LogWithin(LimitedView):
    """A log that shows only the topics that the caller may access."""

    _whole: Log

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: ReadTopics = NO_GROUPS
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


_OF_ANY: Mapping[type[Any], type[LimitedView]] = {Registry: RegistryWithin}
_OF_BOUND: Mapping[type[Any], type[LimitedView]] = {
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
subscriptions, or have an owner."""
