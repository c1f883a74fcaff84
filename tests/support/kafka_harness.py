"""The contract's harness for Kafka, and for what speaks its protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Protocol
from uuid import uuid4

from app.brokers.kafka import CAPABILITIES, open_log
from app.brokers.portable import Bounds, PortableLog
from contract_tools import ANSWERED_WITHIN, CALM, PATIENCE, NumberedPlaces

open_calm_log = partial(
    open_log, session_timeout=12.0, request_timeout=ANSWERED_WITHIN, bounds=CALM
)
"""With the time-outs of a test that claims nothing about them. A member hears of another's coming and going
within a tenth of the session."""


class Restartable(Protocol):
    """A server with its ports and data: killed, and up again on both."""

    def kill(self) -> None: ...

    def restart(self) -> None: ...


class KafkaHarness(NumberedPlaces):
    """Logs on one cluster: a new one is a restart of ours. ``server``: one that may be killed."""

    capabilities = CAPABILITIES

    def __init__(self, bootstrap_servers: str, server: Restartable | None = None) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._server = server
        self.can_go_away = server is not None
        self._logs: list[PortableLog] = []

    async def make_log(self, *, bounds: Bounds | None = None) -> PortableLog:
        log = open_calm_log(
            name="kafka", bootstrap_servers=self._bootstrap_servers, bounds=bounds or CALM
        )
        await log.start()
        self._logs.append(log)
        return log

    async def fresh_topic(self, log: PortableLog, partitions: int = 4) -> str:
        topic = f"t-{uuid4().hex[:12]}"
        await log.create_topic(topic, partitions)
        async with asyncio.timeout(PATIENCE):
            while not await self._ready(log, topic, partitions):
                await asyncio.sleep(0.01)
        return topic

    async def take_away(self) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.kill)

    async def bring_back(self) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.restart)

    async def close(self) -> None:
        for log in self._logs:
            await log.stop()

    async def _ready(self, log: PortableLog, topic: str, partitions: int) -> bool:
        found = (await log.metadata([topic])).topics
        return bool(found) and [p.leader is None for p in found[0].partitions] == (
            [False] * partitions
        )


@contextlib.asynccontextmanager
async def closing(harness: KafkaHarness) -> AsyncIterator[KafkaHarness]:
    yield harness
    await harness.close()
