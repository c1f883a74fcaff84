"""A queue that is pulled is counted; what was handed out too often, and never acknowledged, is dead-lettered."""

from __future__ import annotations

import logging

from app.errors import BrokerError, StoreUnavailable
from app.model.pull import PullSettings
from app.sinks.dead_letters import MAX_DELIVERIES, DeadLettering
from app.sinks.pull_queue import PullQueueSink, Wakeups
from app.worker.shared import DispatcherPart, Shared

SWEEP_EVERY = 5.0  # seconds

_log = logging.getLogger("skybridge.worker")


class PullUpkeep(DispatcherPart):
    """Of one subscription. ``wakeups``: told when messages are gone, for the next of their keys are free."""

    def __init__(
        self,
        shared: Shared,
        settings: PullSettings,
        letters: DeadLettering,
        wakeups: Wakeups,
        sink: PullQueueSink,
    ) -> None:
        super().__init__(shared)
        self._most = settings.max_deliveries
        self._queue = shared.store.pulled
        self._letters = letters
        self._wakeups = wakeups
        self._sink = sink

    async def watch(self) -> None:
        while True:
            try:
                await self._sweep()
            except (StoreUnavailable, BrokerError) as error:
                self.trouble = f"a dead letter cannot be stored: {error}"
                _log.error("%s: %s", self._subscription.id, self.trouble)
            else:
                self.trouble = ""
            await self._clock.sleep(SWEEP_EVERY)

    async def _sweep(self) -> None:
        await self._sink.count()
        if not self._sink.queued():
            return
        rows = await self._queue.worn_out(
            self._subscription.id, most_deliveries=self._most, now_ms=self._letters.now_ms()
        )
        detail = f"handed out {self._most} times and never acknowledged"
        for row in rows:
            await self._letters.put_rows(self._queue, [row], MAX_DELIVERIES, detail)
        if rows:
            self._wakeups.tell(self._subscription.id)
