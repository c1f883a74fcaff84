"""The publishing state of a topic's partitions: records that wait for a producer of the client, and records
in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from pulsar import Result

from app.bindings.record import Record
from app.brokers.driver import DROPPED, Submission
from app.brokers.pulsar.positions import Position
from app.errors import BrokerError, PublishUnknown
from app.model.receipt import Receipt
from app.routing.partitions import partition_of

OnResult = Callable[[Result, Position | None], None]
"""A function that is called with the result of one record, and with its position if it is stored."""


class PartitionProducer(Protocol):
    """A producer of one partition, of ``wire`` or of the client library."""

    def is_connected(self) -> bool:
        """Return True if the broker accepts records of this producer now."""

    def send(self, record: Record, done: OnResult, dropped: Callable[[], bool]) -> None:
        """Publish a record. ``dropped`` returns True if its caller has a result already, so that the record must not
        be sent any more. Raise TypeError or ValueError for a record that cannot be encoded; nothing is sent then."""


UNKNOWN = PublishUnknown("the connection was lost before Pulsar answered")


class QueuedRecord:
    """A record to publish, with its submission and the index in it.

    Attributes:
        batcher: The batcher of the partition.
        tried: True as soon as a client had the record, because the broker may then have stored it.
        failed: True if the last client reported that it did not publish the record.
        gone: True if the entry has a result, or another entry replaces it. Later answers for this entry are
            ignored.
    """

    __slots__ = ("batcher", "failed", "gone", "index", "record", "submission", "tried")

    def __init__(
        self, batcher: Batcher, submission: Submission, index: int, record: Record
    ) -> None:
        self.batcher = batcher
        self.submission = submission
        self.index = index
        self.record = record
        self.tried = False
        self.failed = False
        self.gone = False

    def resolve(self, result: Receipt | BrokerError) -> None:
        self.submission.resolve(self.index, result)

    def fail(self, error: BrokerError) -> None:
        """Resolve the record with ``error``. If the broker may have stored the record, resolve it with
        "unknown"."""
        self.resolve(UNKNOWN if self.tried else error)

    def copy_for_retry(self) -> QueuedRecord:
        """Return a new entry of the same record for the next client. Late answers of the last client are then
        ignored."""
        self.gone = True
        entry = QueuedRecord(self.batcher, self.submission, self.index, self.record)
        entry.tried = True
        return entry


class Batcher:
    """The publishing state of one partition. ``in_flight`` has the records without an answer, in their order."""

    __slots__ = (
        *("cause", "in_flight", "lost_at", "number", "opening", "producer", "queue", "topic"),
        "wire",
    )

    def __init__(self, topic: TopicBatchers, number: int, wire: str) -> None:
        self.topic = topic
        self.number = number
        self.wire = wire
        self.producer: PartitionProducer | None = None
        self.opening = False
        self.cause = ""  # why there is no producer
        self.lost_at: float | None = None  # when the last producer was lost, if none is open since
        self.queue: deque[QueuedRecord] = deque()
        self.in_flight: dict[QueuedRecord, None] = {}

    def connected(self) -> bool:
        return self.producer is not None and self.producer.is_connected()

    def holds_answered(self) -> bool:
        """Return True if the client still holds a record whose caller has a result already."""
        first = next(iter(self.in_flight), None)
        return first is not None and first.submission.done()

    def succeed(self, entry: QueuedRecord, receipt: Receipt) -> None:
        """Resolve a record as stored.

        Earlier records of the partition that failed are resolved as "unknown". They must not be sent again,
        because that would change the order. Batches by key may be answered in another order than their records have.
        """
        failed = []
        for first in self.in_flight:
            if first is entry:
                break
            if first.failed:
                failed.append(first)
        for each in failed:
            each.gone = True
            self.fail(each, UNKNOWN)
        del self.in_flight[entry]
        entry.resolve(receipt)

    def fail(self, entry: QueuedRecord, error: BrokerError) -> None:
        """Resolve one record in flight with ``error``."""
        del self.in_flight[entry]
        entry.resolve(error)

    def recall(self) -> None:
        """Take the records in flight back from the client, because the client is replaced.

        Records without a result return to the head of the queue in their order. Records with a result are
        dropped.
        """
        in_flight, self.in_flight, self.producer = self.in_flight, {}, None
        waiting = [entry.copy_for_retry() for entry in _unanswered(in_flight)]
        self.queue.extendleft(reversed(waiting))

    def fail_queued(self, error: BrokerError) -> None:
        """Resolve all queued records with ``error``. Records that the broker may have stored are resolved
        with "unknown"."""
        queue, self.queue = self.queue, deque()
        for entry in _unanswered(queue):
            entry.fail(error)


def _unanswered(entries: Iterable[QueuedRecord]) -> list[QueuedRecord]:
    kept: list[QueuedRecord] = []
    for entry in entries:
        if entry.submission.done():
            entry.gone = True
            entry.resolve(DROPPED)
        else:
            kept.append(entry)
    return kept


class TopicBatchers:
    """The batchers of one topic."""

    def __init__(self, name: str, wires: Iterable[str]) -> None:
        self.name = name
        self.batchers: list[Batcher] = []
        self._turn = 0
        self.grow(wires)

    def grow(self, wires: Iterable[str]) -> None:
        """Add batchers for new partitions. ``wires`` are the full names of all partitions."""
        for number, wire in enumerate(wires):
            if number >= len(self.batchers):
                self.batchers.append(Batcher(self, number, wire))

    def batcher(self, key: bytes | None) -> Batcher:
        """Return the batcher for a key. Records without a key use all partitions in turn."""
        batchers = self.batchers
        if key is None:
            self._turn = turn = (self._turn + 1) % len(batchers)
            return batchers[turn]
        return batchers[partition_of(key, len(batchers))]
