"""A supervisor of subscriptions whose log, store, clock and sinks a test controls."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from app.interfaces import Sink
from app.model.subscription import Subscription
from app.telemetry import Counters
from app.worker.supervisor import Supervisor
from fake_log import FakeLog
from memory_store import MemoryStore
from virtual_clock import VirtualClock
from waiting import until


class SupervisorRig(ABC):
    """A supervisor on an in-memory log and store. A subclass makes the sinks."""

    def __init__(self, *subscriptions: Subscription) -> None:
        self.log = FakeLog()
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.sinks: dict[str, Any] = {}
        self.supervisor = Supervisor(
            subscriptions,
            {"log": self.log},  # type: ignore[dict-item]
            self.store,  # type: ignore[arg-type]
            self.sink_for,
            self.clock,
            Counters(),
            installation="test",
            jitter=lambda: 0.0,
        )

    @abstractmethod
    def sink_for(self, subscription: Subscription) -> Sink: ...

    async def begin(self) -> None:
        await self.log.create_topic("orders", 1)
        await self.supervisor.start()

    async def stop(self, drain: float = 5.0) -> None:
        await self.ticking(self.supervisor.stop(drain))

    async def ticking(self, step: Coroutine[Any, Any, None]) -> None:
        """Await a step while the clock runs on."""
        task = asyncio.ensure_future(step)
        while not task.done():
            await self.clock.advance(0.1)
        await task

    @property
    def states(self) -> dict[str, str]:
        return {one.id: one.state for one in self.supervisor.status()}

    async def running(self, *names: str) -> None:
        await until(lambda: self.states == dict.fromkeys(names, "running"))
