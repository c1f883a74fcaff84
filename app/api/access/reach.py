"""Decide which subscriptions and topics a caller's token permits. A token with such a limit is called bound.

``demand_path`` checks the objects that the path of a request names, before the body is read. ``reachable_parts``
(``limited_parts``) gives each operation the parts limited to its caller. A request that names another object is
refused with 403. Operations contain no checks of their own, except that ``produce`` and ``test`` check the source of
an event.
"""

from __future__ import annotations

from collections.abc import (
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

from app.access.rights import TokenRestriction
from app.api.access.callers import AdminCaller
from app.api.asked.registry import Registry, SubscriptionEntry
from app.api.asked.subscriptions import Subscriptions
from app.api.http.given import ServiceParts
from app.api.http.problems import RequestRefused
from app.delivery.target_url import is_listed
from app.errors import StoreUnavailable
from app.event.validate import clip
from app.model.outlet import RequestTemplates
from app.model.route import Exchange, Target
from app.model.subscription import IGNORE, Subscription

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
    def owner(self) -> str:
        """Return the owner of the subscriptions that the caller writes, or "" for the API."""
        return self._caller.owner

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
