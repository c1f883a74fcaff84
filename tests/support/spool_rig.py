"""Spools on a real embedded log, drained by real subscriptions to a target that a test takes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.bindings.record import Record
from app.brokers.embedded import open_log
from app.brokers.kafka.driver import CAPABILITIES
from app.brokers.portable import PortableLog
from app.config.diff.difference import Difference
from app.config.load.loader import Loaded, load
from app.config.model.config import Config
from app.errors import BrokerRefused, BrokerUnavailable, UnclearRefusal
from app.features.brokers.logs import declare_subscriptions
from app.features.component import ConfigChange
from app.features.spools import SpoolsComponent
from app.interfaces import PublishResult
from app.interfaces.clock import SystemClock
from app.model.log_name import LogName
from app.model.receipt import Receipt
from app.telemetry import Counters
from memory_store import MemoryStore

WITHIN = 60.0
STOP = 5.0  # seconds for records that the drain has in flight

YAML = """
version: 1
store: {{kind: sqlite, path: {folder}/store.db}}
brokers:
  log: {{kind: embedded, path: {folder}/log, partitions: 2}}
  main: {{kind: kafka, bootstrap_servers: "127.0.0.1:1"}}
  other: {{kind: kafka, bootstrap_servers: "127.0.0.1:1"}}
{routes}
"""
SPOOL = "spool: {broker: log, when: outage, max: 1MiB}"
ROUTES = "routes: [{name: orders, to: {broker: main, topic: orders}, " + SPOOL + "}]"
PLAIN = "routes: [{name: orders, to: {broker: main, topic: orders}}]"
ELSEWHERE = ROUTES.replace("main", "other")
NONE = "routes: [{name: others, to: {broker: main, topic: others}}]"


def change_to(config: Config) -> ConfigChange:
    """Return a change to another configuration, as a reload passes it to a component."""
    return ConfigChange(Loaded.of(config), Difference(()))


class FakeTargetBroker:
    """A fake of the broker that is a route's target.

    Attributes:
        fault: The error that every record gets instead of a receipt, or None.
        refused: Bodies that the broker rejects.
        unclear: Bodies that get an unclear rejection until the broker has stored another record.
        stored: The stored records with their topics.
    """

    def __init__(self) -> None:
        self.name = "main"
        self.capabilities = CAPABILITIES
        self.driver = None
        self.fault: BrokerUnavailable | None = BrokerUnavailable("away")
        self.refused: set[bytes | None] = set()
        self.unclear: set[bytes | None] = set()
        self.stored: list[tuple[str, Record]] = []
        self._doubted: dict[
            bytes | None, int
        ] = {}  # by body, the count of stored records at its first rejection

    def submit(
        self, topic: str, records: Any, _: Any = None
    ) -> asyncio.Future[list[PublishResult]]:
        done: asyncio.Future[list[PublishResult]] = asyncio.get_running_loop().create_future()
        done.set_result([self._store(topic, record) for record in records])
        return done

    def _store(self, topic: str, record: Record) -> PublishResult:
        if self.fault is not None:
            return self.fault
        if record.body in self.refused:
            return BrokerRefused("too large for the topic", kind="record-too-large")
        if record.body in self.unclear:
            if len(self.stored) > self._doubted.setdefault(record.body, len(self.stored)):
                return BrokerRefused("error code 131", kind="rejected")
            return UnclearRefusal("error code 131")
        self.stored.append((topic, record))
        return Receipt("main", topic, 0, str(len(self.stored)))

    @property
    def bodies(self) -> list[str]:
        return [(record.body or b"").decode() for _, record in self.stored]


class SpoolHouse:
    """Spools between an embedded log and a fake target. ``told`` has the operator events."""

    def __init__(self, folder: Path, store: MemoryStore | None = None) -> None:
        self.folder = folder
        self.target = FakeTargetBroker()
        self.store = store or MemoryStore()
        self.alone = store is None
        self.told: list[tuple[str, str, Mapping[str, object]]] = []
        self.spools: SpoolsComponent
        self.log: PortableLog

    def config(self, routes: str) -> Config:
        file = self.folder / "skybridge.yaml"
        file.write_text(YAML.format(folder=self.folder, routes=routes))
        return load(file, {}).config

    @asynccontextmanager
    async def running(self, routes: str = ROUTES, **disk: Any) -> AsyncIterator[SpoolHouse]:
        """Run the spools until the block ends; ``disk`` has more settings of the embedded log."""
        config = self.config(routes)
        self.log = open_log(path=self.folder / "log", name="log", partitions=2, **disk)
        logs: Any = {"log": self.log, "main": self.target, "other": self.target}
        self.spools = SpoolsComponent(
            config, logs, {LogName(name): log for name, log in logs.items()}, self.store,
            SystemClock(), Counters(),
            lambda *told: self.told.append(told), alone=self.alone,
        )  # type: ignore[arg-type]  # fmt: skip
        await self.log.start()
        await declare_subscriptions(config, "log", self.log, ())
        await self.spools.start()
        try:
            yield self
        finally:
            await self.spools.stop(STOP)
            await self.log.stop()

    def post(self, body: str, key: bytes = b"k") -> asyncio.Future[Any]:
        return self.spools.publishing[LogName("main", spooled="orders")].submit(
            "orders.eu", [Record(key, (("ce_id", body.encode()),), body.encode())]
        )

    async def reload(self, routes: str) -> None:
        config = self.config(routes)
        await self.spools.prepare(change_to(config))
        self.spools.apply(config)

    async def until_state(self, state: str) -> Any:
        async with asyncio.timeout(WITHIN):
            while (found := (await self.spools.states())[0]).state != state:
                await asyncio.sleep(0.01)
        return found

    def back(self) -> None:
        self.target.fault = None
