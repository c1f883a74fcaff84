"""The harness of the broker contract for subscriptions that share the membership of one Kafka group.

A process has one member of a shared group, with one consumer for each subscription. The contract has several
members of one group. So each ``subscribe`` gets a driver of its own, as if it were in another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.brokers.kafka import KafkaDriver, KafkaSettings
from app.brokers.portable import PortableLog, PublishBounds
from app.interfaces import Consumer, ConsumerFilter, ProgressStore
from app.model.start import StartAt
from contract_tools import ANSWERED_WITHIN, CALM
from kafka_harness import KafkaHarness
from memory_tables import OffsetRows, ProgressRows


class SharingLog(PortableLog):
    """A Kafka log whose subscriptions share memberships."""

    def __init__(
        self, settings: KafkaSettings, bounds: PublishBounds, progress: ProgressStore
    ) -> None:
        super().__init__(KafkaDriver(settings, progress=progress), bounds)
        self._settings = settings
        self._progress = progress
        self._others: list[PortableLog] = []

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: StartAt,
        *,
        client_id: str = "",
        wanted: ConsumerFilter | None = None,
        shared: str = "",
    ) -> Consumer:
        other = PortableLog(KafkaDriver(self._settings, progress=self._progress), self.bounds)
        await other.start()
        self._others.append(other)
        return await other.subscribe(
            *(group, topics, start),
            client_id=client_id,
            wanted=wanted,
            shared=shared or f"shared.{topics[0]}",
        )

    async def stop(self) -> None:
        for other in self._others:
            await other.stop()
        await super().stop()


class SharingKafkaHarness(KafkaHarness):
    """A harness whose subscriptions share memberships. Their positions outlive its logs."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self.progress = ProgressRows(OffsetRows())

    async def make_log(
        self, *, bounds: PublishBounds | None = None, **settings: Any
    ) -> PortableLog:
        calm = {"session_timeout": 12.0, "request_timeout": ANSWERED_WITHIN} | settings
        servers = self.bootstrap_servers
        made = KafkaSettings(name="kafka", bootstrap_servers=servers, **calm)
        return await self.started(SharingLog(made, bounds or CALM, self.progress))
