"""The end of an object: its subscription is paused, or is deleted after it has delivered."""

from __future__ import annotations

import logging
from typing import Any

from app.errors import SkybridgeError
from app.kubernetes.drain import Drain
from app.kubernetes.key_queue import KeyQueue
from app.kubernetes.known import KnownSubscriptions
from app.kubernetes.names import DRAIN_FINALIZER
from app.kubernetes.outcome import Outcome
from app.kubernetes.reporter import Reporter
from app.kubernetes.writer import SubscriptionWriter

_EVERY = 1.0  # seconds between two looks at an object that waits for its events

_log = logging.getLogger(__name__)


class Endings:
    """The subscriptions whose objects are deleted."""

    def __init__(
        self,
        known: KnownSubscriptions,
        writer: SubscriptionWriter,
        drain: Drain,
        reporter: Reporter,
        queue: KeyQueue,
    ) -> None:
        self._known = known
        self._writer = writer
        self._drain = drain
        self._reporter = reporter
        self._queue = queue
        # the first reading that counts for the end of a subscription, by id
        self._waiting: dict[str, int] = {}

    def forget(self, subscription: str) -> None:
        """Drop the wait for a subscription, whose object was created again."""
        self._waiting.pop(subscription, None)

    async def finish(self, subscription: str) -> None:
        """Delete the subscription of an object that is gone, if the object had to wait for it. Else pause it."""
        if subscription in self._waiting:  # the wait was ended without the admin API
            await self._writer.delete(subscription)
            del self._waiting[subscription]
        await self.keep(subscription)

    async def keep(self, subscription: str) -> None:
        """Pause a subscription whose object is gone. It keeps its position and its events for an object to come."""
        if self._known.own(subscription) is not None and await self._writer.pause(subscription):
            _log.info("%s was paused, because it has no object any more", subscription)

    async def end(self, item: Any, subscription: str) -> None:
        """Delete the subscription of a deleted object as soon as it may go."""
        if DRAIN_FINALIZER not in item["metadata"].get("finalizers", ()):
            return  # another finalizer holds the object; its deletion comes later
        if item["spec"].get("onDelete") != "drain":  # changed at last
            self.forget(subscription)
            # first: its namespace must not wait for the service
            await self._drain.remove_finalizer(item)
            await self.keep(subscription)
            return
        if left := self._what_is_left(item, subscription):
            await self._wait(item, subscription, left)
            return
        is_over = self._drain.is_over(item)
        is_deleted = await self._try_to_delete(subscription, is_over=is_over)
        if is_deleted or is_over:
            await self._drain.remove_finalizer(item)
        if is_deleted:
            self.forget(subscription)

    def _what_is_left(self, item: Any, subscription: str) -> str:
        """Return why the subscription of a deleted object has to stay, or "" if it may go."""
        entry = self._known.own(subscription)
        first = self._waiting.setdefault(subscription, self._known.begun + 1)
        is_new = self._known.complete >= first  # else it may lack events from before the deletion
        is_gone = entry is None and self._known.is_complete
        return "" if is_gone else self._drain.why_not_yet(item, entry, is_new=is_new)

    async def _wait(self, item: Any, subscription: str, left: str) -> None:
        """Report why an object waits, and look at it again soon."""
        message = f"{left}. {self._drain.cure(item)}"
        health = self._known.health(subscription)
        await self._reporter.report(item, Outcome("Draining", message), health)
        named = item["metadata"]
        self._queue.add_later((named["namespace"], named["name"]), _EVERY)
        self._reporter.wanted.set()

    async def _try_to_delete(self, subscription: str, *, is_over: bool) -> bool:
        """Delete a subscription that has delivered everything, or whose wait is over. Return False if the admin API does
        not do it: a namespace must not wait for it longer than for the events."""
        try:
            if not self._known.is_complete:
                return False
            if not is_over and await self._writer.has_parked(subscription):
                return False
            await self._writer.delete(subscription)
        except SkybridgeError as error:
            _log.warning("%s cannot be deleted yet: %s", subscription, error)
            return False
        return True
