"""The harness protocol and short helper functions that the cases of the broker contract share."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Protocol, TypeVar
from uuid import uuid4

from app.bindings.record import Record
from app.brokers.portable import PortableLog, PublishBounds
from app.interfaces import Consumer
from app.model.capabilities import Capabilities
from app.model.message import Assigned, Lost, Message, Partition, Revoked
from app.model.receipt import Receipt

PATIENCE = 240.0  # seconds; a bound, not a wait: every wait ends with its condition
ANSWERED_WITHIN = (
    60.0  # seconds: time-out of publishing in most cases; a broker may pause for twenty
)
CALM = PublishBounds(publish_timeout=ANSWERED_WITHIN)
AT_ONCE = 30.0  # seconds on a busy machine, where a time-out would take twice that
JAVA_HASHES = {
    b"21": 1173551340,
    b"foobar": 1357151166,
}  # murmur2 & 0x7FFFFFFF, by Kafka's Java client


class Harness(Protocol):
    """The interface through which the suite uses one broker.

    ``can_go_away`` is whether the broker can be stopped and restarted under a running log.
    ``outside`` is a position that does not exist in a log of a few records.
    """

    capabilities: Capabilities
    can_go_away: bool
    outside: str

    def rank(self, position: str) -> tuple[int, ...]:
        """Return a sort key of a position within its partition."""

    def after(self, position: str) -> str:
        """Return the position of the record after the one at ``position``."""

    async def make_log(self, *, bounds: PublishBounds | None = None) -> PortableLog:
        """Return a started log on the harness's data. Only one log may be open at a time."""

    async def fresh_topic(self, log: PortableLog, partitions: int = 4) -> str:
        """Create a new topic and return its name once the topic is ready."""

    async def take_away(self) -> None: ...
    async def bring_back(self) -> None: ...

    async def close(self) -> None:
        """Stop the logs that a failed case left open."""


SERVER = "a server"  # a log in the test's own process has none

missed: dict[str, bool] = {}
"""The capabilities that the log of the running case lacks, and whether the case runs all the same.
``contract_report`` reads them for the page of results."""


def has(harness: Harness, capability: str) -> bool:
    """Return True if the log has a capability. If it lacks the capability, the case still runs, and does not expect
    what only that capability gives."""
    there = bool(getattr(harness.capabilities, capability))
    if not there:
        missed.setdefault(capability, True)
    return there


def lacks(harness: Harness, what: str) -> bool:
    """Return True if the log lacks a capability without which the case has nothing to test. The case then returns
    at once."""
    there = harness.can_go_away if what == SERVER else getattr(harness.capabilities, what)
    if not there:
        missed[what] = False
    return not there


class Restartable(Protocol):
    """A server that can be killed, and restarted with the same ports and data."""

    def kill(self) -> None: ...

    def restart(self) -> None: ...


class Logs:
    """The part of a harness that all brokers share. To restart Skybridge, a test makes a new log."""

    def __init__(self, server: Restartable | None = None) -> None:
        """Take the server to kill in outages, or None if there is none."""
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
    """Part of a harness for logs whose positions are consecutive integers."""

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
    """Wait until the log is healthy. A single probe may fail, because its two seconds are short on
    a busy machine.
    """
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
    """Return the next ``count`` messages of a consumer, and skip changes of ownership."""
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
    """Wait until the consumer owns ``count`` partitions. It may get them one after another."""
    owned: set[Partition] = set()
    while len(owned) < count:
        owned |= set((await assigned(consumer)).partitions)


async def nothing_comes(consumer: Consumer, within: float = 0.3) -> None:
    """Assert that a consumer gets no message within this time in seconds. Its ownership may
    change.
    """
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        event = await consumer.poll(0.05)
        assert not isinstance(event, tuple), f"unexpected messages: {event}"


def bodies(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.record.body for message in messages]


class Member:
    """A member of a group that polls a consumer in its own task, as a worker does, and settles
    each message.
    """

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
