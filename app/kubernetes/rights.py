"""The rights of a namespace: topics, routes of replies, and hosts that its subscriptions may name."""

from __future__ import annotations

from collections.abc import Iterator

from app.access.rights import TokenRestriction
from app.config.model.operator import OperatorNamespace
from app.delivery.target_url import is_listed
from app.kubernetes.outcome import NotAccepted
from app.model.route import Exchange, Target
from app.model.subscription import IGNORE, Subscription
from app.model.webhook import OAuth2


class NamespaceRights:
    """The rights of one namespace."""

    def __init__(self, settings: OperatorNamespace) -> None:
        self._settings = settings
        self._topics = TokenRestriction(topics=tuple(settings.topics))

    def demand(self, wanted: Subscription, *, own_service: bool) -> None:
        """Check what a subscription names.

        Args:
            wanted: The subscription of an object of the namespace.
            own_service: Whether its target is a Service of the namespace, which needs no entry.

        Raises:
            NotAccepted: The subscription names something that the namespace may not.
        """
        faults = [*self._topic_faults(wanted), *self._host_faults(wanted, own_service=own_service)]
        if wanted.reply not in (IGNORE, *self._settings.reply_routes):
            faults.append(f"the route {wanted.reply} for reply")
        if faults:
            raise NotAccepted(
                "NotAllowed",
                f"The namespace {self._settings.name} may not name {', '.join(faults)}. Cure: ask who runs "
                "Skybridge; its setting operator.namespaces lists what a namespace may name.",
            )

    @property
    def most(self) -> int | None:
        """Return how many subscriptions the namespace may have, or None if only ``limits.subscriptions`` counts."""
        return self._settings.subscriptions

    def demand_room(self, others: int) -> None:
        """Raise NotAccepted if the namespace has as many other subscriptions as it may."""
        if self.most is not None and others >= self.most:
            raise NotAccepted(
                "LimitReached",
                f"The namespace {self._settings.name} has {others} subscriptions, and operator.namespaces allows "
                f"{self.most}. Those of deleted objects with onDelete: keep count too. Cure: ask who runs Skybridge to "
                "delete one of these, or to allow more.",
            )

    def _topic_faults(self, wanted: Subscription) -> Iterator[str]:
        for topic in wanted.source.topics:
            yield from self._topic(wanted.source.broker, topic)
        for place in (wanted.sink, wanted.dead_letter):
            if isinstance(place, Target | Exchange):
                yield from self._topic(place.broker, place.place)

    def _topic(self, broker: str, topic: str) -> Iterator[str]:
        if not self._topics.topic(broker, topic):
            yield f"the topic {topic} of broker {broker}"

    def _host_faults(self, wanted: Subscription, *, own_service: bool) -> Iterator[str]:
        if wanted.webhook_url and not own_service and not self._host(wanted.webhook_url):
            yield "the host of the sink"
        if isinstance(wanted.auth, OAuth2) and not self._host(wanted.auth.token_endpoint):
            yield "the host of auth.token_endpoint"

    def _host(self, url: str) -> bool:
        try:
            return is_listed(self._settings.hosts, url)
        except ValueError:  # the admin API would refuse the URL
            return False
