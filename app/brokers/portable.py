"""The part of a log that is the same for every broker: bounds, publish time-out, counts and health.

To keep a call of submit at about a microsecond, it creates only one object. This ``Submission`` is the
caller's future, the place for the driver's results, and the entry in the queue of deadlines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Collection, Mapping, Sequence
from contextlib import aclosing
from time import monotonic
from typing import TypeVar

import msgspec

from app.bindings.record import Record
from app.brokers.driver import Driver, EventLocator, JoinRequest, Submission
from app.brokers.recent import RecentPublishes
from app.brokers.sharing import SingleFlight
from app.errors import (
    BoundReached,
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    PublishUnknown,
    SkybridgeError,
)
from app.interfaces import Consumer, ConsumerFilter, Located, Log, PublishResult, ResultCallback
from app.model.message import Message, Partition
from app.model.metadata import NO_GROUPS, LogHealth, LogMetadata, ReadTopics
from app.model.receipt import Receipt
from app.model.start import StartAt
from app.routing.identity import Identity

__all__ = ["Driver", "LogStats", "PortableLog", "PublishBounds", "Submission", "size_of"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class PublishBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of publishing to one broker: how much may be in flight, and for how long. Times are in
    seconds."""

    records: int = 65_536
    bytes: int = 128 << 20
    publish_timeout: float = 10.0
    drain_timeout: float = 25.0
    retry_after: float = 1.0


class LogStats(msgspec.Struct, frozen=True):
    """The counts of records since the start, and of records in flight now."""

    stored: int
    failed: int
    timed_out: int
    refused: int
    records_in_flight: int
    bytes_in_flight: int


class PortableLog(Log):
    """The ``Log`` of a broker: adds bounds, deadlines, counts and error translation to a driver."""

    def __init__(self, driver: Driver, bounds: PublishBounds | None = None) -> None:
        self.name = driver.name
        self.capabilities = driver.capabilities
        self.driver = driver
        self.bounds = bounds or PublishBounds()
        self._max_record = driver.capabilities.max_record or self.bounds.bytes
        self._loop: asyncio.AbstractEventLoop | None = None
        self._accepting = False
        self._waiting: dict[Submission, None] = {}  # in the order of their deadlines
        self._timer: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()
        self._records = 0
        self._bytes = 0
        self._shared = SingleFlight()
        self._recent = RecentPublishes(driver.name, self.submit, _elapsed_ms)
        self._stored = self._failed = self._timed_out = self._refused = 0

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.driver.start()
        self._accepting = True

    async def stop(self) -> None:
        self._accepting = False
        await self._drain()
        await self._shared.close()
        await self.driver.stop()
        self._expire(float("inf"))

    def submit(
        self,
        topic: str,
        records: Sequence[Record],
        identities: Sequence[Identity | None] | None = None,
    ) -> asyncio.Future[list[PublishResult]]:
        if identities is not None and not self.capabilities.remembers:
            return self._recent.submit(topic, records, identities)
        sizes = [size_of(record) for record in records]
        size, largest = sum(sizes), max(sizes, default=0)
        if not records or not self._has_room(len(records), size, largest):
            refused: asyncio.Future[list[PublishResult]] = (
                asyncio.get_running_loop().create_future()
            )
            refused.set_result(self._refusals(len(records), largest))
            return refused
        submission = self._begin(topic, records, size)
        submission.identities = identities
        self.driver.publish(submission)
        return submission

    def submit_one(
        self, topic: str, record: Record, on_result: ResultCallback
    ) -> PublishResult | None:
        size = size_of(record)
        if not self._has_room(1, size, size):
            return self._refusals(1, size)[0]
        submission = self._begin(topic, (record,), size)
        self.driver.publish(submission)
        if submission.done():
            return submission.result()[0]
        submission.on_result = on_result
        return None

    def _has_room(self, count: int, size: int, largest: int) -> bool:
        bounds = self.bounds
        return (
            self._accepting
            and self._records + count <= bounds.records
            and self._bytes + size <= bounds.bytes
            and largest <= self._max_record
        )

    def _begin(self, topic: str, records: Sequence[Record], size: int) -> Submission:
        """Create a submission and count it as in flight. The caller passes it to the driver."""
        loop = self._loop or asyncio.get_running_loop()
        count = len(records)
        submission = Submission(loop=loop)
        submission.owner = self
        submission.topic = topic
        submission.records = records
        submission.identities = None
        submission.results = [None] * count
        submission.open = count
        submission.size = size
        submission.on_result = None
        submission.deadline = loop.time() + self.bounds.publish_timeout
        self._records += count
        self._bytes += size
        self._waiting[submission] = None
        if self._timer is None:
            self._timer = loop.call_at(submission.deadline, self._on_deadline)
        return submission

    def release(self, submission: Submission) -> None:
        """Stop counting a submission as in flight and resolve its future. Called when all of its records
        have a result."""
        results = submission.results
        self._records -= len(results)
        self._bytes -= submission.size
        self._waiting.pop(submission, None)
        for result in results:
            if type(result) is Receipt:
                self._stored += 1
            else:
                self._failed += 1
        if not submission.done():
            _resolve(submission, results)  # type: ignore[arg-type]  # all have a result now
        if not self._records:
            self._drained.set()

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: StartAt,
        *,
        client_id: str = "",
        wanted: ConsumerFilter | None = None,
        shared: str = "",
    ) -> Consumer:
        return await self._translated(
            self.driver.subscribe(JoinRequest(group, topics, start, client_id, wanted, shared))
        )

    async def read(
        self, partition: Partition, start: str, until: str | None = None
    ) -> AsyncGenerator[Message, None]:
        self._demand_replayable()
        try:
            async with aclosing(self.driver.read(partition, start, until)) as messages:
                async for message in messages:
                    yield message
        except SkybridgeError:
            raise
        except Exception as error:
            raise self._meaning(error) from error

    async def locate(self, event_id: str, source: str | None, since_ms: int) -> Located | None:
        if not isinstance(self.driver, EventLocator):
            return None
        return await self._translated(self.driver.locate(event_id, source, since_ms))

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        if not self.capabilities.seek_by_time:
            raise self._not_capable("this broker cannot find a record by time")
        return await self._translated(self.driver.position_at(partition, time_ms))

    async def position_back(self, partition: Partition, count: int) -> str:
        self._demand_replayable()
        return await self._translated(self.driver.position_back(partition, count))

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: ReadTopics = NO_GROUPS
    ) -> LogMetadata:
        read = tuple((group, tuple(of_group)) for group, of_group in groups.items())
        asked = (None if topics is None else tuple(topics), read)
        return await self._translated(
            self._shared.ask(asked, lambda: self.driver.metadata(topics, groups))
        )

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self._translated(self.driver.create_topic(topic, partitions))

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        if not topics:
            return {}
        return await self._translated(self.driver.check_targets(topics))

    async def health(self) -> LogHealth:
        if not self._accepting:
            return LogHealth(healthy=False, cause=f"log {self.name} is not running")
        try:
            return await self._translated(self.driver.health())
        except BrokerError as error:
            return LogHealth(healthy=False, cause=str(error))

    def stats(self) -> LogStats:
        return LogStats(
            stored=self._stored,
            failed=self._failed,
            timed_out=self._timed_out,
            refused=self._refused,
            records_in_flight=self._records,
            bytes_in_flight=self._bytes,
        )

    def _demand_replayable(self) -> None:
        if not self.capabilities.replayable:
            raise self._not_capable(
                "reading a queue consumes its messages (reading a stream does not)"
            )

    def _not_capable(self, why: str) -> BrokerRefused:
        return BrokerRefused(f"{self.name}: {why}", kind="not-capable", broker=self.name)

    def _refusals(self, count: int, largest: int) -> list[PublishResult]:
        self._refused += count
        return [self._refusal(largest)] * count

    def _refusal(self, largest: int) -> BrokerError:
        if not self._accepting:
            return BrokerUnavailable(f"log {self.name} is not running", broker=self.name)
        if largest > self._max_record:
            return BrokerRefused(
                f"a record of {largest} bytes is larger than the log's {self._max_record}",
                kind="record-too-large",
                broker=self.name,
            )
        return BoundReached(
            f"{self._records} records and {self._bytes} bytes are already in flight to {self.name}",
            broker=self.name,
            retry_after=self.bounds.retry_after,
        )

    def _on_deadline(self) -> None:
        assert self._loop is not None  # noqa: S101 - timers are set by submit alone
        self._timer = None
        self._expire(self._loop.time())
        head = next(iter(self._waiting), None)
        # A resolved caller may have published again already, which has set the timer.
        if head is not None and self._timer is None:
            self._timer = self._loop.call_at(head.deadline, self._on_deadline)

    def _expire(self, now: float) -> None:
        """Resolve submissions whose deadline has passed. Their result is "unknown".

        Their records count as in flight until the driver resolves them. Otherwise memory could grow without
        bound while a broker stalls.
        """
        due: list[Submission] = []
        for submission in self._waiting:
            if submission.deadline > now:
                break
            due.append(submission)
        for submission in due:
            del self._waiting[submission]
            if not submission.done():
                self._timed_out += submission.open
                _resolve(
                    submission,
                    [self._unknown() if known is None else known for known in submission.results],
                )

    def _unknown(self) -> PublishUnknown:
        return PublishUnknown(
            f"no answer from {self.name} within {self.bounds.publish_timeout:g} s",
            broker=self.name,
            retry_after=self.bounds.retry_after,
        )

    async def _drain(self) -> None:
        """Wait until no record is in flight. The wait ends at the latest after the drain time-out."""
        self._drained.clear()
        if self._records:
            try:
                async with asyncio.timeout(self.bounds.drain_timeout):
                    await self._drained.wait()
            except TimeoutError:
                return

    async def _translated(self, answer: Awaitable[T]) -> T:
        """Await ``answer`` and translate errors of the client library."""
        try:
            return await answer
        except SkybridgeError:
            raise
        except Exception as error:
            raise self._meaning(error) from error

    def _meaning(self, error: Exception) -> Exception:
        """Return the broker error that a client library's error means, or the error itself if it is a bug."""
        return self.driver.translate(error) or error


def _resolve(submission: Submission, results: list[PublishResult]) -> None:
    submission.set_result(results)
    on_result = submission.on_result
    if on_result is None:
        return
    try:
        on_result(results[0])
    except Exception:  # noqa: BLE001 - a fault of one caller must not keep other callers waiting
        _log.exception("the callback for a publish result failed")


def _elapsed_ms() -> int:
    """Return the monotonic time in ms."""
    return round(monotonic() * 1000)


LIMIT_KNOWN = 60.0
"""The seconds for which Skybridge remembers the size of a record that a topic rejected. An operator may raise
the topic's limit at any time."""


def size_of(record: Record) -> int:
    """Return the size of a record in bytes: key, headers and body. The limits of publishing count this
    size."""
    key, body = record.key, record.body
    size = (len(key) if key else 0) + (len(body) if body else 0)
    for name, value in record.headers:
        size += len(name) + (len(value) if value else 0)
    return size
