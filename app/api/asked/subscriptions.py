"""The protocol through which the API reads the declared subscriptions and their state in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from app.api.asked.registry import SubscriptionEntry
from app.delivery.lag_trend import LagGrowth
from app.interfaces import Attempt, Halt, WaitingEvent
from app.model.metadata import Lags
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus


class Subscriptions(Protocol):
    """The declared subscriptions and the state of those that this process runs."""

    async def declared(self) -> Sequence[Subscription]:
        """Return every declared subscription, including those that this process does not run."""

    def halts(self) -> Mapping[str, Halt]:
        """Return the subscriptions that deliver nothing, each with the reason, by id. The result is that of
        the last call of ``declared``."""

    def groups(self, broker: str, topic: str) -> Mapping[str, str]:
        """Return the groups that read a topic, each with the id of its subscription."""

    async def lag(self) -> Lags:
        """Return the lag of every group."""

    def lag_growth(self, group: str) -> LagGrowth:
        """Return how the lag of a group has grown, according to the calls of ``lag``."""

    async def statuses(self) -> Sequence[SubscriptionStatus]:
        """Return the status of each subscription that this process runs."""

    async def states(self, entries: Sequence[SubscriptionEntry]) -> list[SubscriptionStatus]:
        """Return one status for each entry. It is ``broken`` if the subscription cannot run, and
        ``elsewhere`` if another process runs it."""

    def attempts(self, subscription: str | None, limit: int) -> Iterable[Attempt]:
        """Return delivery attempts that this process remembers, the newest first. ``subscription`` is an id,
        or None for all subscriptions. Each attempt is created only when the iterator reaches it."""

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[WaitingEvent]:
        """Return events with this id that this process holds and has not yet tried to deliver.
        ``subscription`` is an id, or None for all subscriptions."""
