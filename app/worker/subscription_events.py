"""Notify operators of subscriptions that are paused or lag.

A check every few seconds replaces a notification per change, because a short pause is not worth one. Each episode
is reported once, however long it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.interfaces import Clock, Notify
from app.interfaces.notify import LAGGING, PAUSED
from app.model.subscription_status import SubscriptionStatus
from app.telemetry.tasks import keep, stop_task

LOOK = 5.0  # seconds between checks
LAG = 300.0  # age in seconds of the oldest undelivered event that is reported
CAUGHT_UP = LAG / 2  # below this age, the next lag is reported again


class SubscriptionEvents:
    """Notifies operators when a subscription is paused by its endpoint or lags.

    Args:
        status: returns the status of all subscriptions of this worker.
        clock: times the checks.
        notify: sends a notification.
    """

    def __init__(
        self, status: Callable[[], Sequence[SubscriptionStatus]], clock: Clock, notify: Notify
    ) -> None:
        self._status = status
        self._clock = clock
        self._notify = notify
        self._paused: set[str] = set()
        self._lagging: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = keep("watching", self._watch)

    async def stop(self) -> None:
        await stop_task(self._task)

    def look(self) -> None:
        """Check all subscriptions once."""
        found = self._status()
        for each in found:
            self._look_at(each)
        names = {each.id for each in found}
        self._paused &= names
        self._lagging &= names

    async def _watch(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            self.look()

    def _look_at(self, each: SubscriptionStatus) -> None:
        name = each.id
        if each.state != "paused":
            self._paused.discard(name)
        elif (
            each.paused_for is not None and name not in self._paused
        ):  # the API reports an operator's pause
            self._paused.add(name)
            seconds = round(each.paused_for, 3)
            self._notify(PAUSED, name, {"cause": each.cause, "seconds": seconds})
        oldest = each.oldest or 0.0
        if oldest < CAUGHT_UP:
            self._lagging.discard(name)
        elif oldest >= LAG and name not in self._lagging:
            self._lagging.add(name)
            detail = {"cause": each.cause, "oldest_seconds": round(oldest, 3), "held": each.held}
            self._notify(LAGGING, name, detail)
