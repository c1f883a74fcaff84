"""Subscriptions of objects whose namespace is not listed any more. They are paused, and their objects are released."""

from __future__ import annotations

import logging

from app.errors import SkybridgeError
from app.kubernetes.drain import Drain
from app.kubernetes.known import KnownSubscriptions
from app.kubernetes.writer import SubscriptionWriter

_log = logging.getLogger(__name__)


class Unlisted:
    """The subscriptions that were paused, because their namespace is not listed."""

    def __init__(self, known: KnownSubscriptions, writer: SubscriptionWriter, drain: Drain) -> None:
        self._known = known
        self._writer = writer
        self._drain = drain
        self._paused: set[str] = set()

    async def pause(self, subscription: str) -> None:
        """Pause a subscription and release its object, once. Pause it again if a restored backup of the store has undone
        that."""
        if subscription in self._paused and self._known.is_paused(subscription):
            return
        namespace, _, name = subscription.partition(".")
        try:
            await self._drain.release(namespace, name)
            if await self._writer.pause(subscription):
                _log.warning(
                    "%s was paused: operator.namespaces has no %s", subscription, namespace
                )
            self._paused.add(subscription)
        except SkybridgeError as error:
            _log.warning("%s cannot be paused: %s", subscription, error)
