"""The embedded log keeps the broker contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.brokers.embedded import CAPABILITIES, open_log
from app.brokers.portable import PortableLog, PublishBounds
from broker_contract import BrokerContract
from contract_tools import Logs, NumberedPlaces, closing


class EmbeddedHarness(NumberedPlaces, Logs):
    """Each log is opened on the same folder, so that a new one is a restart."""

    capabilities = CAPABILITIES

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def make_log(self, *, bounds: PublishBounds | None = None) -> PortableLog:
        return await self.started(open_log(name="log", path=self._folder, bounds=bounds))


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EmbeddedHarness]:
    async with closing(EmbeddedHarness(tmp_path / "log")) as harness:
        yield harness


class TestEmbedded(BrokerContract):
    pass
