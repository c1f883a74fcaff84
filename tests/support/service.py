"""A service inside the process of the test. No other module of the tests composes a service.

``running`` starts a service and stops it when the block ends. ``Service`` is for a test that times the start
itself, or reloads. A service in a process of its own is ``service_process.ServiceProcess``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.status.configured import ReloadResult
from app.bindings.record import Record
from app.brokers.portable import PortableLog
from app.config.check.source import ConfigSource
from app.features import kafka
from app.features.brokers.component import BrokersComponent
from app.features.storage.component import StorageComponent
from app.features.subscriptions.component import SubscriptionsComponent
from app.interfaces import DeadLetterFilter, Store
from app.interfaces.clock import SystemClock
from app.model.message import Partition
from app.runtime.compose import compose
from app.telemetry import Counters
from app.worker.supervisor import Supervisor
from configuration import written
from sending import event_headers

PATIENCE = 120.0  # seconds for one answer


class Service:
    """A service on one configuration file. ``reload`` reads the file again."""

    def __init__(self, file: Path, environ: Mapping[str, str] | None = None) -> None:
        source = ConfigSource(file, environ or {})
        loaded = source.load(source.read())
        self.file = file
        self._service = compose(loaded, SystemClock(), source=source)

    async def start(self) -> None:
        """Start the service, and return when it accepts events. Raise SetupError if it cannot
        start."""
        await self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    @property
    def events_url(self) -> str:
        return self._service.events_url

    @property
    def events_port(self) -> int:
        return int(self.events_url.rpartition(":")[2])

    @property
    def admin_url(self) -> str:
        return self._service.admin_url

    @property
    def logs(self) -> Mapping[str, PortableLog]:
        """Return the logs of the brokers by name."""
        return self._service.part(BrokersComponent).logs

    @property
    def store(self) -> Store:
        return self._service.part(StorageComponent).store

    @property
    def supervisor(self) -> Supervisor:
        """Return the supervisor of the subscriptions. Fail if the service does not run the role
        ``worker``."""
        supervisor = self._service.part(SubscriptionsComponent).supervisor
        assert supervisor is not None
        return supervisor

    @property
    def counters(self) -> Counters:
        return self._service.counters

    async def reload(self) -> ReloadResult:
        """Read the file again, as ``POST /v1/config:reload`` does."""
        return await self._service.reloader.reload("api")

    async def send(self, id_: str, data: bytes | str | None = "{}", **attributes: str) -> None:
        """Send one event in binary mode, and assert that it is accepted.

        An event without data gets no content type.
        """
        headers = event_headers(id_, **attributes)
        if data is not None:
            headers["content-type"] = "application/json"
        async with _client() as client:
            answer = await client.post(f"{self.events_url}/events", headers=headers, content=data)
        assert answer.status_code == 202, answer.text

    async def get(self, path: str) -> Any:
        """Return the JSON that the admin listener answers for a path."""
        return json.loads(await self.text(path))

    async def text(self, path: str) -> str:
        """Return the text that the admin listener answers for a path, whatever its status."""
        async with _client() as client:
            return (await client.get(f"{self.admin_url}{path}")).text

    async def stored(self, *topics: str, broker: str = "log") -> int:
        """Return the count of records in the topics."""
        metadata = await self.logs[broker].metadata(list(topics))
        return sum(int(part.latest or 0) for topic in metadata.topics for part in topic.partitions)

    async def records(self, topic: str, partitions: int = 1, broker: str = "log") -> list[Record]:
        """Return all records of a topic, partition after partition."""
        return [
            message.record
            for number in range(partitions)
            async for message in self.logs[broker].read(Partition(topic, number), "0")
        ]

    async def letters(self) -> dict[str, int]:
        """Return the counts of dead letters by cause."""
        found: dict[str, int] = {}
        for (_, cause), count in (await self.store.letters.count(DeadLetterFilter())).items():
            found[cause] = found.get(cause, 0) + count
        return found


@asynccontextmanager
async def running(
    settings: Mapping[str, Any], folder: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Service]:
    """Write the settings into ``folder``, and run a service on them until the block ends."""
    service = Service(written(settings, folder), environ)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def kafka_waits_for_subscriptions(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set for how long a starting service rejects Kafka clients until its subscriptions have
    groups."""
    monkeypatch.setattr(kafka, "GROUPS_WITHIN", seconds)


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=PATIENCE)
