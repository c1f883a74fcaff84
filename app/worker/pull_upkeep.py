"""Messages that were handed out too often, and never acknowledged, become dead letters."""

from __future__ import annotations

import logging

from app.errors import BrokerError, StoreUnavailable
from app.interfaces import Clock, Store
from app.model.pull import PullSettings
from app.sinks.dead_letters import MAX_DELIVERIES, DeadLettering
from app.sinks.pull_queue import Wakeups

SWEEP_EVERY = 5.0  # seconds

_log = logging.getLogger("skybridge.worker")


class PullUpkeep:
    """Of one subscription. ``wakeups``: told when messages are gone, for the next of their keys are free."""

    def __init__(
        self,
        subscription: str,
        settings: PullSettings,
        store: Store,
        clock: Clock,
        letters: DeadLettering,
        wakeups: Wakeups,
    ) -> None:
        self._subscription = subscription
        self._most = settings.max_deliveries
        self._queue = store.pulled
        self._clock = clock
        self._letters = letters
        self._wakeups = wakeups
        self.trouble = ""

    async def watch(self) -> None:
        while True:
            try:
                await self._sweep()
            except (StoreUnavailable, BrokerError) as error:
                self.trouble = f"a dead letter cannot be stored: {error}"
                _log.error("%s: %s", self._subscription, self.trouble)
            else:
                self.trouble = ""
            await self._clock.sleep(SWEEP_EVERY)

    async def _sweep(self) -> None:
        rows = await self._queue.worn_out(
            self._subscription, most_deliveries=self._most, now_ms=self._letters.now_ms()
        )
        detail = f"handed out {self._most} times and never acknowledged"
        for row in rows:
            await self._letters.put_rows(self._queue, [row], MAX_DELIVERIES, detail)
        if rows:
            self._wakeups.tell(self._subscription)
