"""What the cases of the broker contract share: the harness protocol, and short words for tests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Protocol, TypeVar
from uuid import uuid4

from app.bindings.record import Record
from app.brokers.portable import Bounds, PortableLog
from app.interfaces import Consumer
from app.model.capabilities import Capabilities
from app.model.message import Assigned, Lost, Message, Partition, Revoked
from app.model.receipt import Receipt

PATIENCE = 240.0  # seconds; a bound, not a wait: every wait ends with its condition
ANSWERED_WITHIN = (
    60.0  # seconds: time-outs of ours where none is claimed; a broker may stand still for twenty
)
CALM = Bounds(publish_timeout=ANSWERED_WITHIN)
AT_ONCE = 30.0  # seconds on a busy machine, where a time-out would take twice that
JAVA_HASHES = {
    b"21": 1173551340,
    b"foobar": 1357151166,
}  # murmur2 & 0x7FFFFFFF, by Kafka's Java client


class Harness(Protocol):
    """What a broker's tests give to the suite.

    ``can_go_away``  the broker can be taken away and brought back under a running log.
    ``outside``      a position that no log of a few records holds.
    """

    capabilities: Capabilities
    can_go_away: bool
    outside: str

    def rank(self, position: str) -> tuple[int, ...]:
        """What orders the positions of one partition, as the driver that made them does."""

    def after(self, position: str) -> str:
        """Where the record after the one at ``position`` will be."""

    async def make_log(self, *, bounds: Bounds | None = None) -> PortableLog:
        """A started log on the harness's data. At most one is open at a time."""

    async def fresh_topic(self, log: PortableLog, partitions: int = 4) -> str:
        """A new topic, there and ready when this returns."""

    async def take_away(self) -> None: ...
    async def bring_back(self) -> None: ...

    async def close(self) -> None:
        """Stop the logs that a failed case left open."""


SERVER = "a server"  # what a log in our own process cannot lose

missed: dict[str, bool] = {}
"""What the log of the case that is running lacks, and whether the case is run for what there is all the
same: ``contract_report`` makes the page of it."""


def has(harness: Harness, capability: str) -> bool:
    """Whether to expect it: without it the rest of the case is run."""
    there = bool(getattr(harness.capabilities, capability))
    if not there:
        missed.setdefault(capability, True)
    return there


def lacks(harness: Harness, what: str) -> bool:
    """Whether there is nothing to show without it: then the case ends at once."""
    there = harness.can_go_away if what == SERVER else getattr(harness.capabilities, what)
    if not there:
        missed[what] = False
    return not there


class Restartable(Protocol):
    """A server with its ports and data: killed, and up again on both."""

    def kill(self) -> None: ...

    def restart(self) -> None: ...


class Logs:
    """The half of a harness that is the same for every broker: a new log is a restart of ours."""

    def __init__(self, server: Restartable | None = None) -> None:
        """``server``: one that may be killed."""
        self._server = server
        self.can_go_away = server is not None
        self._logs: list[PortableLog] = []

    async def started(self, log: PortableLog) -> PortableLog:
        await log.start()
        self._logs.append(log)
        return log

    async def fresh_topic(self, log: PortableLog, partitions: int = 4) -> str:
        topic = f"t-{uuid4().hex[:12]}"
        await log.create_topic(topic, partitions)
        async with asyncio.timeout(PATIENCE):
            while await _leaders(log, topic) != partitions:
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


async def _leaders(log: PortableLog, topic: str) -> int:
    found = (await log.metadata([topic])).topics
    return sum(each.leader is not None for topic in found for each in topic.partitions)


A = TypeVar("A", bound=Logs)


@contextlib.asynccontextmanager
async def closing(harness: A) -> AsyncIterator[A]:
    yield harness
    await harness.close()


@contextlib.asynccontextmanager
async def running(log: PortableLog) -> AsyncIterator[PortableLog]:
    await log.start()
    try:
        yield log
    finally:
        await log.stop()


class NumberedPlaces:
    """For harnesses of logs whose positions are counted."""

    outside = "1000"

    def rank(self, position: str) -> tuple[int, ...]:
        return (int(position),)

    def after(self, position: str) -> str:
        return str(int(position) + 1)


def text(body: str, key: str | None = None) -> Record:
    return Record(
        None if key is None else key.encode(), (("content-type", b"text/plain"),), body.encode()
    )


def fresh_group() -> str:
    return f"contract.{uuid4().hex[:12]}"


async def until_healthy(log: PortableLog, within: float = PATIENCE) -> None:
    """A probe is given two seconds, for which a busy machine may stand still."""
    async with asyncio.timeout(within):
        while not (health := await log.health()).healthy:
            assert health.cause
            await asyncio.sleep(0.05)


async def publish(log: PortableLog, topic: str, records: Sequence[Record]) -> list[Receipt]:
    results = await log.submit(topic, records)
    receipts = [result for result in results if isinstance(result, Receipt)]
    assert len(receipts) == len(records), results
    return receipts


async def take(consumer: Consumer, count: int, within: float = PATIENCE) -> list[Message]:
    """Exactly ``count`` messages; changes of ownership are passed over."""
    messages: list[Message] = []
    deadline = time.monotonic() + within
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages came in time"
        event = await consumer.poll(0.2)
        if isinstance(event, tuple):
            messages += event
    assert len(messages) == count
    return messages


async def assigned(consumer: Consumer, within: float = PATIENCE) -> Assigned:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        event = await consumer.poll(0.2)
        if isinstance(event, Assigned):
            return event
    raise AssertionError("nothing was assigned in time")


async def until_owned(consumer: Consumer, count: int) -> None:
    """Until so many partitions are its own: they may come one after another."""
    owned: set[Partition] = set()
    while len(owned) < count:
        owned |= set((await assigned(consumer)).partitions)


async def nothing_comes(consumer: Consumer, within: float = 0.3) -> None:
    """A bounded look: no message is handed out. Ownership may change meanwhile."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        event = await consumer.poll(0.05)
        assert not isinstance(event, tuple), f"unexpected messages: {event}"


def bodies(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.record.body for message in messages]


class Member:
    """Polls a consumer in a task of its own, as a worker would, and settles what comes."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.messages: list[Message] = []
        self.changes: list[Assigned | Revoked | Lost] = []
        self.owned: set[Partition] = set()
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._stopping:
            event = await self.consumer.poll(0.1)
            if isinstance(event, tuple):
                self.messages += event
                await self.consumer.settle(event)
            elif isinstance(event, Assigned):
                self.changes.append(event)
                self.owned |= set(event.partitions)
            elif event is not None:
                self.changes.append(event)
                self.owned -= set(event.partitions)

    async def close(self) -> None:
        self._stopping = True
        await self._task
        await self.consumer.close()


async def close_all(members: Collection[Member]) -> None:
    await asyncio.gather(*(member.close() for member in members))
