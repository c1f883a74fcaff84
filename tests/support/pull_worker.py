"""A pull subscription between a log in memory and a real store, with the clock in the test's hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from app.bindings.record import Record
from app.filters.selection import Selection
from app.interfaces import Offered, Store
from app.sinks.pull_queue import PullQueueSink, Wakeups
from app.telemetry import Counters
from app.worker.attempts import OfferLog
from app.worker.components import Components
from app.worker.dispatch import Dispatcher
from fake_log import FakeLog
from virtual_clock import VirtualClock
from worker_doubles import a_subscription

GROUP = "skybridge.test.billing"


class Patient:
    """A store whose calls fail while ``failing`` says so; ``calls`` counts what was ``asked`` of a concern."""

    def __init__(self, concern: Any) -> None:
        self._concern = concern
        self.failing: Exception | None = None
        self.calls = 0
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._concern, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            self.asked.add(name)
            if self.failing is not None:
                raise self.failing
            return await real(*args, **kwargs)

        return call


class Pulling:
    """One worker of the subscription ``billing``; ``receive`` is what its consumers would do."""

    def __init__(self, store: Store) -> None:
        self.log = FakeLog()
        self.copies = FakeLog("copies")
        self.store = store
        self.clock = VirtualClock()
        self.counters = Counters()
        self.wakeups = Wakeups()
        self.told: list[tuple[str, str]] = []
        self.dispatcher: Dispatcher | None = None
        self.task: asyncio.Task[None] | None = None

    async def begin(self, pull: dict[str, Any] | None = None, **settings: Any) -> None:
        """A new worker on the same log and store, as after a restart of the process."""
        self.log.killed = False
        subscription = a_subscription(**{"sink": {"pull": pull or {}}, **settings})
        bound = subscription.sink.pull.max_waiting
        sink = PullQueueSink(
            subscription, self.store.pulled, self.clock, self.wakeups, bound, lambda: 0.5
        )
        self.dispatcher = Dispatcher(
            Components(
                subscription,
                self.log,  # type: ignore[arg-type]
                self.store,
                sink,
                self.clock,
                group=GROUP,
                attempts=OfferLog("billing", self.counters),
                selection=Selection(subscription.filters),
                copies=self.copies if "dead_letter" in settings else None,  # type: ignore[arg-type]
                notify=lambda kind, name, _: self.told.append((kind, name)),
                jitter=lambda: 0.5,
            )
        )
        self.task = asyncio.create_task(self.dispatcher.run())
        await self.until(lambda: bool(self.status.partitions) or self.task.done())

    async def publish(self, *records: Record) -> None:
        await self.log.submit("orders", records)

    async def kill(self) -> None:
        """As SIGKILL: nothing is committed or said any more."""
        self.log.killed = True
        while self.task is not None and not self.task.done():
            self.task.cancel()  # one that comes with an answer of the store is lost (wait_for)
            await asyncio.wait([self.task], timeout=0.1)

    async def stop(self) -> None:
        stopping = asyncio.create_task(self.dispatcher.stop(1.0))
        await self.until(stopping.done)
        await self.task

    @property
    def now_ms(self) -> int:
        return int(self.clock.now() * 1000)

    @property
    def status(self) -> Any:
        return self.dispatcher.status()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Time passes, until the condition holds."""
        async with asyncio.timeout(60):
            while not condition():
                await self.clock.advance(0.25)
                await asyncio.sleep(0.002)

    async def waiting(self, count: int) -> None:
        """Time passes, until so many are rows."""
        async with asyncio.timeout(60):
            while await self.store.pulled.count("billing") != count:
                await self.clock.advance(0.25)
                await asyncio.sleep(0.002)

    async def until_none(self, ask: Callable[[], Awaitable[Sequence[object]]]) -> None:
        async with asyncio.timeout(60):
            while await ask():
                await self.clock.advance(0.25)
                await asyncio.sleep(0.002)

    async def receive(self, most: int = 100) -> list[Offered]:
        return await self.store.pulled.receive(
            "billing", most=most, most_bytes=1 << 30, lock_ms=60_000, now_ms=self.now_ms
        )

    async def acknowledge(self, rows: Sequence[Offered]) -> None:
        tokens = [row.token for row in rows]
        done = await self.store.pulled.acknowledge("billing", tokens, self.now_ms)
        assert all(done.values())
        self.wakeups.tell("billing")

    def counted(self, name: str, label: str) -> int:
        return self.counters.values().get(name, {}).get(("billing", label), 0)


def ids(rows: Sequence[Offered]) -> list[int]:
    return [int(row.event.id) for row in rows]
