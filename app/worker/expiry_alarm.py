"""A pause that will outlast the log's retention is said before anything expires (rule 6)."""

from __future__ import annotations

import logging

from app.delivery.expiry import Extent, expiring
from app.errors import BrokerError
from app.interfaces import Log, Notify
from app.interfaces.notify import LAGGING
from app.model.message import Partition
from app.worker.gate import Gate
from app.worker.shared import DispatcherPart, Shared

LOOK = 60.0  # seconds between looks at the log while a subscription is paused

_log = logging.getLogger("skybridge.worker")


class ExpiryAlarm(DispatcherPart):
    """``trouble``: what is said, until it does."""

    def __init__(self, shared: Shared, log: Log, notify: Notify, *, group: str, gate: Gate) -> None:
        super().__init__(shared)
        self._log = log
        self._notify = notify
        self._group = group
        self._gate = gate
        self._begun: dict[Partition, Extent] = {}

    async def watch(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            if self._gate.is_open:
                self._begun, self.trouble = {}, ""
            else:
                await self._look()

    async def _look(self) -> None:
        try:
            now = await self._extents()
        except BrokerError:  # it is told of elsewhere, and asked again
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
        trouble = f"its log will drop events before they are delivered: {partition}, {words}"
        if not self.trouble:
            _log.error("%s: %s", self._subscription.id, trouble)
            self._notify(LAGGING, self._subscription.id, {"cause": trouble})
        self.trouble = trouble

    async def _extents(self) -> dict[Partition, Extent]:
        """Of the partitions whose positions are numbers."""
        metadata = await self._log.metadata(self._subscription.source.topics, [self._group])
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
                found[at] = Extent(int(first), int(committed))
        return found
