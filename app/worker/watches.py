"""Periodic checks of a subscription: the log's retention while it is paused, and the queue if it is pulled."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from app.delivery.expiry import RetainedExtent, expiring
from app.errors import BrokerError, StoreUnavailable
from app.interfaces import Log, Notify
from app.interfaces.notify import LAGGING
from app.model.message import Partition
from app.sinks.dead_letters import MAX_DELIVERIES, DeadLetterWriter
from app.sinks.pull_queue import PullQueueSink
from app.worker.gate import EndpointState
from app.worker.shared import DispatcherContext, DispatcherPart

LOOK = 60.0  # seconds between checks of the log while a subscription is paused
SWEEP_EVERY = 5.0  # seconds between sweeps of a pull queue
EMPTY_SWEEPS = 12  # sweeps of an empty queue of which one asks the store

_log = logging.getLogger("skybridge.worker")


@dataclass(eq=False, repr=False)
class ExpiryAlarm(DispatcherPart):
    """Warns operators before the log's retention deletes events of a paused subscription.

    ``trouble`` has the warning as long as the pause lasts."""

    _broker: Log
    _notify: Notify
    _group: str
    _gate: EndpointState

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._begun: dict[Partition, RetainedExtent] = {}

    async def watch(self) -> None:
        """Check the log's retention every minute while the subscription is paused. An open one wakes nothing."""
        while True:
            await self._gate.closed()
            await self._clock.sleep(LOOK)
            if self._gate.is_open:
                self._begun, self.trouble = {}, ""
            else:
                await self._look()

    async def _look(self) -> None:
        try:
            now = await self._extents()
        except BrokerError:  # reported by the consumer; the next check asks again
            return
        self._begun = self._begun or now
        found = expiring(self._begun, now)
        if not found:
            return
        partition, left = min(found, key=lambda each: each[1])
        words = (
            f"{left} positions before the subscription's position"
            if left > 0
            else "some are gone already"
        )
        trouble = f"the log will drop events before they are delivered: {partition}, {words}"
        if not self.trouble:
            _log.error("%s: %s", self._subscription.id, trouble)
            self._notify(LAGGING, self._subscription.id, {"cause": trouble})
        self.trouble = trouble

    async def _extents(self) -> dict[Partition, RetainedExtent]:
        """Return the extents of the partitions whose positions are numbers."""
        topics = self._subscription.source.topics
        metadata = await self._broker.metadata(topics, {self._group: topics})
        earliest = {
            Partition(topic.name, each.number): each.earliest
            for topic in metadata.topics
            for each in topic.partitions
        }
        found = {}
        for lag in metadata.groups:
            at = Partition(lag.topic, lag.partition)
            first, committed = earliest.get(at, ""), lag.committed or ""
            if lag.group == self._group and first.isdecimal() and committed.isdecimal():
                found[at] = RetainedExtent(int(first), int(committed))
        return found


@dataclass(eq=False, repr=False)
class PullUpkeep(DispatcherPart):
    """Counts a pull queue, and dead-letters events that were handed out too often without an acknowledgement.

    ``_most`` is how often an event may be handed out."""

    _most: int
    _letters: DeadLetterWriter
    _sink: PullQueueSink

    async def watch(self) -> None:
        """Sweep the pull queue every few seconds, and an empty one once a minute."""
        while True:
            try:
                await self._sweep()
            except (StoreUnavailable, BrokerError) as error:
                self.trouble = f"a dead letter cannot be stored: {error}"
                _log.error("%s: %s", self._subscription.id, self.trouble)
            else:
                self.trouble = ""
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next sweep. What this process stores in an empty queue is known without the store. What another
        process stores there, its own upkeep sweeps."""
        for _ in range(EMPTY_SWEEPS):
            await self._clock.sleep(SWEEP_EVERY)
            if self._sink.queued() or self.trouble:
                return

    async def _sweep(self) -> None:
        await self._sink.count()
        if not self._sink.queued():
            return
        rows = await self._store.pulled.worn_out(
            self._subscription.id, most_deliveries=self._most, now_ms=self._letters.now_ms()
        )
        detail = f"handed out {self._most} times and never acknowledged"
        for row in rows:
            await self._letters.put_rows(self._store.pulled, [row], MAX_DELIVERIES, detail)
        if rows:
            self._sink.tell()  # the next events of these keys can be pulled
