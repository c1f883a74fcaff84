"""A queue that is pulled is counted; what was handed out too often, and never acknowledged, is dead-lettered."""

from __future__ import annotations

import logging

from app.errors import BrokerError, StoreUnavailable
from app.sinks.dead_letters import MAX_DELIVERIES, DeadLettering
from app.sinks.pull_queue import PullQueueSink
from app.worker.shared import DispatcherPart, Shared

SWEEP_EVERY = 5.0  # seconds

_log = logging.getLogger("skybridge.worker")


class PullUpkeep(DispatcherPart):
    """Of one subscription. ``most``: how often an event is handed out."""

    def __init__(
        self, shared: Shared, most: int, letters: DeadLettering, sink: PullQueueSink
    ) -> None:
        super().__init__(shared)
        self._most = most
        self._queue = shared.store.pulled
        self._letters = letters
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
            self._sink.tell()  # the next of their keys are free
