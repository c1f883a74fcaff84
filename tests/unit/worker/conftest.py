from __future__ import annotations

import asyncio

import pytest

from app.filters.selection import Selection
from app.model.message import Partition
from app.sinks.webhook import WebhookSink
from app.telemetry import Counters
from app.worker.attempts import AttemptLog
from app.worker.components import Components
from app.worker.dispatch import Dispatcher
from fake_log import FakeLog
from memory_store import MemoryStore
from virtual_clock import VirtualClock
from waiting import until
from worker_doubles import OK, RecordingClient, ScriptedSink, a_subscription

GROUP = "skybridge.test.billing"
JITTER = 0.5


class Rig:
    """A dispatcher with everything around it in the test's hand."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.copies = FakeLog("copies")
        self.sink = ScriptedSink()
        self.client = None  # of a webhook that is to be the sink
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.counters = Counters()
        self.attempts = AttemptLog("billing", self.counters)
        self.dispatcher: Dispatcher | None = None
        self.task: asyncio.Task[None] | None = None

    async def begin(self, *, kind="embedded", budget=None, suspensions=None, **settings):
        """A new dispatcher on the same log and store, as after a restart of the process."""
        self.log.killed = False
        subscription = a_subscription(**settings)
        if self.client is not None:
            self.sink = WebhookSink(subscription, self.client)
        self.dispatcher = Dispatcher(
            Components(
                subscription,
                self.log,
                self.store,
                self.sink,
                self.clock,
                group=GROUP,
                attempts=self.attempts,
                selection=Selection(subscription.filters, self.attempts.count_filter_error),
                kind=kind,
                copies=self.copies if "dead_letter" in settings else None,
                jitter=lambda: JITTER,
                hand_over=5.0,
                budget=budget,
                suspensions=suspensions,
            )
        )
        self.task = asyncio.create_task(self.dispatcher.run())
        await until(lambda: self.dispatcher.status().partitions or self.task.done())

    def webhook(self, answer=OK):
        """What is posted from now on, written as the subscription says."""
        self.client = RecordingClient(answer)
        return self.client.posted

    async def publish(self, *records):
        await self.log.submit("orders", records)

    async def kill(self):
        """As SIGKILL: nothing is committed or said any more."""
        self.log.killed = True
        self.task.cancel()
        await asyncio.wait([self.task])

    async def stop(self, drain=5.0):
        """Stop, with the clock running on until it has."""
        stopping = asyncio.create_task(self.dispatcher.stop(drain))
        while not stopping.done():
            await self.clock.advance(0.1)
        await self.task

    async def answered(self, *ids):
        await until(lambda: self.sink.answered == list(map(str, ids)))

    async def committed(self, position, partition=0):
        at = Partition("orders", partition)
        await until(lambda: self.log.committed(GROUP, at) == position)

    async def state(self, state):
        await until(lambda: self.status.state == state)

    @property
    def status(self):
        return self.dispatcher.status()

    @property
    def consumer(self):
        return self.log.members[GROUP][-1]

    @property
    def delivered(self):
        return self.counters.values().get("deliveries", {}).get(("billing", "delivered"), 0)


@pytest.fixture
async def rig():
    rig = Rig()
    await rig.log.create_topic("orders", 1)
    yield rig
    if rig.task is not None and not rig.task.done():
        rig.task.cancel()
        await asyncio.wait([rig.task])


@pytest.fixture
def orders():
    return Partition("orders", 0)
