"""An implementation of ``interfaces.Log`` in memory, whose ownership and failures a test sets."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress

from app.bindings.record import Record
from app.delivery.offsets import FinishedRuns
from app.errors import BrokerError, BrokerRefused, PositionOutOfRange
from app.interfaces import Clock, ConsumerFilter, PublishResult
from app.model.capabilities import Capabilities
from app.model.message import Assigned, ConsumerEvent, Lost, Message, Partition, Revoked
from app.model.metadata import (
    NO_GROUPS,
    GroupLag,
    LogHealth,
    LogMetadata,
    PartitionMetadata,
    ReadTopics,
    TopicMetadata,
)
from app.model.receipt import Receipt
from app.model.start import StartAt
from app.routing.partitions import partition_of
from app.worker.timing import wait_for_event

_ABLE = "replayable", "partitions", "seek_by_time", "null_body", "binary_keys", "generations"
CAPABILITIES = Capabilities(**dict.fromkeys(_ABLE, True))
Stored = tuple[Record, int]  # with its time, milliseconds since the epoch
Commit = tuple[int, str]  # position, finished runs above it


class FakeLog:
    """A log in memory.

    ``refusals`` are the results of the next submissions, instead of receipts; ``trouble`` are
    errors that the next polls raise. ``killed`` simulates the end of the process: nothing is
    committed any more. ``clock`` is the clock by which polls wait, real time by default. ``unfit``
    has by topic why nothing would retain its records.
    """

    def __init__(self, name: str = "log", *, batch: int = 100, clock: Clock | None = None) -> None:
        self.name = name
        self.clock = clock
        self.unfit: dict[str, str] = {}
        self.capabilities = CAPABILITIES
        self.batch = batch
        self.partitions: dict[Partition, list[Stored]] = {}
        self.earliest: dict[Partition, int] = defaultdict(int)
        self.commits: dict[str, dict[Partition, Commit]] = defaultdict(dict)
        self.members: dict[str, list[FakeConsumer]] = defaultdict(list)
        self.generations: dict[str, int] = defaultdict(int)
        self.refusals: deque[BrokerError] = deque()
        self.trouble: deque[Exception] = deque()
        self.killed = False
        self.changed = asyncio.Event()
        self.now_ms = 1_700_000_000_000
        self._keyless = 0

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def create_topic(self, topic: str, partitions: int) -> None:
        for number in range(partitions):
            self.partitions.setdefault(Partition(topic, number), [])

    def submit(
        self, topic: str, records: Sequence[Record], identities: object = None
    ) -> asyncio.Future[list[PublishResult]]:
        done: asyncio.Future[list[PublishResult]] = asyncio.get_running_loop().create_future()
        done.set_result([self._store(topic, record) for record in records])
        self.wake()
        return done

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: StartAt,
        *,
        client_id: str = "",
        wanted: ConsumerFilter | None = None,
        shared: str = "",
    ) -> FakeConsumer:
        consumer = FakeConsumer(self, group)
        for partition in self.of(*topics):
            self.commits[group].setdefault(partition, (self._resolve(partition, start), ""))
        self.members[group].append(consumer)
        self._share(group, self.of(*topics))
        return consumer

    async def read(
        self, partition: Partition, start: str, until: str | None = None
    ) -> AsyncIterator[Message]:
        stored = self.partitions[partition]
        for offset in range(int(start), len(stored) if until is None else int(until)):
            yield self.message(partition, offset, 0)

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        return str(self._resolve(partition, StartAt("time", time_ms=time_ms)))

    async def position_back(self, partition: Partition, count: int) -> str:
        stored = self.partitions[partition]
        return str(max(self.earliest[partition], len(stored) - count))

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: ReadTopics = NO_GROUPS
    ) -> LogMetadata:
        names = sorted({partition.topic for partition in self.partitions})
        wanted = [name for name in names if topics is None or name in topics]
        return LogMetadata(
            self.name,
            tuple(TopicMetadata(name, self._ends(name)) for name in wanted),
            tuple(
                self._lag(group, at)
                for group in groups
                for at in self.of(*wanted)
                if at.topic in groups[group]
            ),
        )

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        return {topic: self.unfit[topic] for topic in topics if topic in self.unfit}

    async def health(self) -> LogHealth:
        return LogHealth(healthy=True)

    def of(self, *topics: str) -> list[Partition]:
        return [partition for partition in self.partitions if partition.topic in topics]

    def committed(self, group: str, partition: Partition) -> int:
        return self.commits[group][partition][0]

    def give(self, group: str, partitions: Collection[Partition], member: int = -1) -> None:
        """Assign partitions to a member under a new epoch."""
        self.generations[group] += 1
        self.members[group][member].assign(partitions, self.generations[group])

    def revoke(self, group: str, partitions: Collection[Partition], member: int = -1) -> None:
        self.members[group][member].events.append(Revoked(tuple(partitions), 0))
        self.wake()

    def lose(self, group: str, partitions: Collection[Partition], member: int = -1) -> None:
        self.members[group][member].lose(partitions)

    def message(self, partition: Partition, offset: int, epoch: int) -> Message:
        record, time_ms = self.partitions[partition][offset]
        return Message(record, partition, str(offset), offset, time_ms, epoch)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def _share(self, group: str, partitions: Sequence[Partition]) -> None:
        """Assign all partitions to the newest member. That suffices for tests with one member, and
        for tests of a fail-over."""
        self.generations[group] += 1
        for other in self.members[group][:-1]:
            other.lose(partitions)
        self.members[group][-1].assign(partitions, self.generations[group])

    def _store(self, topic: str, record: Record) -> PublishResult:
        if self.refusals:
            return self.refusals.popleft()
        count = len(self.of(topic))
        if not count:
            return BrokerRefused(f"no topic {topic}", kind="unknown-topic", broker=self.name)
        if record.key is None:
            self._keyless += 1
        number = self._keyless % count if record.key is None else partition_of(record.key, count)
        stored = self.partitions[Partition(topic, number)]
        stored.append((record, self.now_ms))
        return Receipt(self.name, topic, number, str(len(stored) - 1))

    def _resolve(self, partition: Partition, start: StartAt) -> int:
        stored = self.partitions[partition]
        if start.kind == "earliest":
            return self.earliest[partition]
        if start.kind == "position" and partition.number in start.positions:
            return int(start.positions[partition.number])
        if start.kind == "time":
            later = (at for at, (_, time_ms) in enumerate(stored) if time_ms >= start.time_ms)
            return next(later, len(stored))
        return len(stored)

    def _ends(self, topic: str) -> tuple[PartitionMetadata, ...]:
        return tuple(
            PartitionMetadata(
                at.number, 0, (0,), (0,), str(self.earliest[at]), str(len(self.partitions[at]))
            )
            for at in self.of(topic)
        )

    def _lag(self, group: str, at: Partition) -> GroupLag:
        """Return the lag, None in a partition that the group does not read, as real brokers do."""
        if at not in self.commits[group]:
            return GroupLag(group, at.topic, at.number, None, None)
        committed = self.committed(group, at)
        lag = len(self.partitions[at]) - committed
        return GroupLag(group, at.topic, at.number, str(committed), lag)


class FakeConsumer:
    """A consumer of ``FakeLog`` that commits whenever it settles.

    ``leases`` set to False makes ``holds`` return False without an event, as an expired lease does.
    """

    def __init__(self, log: FakeLog, group: str) -> None:
        self.log = log
        self.group = group
        self.events: deque[ConsumerEvent] = deque()
        self.paused: set[Partition] = set()
        self.owned: dict[Partition, int] = {}
        self.runs: dict[Partition, FinishedRuns] = {}
        self.settled: list[Message] = []
        self.settle_calls = 0
        self.leases = True
        self.nudged = False
        self.closed = False
        self._leaving: tuple[Partition, ...] = ()

    def assign(self, partitions: Collection[Partition], epoch: int) -> None:
        self.events.append(Assigned(tuple(partitions), epoch))
        self.log.wake()

    def lose(self, partitions: Collection[Partition]) -> None:
        for partition in partitions:
            self._forget(partition)
        self.events.append(Lost(tuple(partitions), 0))
        self.log.wake()

    async def poll(self, wait: float) -> ConsumerEvent | None:
        for partition in self._leaving:
            self._forget(partition)
        self._leaving = ()
        if self.log.trouble:
            raise self.log.trouble.popleft()
        changed, found = self.log.changed, self._next()
        if found is None:
            await asyncio.sleep(0)
            await self._change(changed, wait)
            found = self._next()
        return found

    async def _change(self, changed: asyncio.Event, wait: float) -> None:
        if self.nudged:
            self.nudged = False
            return
        if self.log.clock is not None:
            await wait_for_event(changed, self.log.clock, wait)
        elif wait > 0:
            # wait_for of Python 3.11 swallows a cancel when the event is set
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await changed.wait()

    async def settle(self, messages: Collection[Message]) -> None:
        self.settle_calls += 1
        for message in messages:
            if self.log.killed or self.owned.get(message.partition) != message.epoch:
                continue
            self.settled.append(message)
            self.runs[message.partition].finish(message.offset)
        await self.commit()

    async def commit(self) -> None:
        if self.log.killed:
            return
        for partition in self.owned:
            runs = self.runs[partition]
            self.log.commits[self.group][partition] = (runs.commit, runs.metadata())

    def window(self, partition: Partition) -> int:
        return self.runs[partition].window if partition in self.runs else 0

    def pause(self, partitions: Collection[Partition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        self.paused.difference_update(partitions)
        self.log.wake()

    def nudge(self) -> None:
        self.nudged = True
        self.log.wake()

    def holds(self, message: Message) -> bool:
        return self.leases and self.owned.get(message.partition) == message.epoch

    async def close(self) -> None:
        await self.commit()
        self.owned.clear()
        self.closed = True

    def _next(self) -> ConsumerEvent | None:
        if self.events:
            event = self.events.popleft()
            if isinstance(event, Assigned):
                self._take_over(event)
            if isinstance(event, Revoked):
                self._leaving = event.partitions
            return event
        batch = [message for partition in self.owned for message in self._fetch(partition)]
        return tuple(batch) or None

    def _take_over(self, event: Assigned) -> None:
        for partition in event.partitions:
            commit, metadata = self.log.commits[self.group].get(partition, (0, ""))
            self.owned[partition] = event.epoch
            self.paused.discard(partition)
            self.runs[partition] = FinishedRuns.restore(commit, metadata)

    def _fetch(self, partition: Partition) -> list[Message]:
        if partition in self.paused:
            return []
        runs, stored = self.runs[partition], self.log.partitions[partition]
        if runs.next < self.log.earliest[partition] or runs.next > len(stored):
            raise PositionOutOfRange(f"{partition} has no position {runs.next}")
        end = min(len(stored), runs.next + self.log.batch)
        epoch = self.owned[partition]
        return [
            self.log.message(partition, offset, epoch)
            for offset in range(runs.next, end)
            if runs.take(offset)
        ]

    def _forget(self, partition: Partition) -> None:
        self.owned.pop(partition, None)
        self.runs.pop(partition, None)
        self.paused.discard(partition)
