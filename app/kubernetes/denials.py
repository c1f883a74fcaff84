"""Subscriptions in force of objects that are not accepted.

Such a subscription stays as it was, as long as its namespace may have it. It is paused if the object is denied, or if the
namespace has lost a right that it needs. It is also paused if its Service can now point to any address. Otherwise a tenant
could keep a lost right by an object that is invalid on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.delivery.target_url import read_url
from app.kubernetes.admin import AdminRefused
from app.kubernetes.known import KnownSubscriptions
from app.kubernetes.namespace import Namespace
from app.kubernetes.outcome import DENIED, NotAccepted, Outcome
from app.kubernetes.writer import SubscriptionWriter
from app.model.secret import HIDDEN
from app.model.subscription import Subscription

_PAUSED = "Until then, its subscription is paused and keeps its position."
_IN_FORCE = frozenset({"Accepted", "CannotRun", "ServiceUnavailable"})
_PLACES = ("id", "source", "sink", "reply", "dead_letter")


class Denials:
    """The subscriptions of objects whose last look did not accept them."""

    def __init__(self, known: KnownSubscriptions, writer: SubscriptionWriter) -> None:
        self._known = known
        self._writer = writer
        self._outcomes: dict[str, Outcome] = {}

    async def judge(self, place: Namespace, subscription: str, outcome: Outcome) -> Outcome:
        """Pause the subscription of an object that is not accepted, if it may not go on. Return the outcome, with the
        pause in its message."""
        self._outcomes.pop(subscription, None)
        if outcome.reason in _IN_FORCE or self._known.own(subscription) is None:
            return outcome
        self._outcomes[subscription] = outcome
        if not self._is_denied(place, subscription, outcome):
            return outcome
        try:
            await self._writer.pause(subscription)
        except AdminRefused as refused:
            return outcome._replace(
                message=f"{outcome.message} Its subscription cannot be paused: {refused}"
            )
        return outcome._replace(message=f"{outcome.message} {_PAUSED}")

    def forget(self, subscription: str) -> None:
        """Drop the outcome of an object that is gone."""
        self._outcomes.pop(subscription, None)

    def is_due(self, place: Namespace, subscription: str) -> bool:
        """Return True if a subscription delivers although it must be paused, for example because a backup of the store
        was restored."""
        outcome = self._outcomes.get(subscription)
        if outcome is None or self._known.is_paused(subscription):
            return False
        return self._is_denied(place, subscription, outcome)

    def _is_denied(self, place: Namespace, subscription: str, outcome: Outcome) -> bool:
        entry = self._known.own(subscription)
        return entry is not None and (
            outcome.reason in DENIED or not _may_go_on(place, entry["document"])
        )


def _may_go_on(place: Namespace, document: Mapping[str, Any]) -> bool:
    """Return True if the namespace may have a stored subscription, as the admin API shows it. A secret URL is hidden, so
    its host is unknown, and the answer is False."""
    try:
        wanted = Subscription.model_validate(_named_places(document))
        place.demand(wanted, own_service=_is_own_service(place.name, wanted.webhook_url))
    except (NotAccepted, ValidationError):
        return False
    return True


def _named_places(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a document that name topics, routes and hosts, without its secrets."""
    found = {name: document[name] for name in _PLACES if name in document}
    auth = document.get("auth", {})
    if auth.get("kind") == "oauth2":
        found["auth"] = {**auth, "client_secret": HIDDEN}
    return found


def _is_own_service(namespace: str, url: str) -> bool:
    """Return True if a URL is one that the operator writes for a Service of the namespace."""
    return bool(url) and read_url(url).host.partition(".")[2] == f"{namespace}.svc"
