"""A fake service for tests of the topics API, over an in-memory log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.access.who import ProducerDirectory
from app.api.asked.registry import SubscriptionEntry
from app.delivery.lag_trend import LagGrowth
from app.telemetry import Counters
from fake_log import FakeLog
from memory_store import MemoryStore
from sending import event_headers
from virtual_clock import VirtualClock

TOPIC = "/v1/topics/log/events"
GROUP = "skybridge.shop.billing"
EVENT = event_headers("7") | {"content-type": "application/json"}


class FakeTopicsService:
    """A fake of what the topics API needs from a service."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.logs: dict[str, Any] = {"log": self.log}
        self.kinds = {"log": "embedded"}
        self.attested = {"log"}
        self.manners: dict[str, Any] = {}
        self.counters = Counters()
        self.clock = VirtualClock()
        self.store: Any = MemoryStore(clock=self.clock)
        self.producers = ProducerDirectory(())

    def groups(self, broker: str, topic: str) -> Mapping[str, str]:
        return {GROUP: "billing"} if (broker, topic) == ("log", "events") else {}

    def lag_growth(self, group: str) -> LagGrowth:
        return LagGrowth()

    async def entries(self) -> tuple[SubscriptionEntry, ...]:
        return ()

    def notify(self, kind: str, subject: str, detail: Mapping[str, object], /) -> None: ...
