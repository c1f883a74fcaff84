"""The queue of records for one partition, and the wire batch that is in flight.

Callers that wait for room in one batch of aiokafka wake each other in quadratic time (aiokafka issue 528). In
this module no caller waits for room: a record is an entry in a plain queue. When the leader is free, the
whole queue becomes the next wire batch, encoded by aiokafka's record codec. The next batch forms while one is in
flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Any

from aiokafka import TopicPartition

from app.bindings.record import Record
from app.brokers.driver import DROPPED, Submission, answer, unanswered
from app.brokers.portable import LIMIT_KNOWN, size_of
from app.brokers.topic_resolver import REFUSED_FOR
from app.errors import BrokerError, BrokerRefused
from app.model.receipt import Receipt
from app.routing.partitions import partition_of

Entry = tuple[Submission, int, Record]
"""A submission, the index of a record in it, and the record."""

UNLIMITED = 1 << 62
_IDENTITY = frozenset({"ce_id", "ce_source"})
ALONE = 3  # records in a row that fail in batches of one, before the topic is taken to be at fault
DOUBTS = 1_000  # most doubted records of a topic


class Batcher:
    """The records of one partition that wait to be sent or are in flight. At most one wire batch of the
    partition is in flight at a time, so records of one key stay in order."""

    __slots__ = (
        "failed_alone",
        "in_flight",
        "most",
        "number",
        "on_wire",
        "queue",
        "resent",
        "rests_until",
        "size",
        "suspected_at",
        "suspects",
        "topic",
        "tp",
        "waiting",
        "wire",
    )  # fmt: skip

    def __init__(self, topic: TopicBatchers, number: int) -> None:
        self.topic = topic
        self.number = number
        self.tp = TopicPartition(topic.name, number)
        self.queue: deque[Entry] = deque()
        self.in_flight: list[Entry] = []
        self.wire: bytes | None = None  # the batch in flight, as it was encoded
        self.on_wire = False  # whether the batch in flight is in a request without an answer
        self.resent = False  # whether the batch in flight was sent more than once
        self.rests_until = 0.0  # when it may be sent, by the clock of the event loop, in seconds
        self.waiting = False  # listed by the publisher as having records to send
        self.size = 0  # bytes of the batch in flight
        self.suspects = 0  # records at the head of the queue, one of which the broker rejects
        self.suspected_at = 0  # batches that the topic had stored when the search began
        self.failed_alone = 0  # suspects in a row that failed in a batch of one
        self.most = UNLIMITED  # most records of the next batch, during the search

    def fill(self, batch: Any) -> bool:
        """Move records from the queue into ``batch``, and encode it as ``wire``. Return True if it has records. A
        record whose caller has a result already, or was cancelled, is dropped."""
        queue, in_flight = self.queue, self.in_flight
        most, topic = self.most, self.topic
        bounded = topic.bounded and topic.knows_bounds()
        while queue and len(in_flight) < most:
            entry = queue[0]
            submission, index, record = entry
            refusal = topic.refusal(record) if bounded else None
            if submission.done():
                submission.resolve(index, DROPPED)
            elif refusal is not None:
                submission.resolve(index, refusal)
            elif (
                bounded and in_flight and batch.size() + size_of(record) > topic.max_bytes > 0
            ) or not self._write(batch, entry):
                break
            queue.popleft()
        self.size = batch.size()
        if in_flight:
            self.wire = batch.build()
        return bool(in_flight)

    def _write(self, batch: Any, entry: Entry) -> bool:
        """Write a record into ``batch``, or fail it if that is impossible. Return False if the batch is full."""
        submission, index, record = entry
        headers = list(record.headers)
        try:
            written = batch.append(len(self.in_flight), None, record.key, record.body, headers)
        except (TypeError, ValueError) as error:  # nothing of the record was written
            text = f"the record cannot be written: {error}"
            submission.resolve(index, BrokerRefused(text, kind="unwritable"))
            return True
        if written is not None:
            self.in_flight.append(entry)
        return written is not None

    def succeed(self, broker: str, offset: int | None) -> None:
        """Resolve all records in flight as stored, with receipts of ``broker``. ``offset`` is the offset of
        the first record, or None if the broker did not return it."""
        in_flight = self._unload()
        self.failed_alone = 0
        self.topic.count_stored(in_flight)
        name, number = self.topic.name, self.number
        if offset is None:
            for submission, index, _ in in_flight:
                submission.resolve(index, Receipt(broker, name, number, ""))
            return
        for submission, index, _ in in_flight:
            submission.resolve(index, Receipt(broker, name, number, str(offset)))
            offset += 1

    def narrow(self) -> None:
        """Halve the number of records of the next batch. Repeated halving finds the record that the broker
        rejects."""
        if not self.suspects:
            self.suspected_at, self.failed_alone = self.topic.taken, 0
        self.suspects = max(self.suspects, len(self.in_flight))
        self.most = max(1, len(self.in_flight) // 2)

    def learn_size(self, *, compressed: bool) -> None:
        """Remember a size limit of the topic, because the batch in flight was too large. A limit for single
        records is learnt only without compression, because compressed sizes of records differ too much."""
        largest = max(size_of(record) for _, _, record in self.in_flight)
        if len(self.in_flight) == 1:
            if not compressed:
                self.topic.learn(too_large=largest)
        elif largest * 2 < self.size:  # only the sum of the records is too large
            self.topic.learn(max_bytes=self.size // 2)

    def requeue(self) -> None:
        """Return the records in flight that have no result to the head of the queue, in their order. If the
        topic was deleted, they fail."""
        in_flight, self.in_flight = self.in_flight, []
        self.wire, self.resent = None, False
        self.queue.extendleft(reversed(unanswered(in_flight)))
        if self.topic.gone is not None:
            self.fail_queued(self.topic.gone)

    def fail(self, error: BrokerError) -> None:
        """Resolve all records in flight with ``error``."""
        answer(self._unload(), error)

    def refuse(self, named: Collection[int], why: Callable[[int, Record], BrokerError]) -> bool:
        """Fail the records in flight whose indexes are in ``named``, and queue the others again. ``why``
        returns the error of a record. Return False, with nothing changed, if no index is in the batch."""
        culprits = {index for index in named if 0 <= index < len(self.in_flight)}
        for place in culprits:
            submission, index, record = self.in_flight[place]
            submission.resolve(index, why(place, record))
        if culprits:
            self.in_flight = [each for at, each in enumerate(self.in_flight) if at not in culprits]
            self.suspects = max(0, self.suspects - len(culprits))
            self.most = self.most if self.suspects else UNLIMITED
            self.requeue()
        return bool(culprits)

    def is_at_fault(self) -> bool:
        """Return True if the record in flight is at fault. The batch has only this record, and the broker
        rejected it with a code that does not name a cause. The record is at fault if the topic has stored
        other records since it first failed."""
        [(_, _, record)] = self.in_flight
        among_others = self.suspects > 0 and self.topic.taken > self.suspected_at
        return self.topic.doubts(record) or among_others

    def give_up_suspects(self, error: BrokerError) -> None:
        """Fail the only record in flight. After three such records in a row, fail all suspects. The topic has
        stored no batch in the meantime, so the topic is probably at fault, not the records."""
        self.failed_alone += 1
        rest = self.suspects - 1 if self.failed_alone >= ALONE else 0
        self.fail(error)
        answer([self.queue.popleft() for _ in range(min(rest, len(self.queue)))], error)
        if rest > 0:
            self.suspects, self.most = 0, UNLIMITED

    def _unload(self) -> list[Entry]:
        in_flight, self.in_flight = self.in_flight, []
        self.wire, self.resent = None, False
        if self.suspects:
            self.suspects = max(0, self.suspects - len(in_flight))
            self.most = self.most if self.suspects else UNLIMITED
        return in_flight

    def drop_answered(self) -> int:
        """Remove queued records whose caller has a result already. Return the number of removed records."""
        before = len(self.queue)
        self.queue = deque(unanswered(self.queue))
        return before - len(self.queue)

    def fail_queued(self, error: BrokerError) -> None:
        """Resolve all queued records with ``error``."""
        queue, self.queue = self.queue, deque()
        answer(queue, error)

    def holds_answered(self) -> bool:
        """Return True if the caller of any record in flight has a result already. The batch must not be sent
        again then."""
        return any(submission.done() for submission, _, _ in self.in_flight)


class TopicBatchers:
    """The batchers of one topic, and the sizes and keys that the broker is known to reject."""

    __slots__ = (
        "_doubted", "_keyed", "_keyed_until", "_keyless", "_known_until", "batchers", "bounded", "gone", "max_bytes", "name",
        "taken", "too_large",
    )  # fmt: skip

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.bounded = False  # whether the broker was seen to reject sizes or records without a key
        self.max_bytes = 0  # most bytes of a wire batch, learnt from a rejection; 0 is unknown
        self.too_large = 0  # bytes of the smallest record rejected for its size; 0 is unknown
        self.taken = 0  # wire batches stored
        self.gone: BrokerError | None = None  # why the topic is no longer published to
        self.batchers = [Batcher(self, number) for number in range(partitions)]
        # By digest of the record: ``taken`` when the record first failed in a batch of one.
        self._doubted: dict[bytes, int] = {}
        self._keyed: BrokerRefused | None = None  # why records without a key are rejected
        self._keyed_until = 0.0
        self._keyless = 0
        self._known_until = 0.0

    def count_stored(self, entries: Sequence[Entry]) -> None:
        """Note that a wire batch was stored. Its records are no longer suspected to be at fault."""
        self.taken += 1
        if self._doubted:
            for _, _, record in entries:
                self._doubted.pop(_digest(record), None)

    def doubts(self, record: Record) -> bool:
        """Return True if the record has failed alone in a batch before, and the topic has stored other
        batches since then. Otherwise remember this failure. The broker's error code does not name a cause."""
        digest = _digest(record)
        if digest not in self._doubted and len(self._doubted) >= DOUBTS:
            del self._doubted[next(iter(self._doubted))]
        return self.taken > self._doubted.setdefault(digest, self.taken)

    def learn(self, *, too_large: int = 0, max_bytes: int = 0) -> None:
        """Remember size limits of the broker, in bytes, for a while. An operator may raise them at any
        time."""
        self.too_large = too_large or self.too_large
        self.max_bytes = max_bytes or self.max_bytes
        self._known_until = monotonic() + LIMIT_KNOWN
        self.bounded = True

    def demand_keys(self, error: BrokerRefused) -> None:
        """Reject records without a key for a moment, because each attempt to send one costs a wire batch. An
        operator may change the topic at any time."""
        self._keyed, self._keyed_until = error, monotonic() + REFUSED_FOR
        self.bounded = True

    def knows_bounds(self) -> bool:
        """Return True if size limits of the topic are known. A limit is forgotten after a while, so that
        larger records are tried again."""
        if self._keyed is not None and monotonic() >= self._keyed_until:
            self._keyed = None
        self.bounded = self._knows_sizes() or self._keyed is not None
        return self.bounded

    def _knows_sizes(self) -> bool:
        if not (self.too_large or self.max_bytes):
            return False
        if monotonic() >= self._known_until:
            self.too_large = self.max_bytes = 0
            return False
        return True

    def batcher(self, key: bytes | None) -> Batcher:
        """Return the batcher for a key. Records without a key stay on one partition until its batch is
        sent."""
        if key is None:
            return self.batchers[self._keyless]
        return self.batchers[partition_of(key, len(self.batchers))]

    def refusal(self, record: Record) -> BrokerRefused | None:
        """Return an error if the topic is known to reject the record, because it is too large or has no key.
        Otherwise return None."""
        if record.key is None and self._keyed is not None:
            return self._keyed
        if not self.too_large or size_of(record) < self.too_large:
            return None
        return BrokerRefused(
            f"topic {self.name} does not accept a record of {size_of(record)} bytes",
            kind="record-too-large",
        )

    def on_batch_sent(self, batcher: Batcher) -> None:
        """Note that a wire batch of a partition was sent. The next records without a key go to the next
        partition."""
        if batcher.number == self._keyless:
            self._keyless = (batcher.number + 1) % len(self.batchers)

    def end(self, error: BrokerError) -> None:
        """Fail all records that are not on the wire. Those on the wire fail with ``error`` too, unless the broker
        stores them."""
        self.gone = error
        for batcher in self.batchers:
            batcher.fail_queued(error)

    def grow(self, partitions: int) -> None:
        """Add batchers for partitions that an operator has added."""
        self.batchers += [Batcher(self, number) for number in range(len(self.batchers), partitions)]


def _digest(record: Record) -> bytes:
    """Return a digest of the record. Two sendings of one event have the same digest, although their trace
    headers may differ."""
    named = [pair for pair in record.headers if pair[0] in _IDENTITY]
    parts = [record.key, record.body, *(named or record.headers)]
    return blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).digest()
