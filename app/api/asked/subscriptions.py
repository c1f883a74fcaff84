"""The declared subscriptions and what this process runs of them, as the API asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from app.api.asked.registry import Entry
from app.interfaces import Attempt, Halt, Waiting
from app.model.metadata import GroupLag
from app.model.subscription import Subscription
from app.model.subscription_status import SubscriptionStatus


class Subscriptions(Protocol):
    async def declared(self) -> Sequence[Subscription]:
        """Return every subscription, whether this process runs it or not."""

    def halts(self) -> Mapping[str, Halt]:
        """Return why some of them deliver nothing, as of the last ``declared``."""

    def groups(self, broker: str, topic: str) -> Mapping[str, str]:
        """Return the groups of the subscriptions to a topic, each with the id of its subscription."""

    async def lag(self) -> Sequence[GroupLag]:
        """Return the lag of every group; nothing of a broker that cannot be asked now."""

    async def statuses(self) -> Sequence[SubscriptionStatus]:
        """Return the status of each subscription that this process runs."""

    async def states(self, entries: Sequence[Entry]) -> list[SubscriptionStatus]:
        """Return one for each entry: ``broken`` where it cannot run, ``elsewhere`` where another process runs it."""

    def attempts(self, subscription: str | None, limit: int) -> Iterable[Attempt]:
        """Return what this process remembers of one subscription, or all; the newest first. Each is made when it is
        asked for."""

    def waiting(self, subscription: str | None, event_id: str) -> Sequence[Waiting]:
        """Return the events of this id that this process holds and has not tried, for one subscription or all."""
