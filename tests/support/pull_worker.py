"""A pull subscription between an in-memory log and a real store, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from app.bindings.record import Record
from app.filters.selection import Selection
from app.interfaces import PullMessage, Store
from app.sinks.pull_queue import PullQueueSink, Wakeups
from app.telemetry import Counters
from app.worker.attempts import OfferLog
from app.worker.components import Components
from app.worker.dispatch import Dispatcher
from fake_log import FakeLog
from virtual_clock import VirtualClock
from worker_doubles import a_subscription

GROUP = "skybridge.test.billing"


class FailingTable:
    """A wrapper of one table of a store whose calls fail while ``failing`` is set.

    Attributes:
        failing: The error that each call raises, or None.
        calls: The count of calls.
        asked: The names of the methods that were called.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self.failing: Exception | None = None
        self.calls = 0
        self.asked: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            self.asked.add(name)
            if self.failing is not None:
                raise self.failing
            return await real(*args, **kwargs)

        return call


class PullWorker:
    """One worker of the pull subscription ``billing``, with the calls of its consumers."""

    def __init__(self, store: Store) -> None:
        self.log = FakeLog()
        self.copies = FakeLog("copies")
        self.store = store
        self.clock = store.clock = VirtualClock()
        self.counters = Counters()
        self.wakeups = Wakeups()
        self.told: list[tuple[str, str]] = []
        self.dispatcher: Dispatcher | None = None
        self.task: asyncio.Task[None] | None = None

    async def begin(self, pull: dict[str, Any] | None = None, **settings: Any) -> None:
        """Start a new worker on the same log and store, as after a restart of the process."""
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
        """End the worker as SIGKILL does: nothing is committed or logged any more."""
        self.log.killed = True
        while self.task is not None and not self.task.done():
            self.task.cancel()  # repeated, because wait_for swallows a cancellation that meets an answer of the store
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
        """Advance the clock until the condition holds."""
        async with asyncio.timeout(60):
            while not condition():
                await self.clock.advance(0.25)
                await asyncio.sleep(0.002)

    async def waiting(self, count: int) -> None:
        """Advance the clock until the pull queue has so many rows."""
        async with asyncio.timeout(60):
            while await self.store.pulled.count("billing") != count:
                await self.clock.advance(0.25)
                await asyncio.sleep(0.002)

    async def until_none(self, ask: Callable[[], Awaitable[Sequence[object]]]) -> None:
        async with asyncio.timeout(60):
            while await ask():
                await self.clock.advance(0.25)
                await asyncio.sleep(0.002)

    async def receive(self, most: int = 100) -> list[PullMessage]:
        return await self.store.pulled.receive(
            "billing", most=most, most_bytes=1 << 30, lock_ms=60_000, now_ms=self.now_ms
        )

    async def acknowledge(self, rows: Sequence[PullMessage]) -> None:
        tokens = [row.token for row in rows]
        done = await self.store.pulled.acknowledge("billing", tokens, self.now_ms)
        assert all(done.values())
        self.wakeups.tell("billing")

    def counted(self, name: str, label: str) -> int:
        return self.counters.values().get(name, {}).get(("billing", label), 0)


def ids(rows: Sequence[PullMessage]) -> list[int]:
    return [int(row.event.id) for row in rows]
