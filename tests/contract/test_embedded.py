"""The embedded log keeps the broker contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from app.brokers.embedded import CAPABILITIES, open_log
from app.brokers.portable import Bounds, PortableLog
from broker_contract import BrokerContract, NumberedPlaces


class EmbeddedHarness(NumberedPlaces):
    """Each log is opened on the same folder, so that a new one is a restart."""

    capabilities = CAPABILITIES
    can_go_away = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: list[PortableLog] = []

    async def make_log(self, *, bounds: Bounds | None = None) -> PortableLog:
        log = open_log(name="log", path=self._folder, bounds=bounds)
        await log.start()
        self._logs.append(log)
        return log

    async def fresh_topic(self, log: PortableLog, partitions: int = 4) -> str:
        topic = f"t-{uuid4().hex[:12]}"
        await log.create_topic(topic, partitions)
        return topic

    async def take_away(self) -> None:
        raise AssertionError("there is no server to take away")

    async def bring_back(self) -> None:
        raise AssertionError("there is no server to bring back")

    async def close(self) -> None:
        for log in self._logs:
            await log.stop()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EmbeddedHarness]:
    harness = EmbeddedHarness(tmp_path / "log")
    yield harness
    await harness.close()


class TestEmbedded(BrokerContract):
    pass
