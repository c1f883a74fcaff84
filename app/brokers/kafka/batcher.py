"""The queue of records for one partition, and the wire batch that is in flight.

Callers that wait for room in one batch of aiokafka wake each other in quadratic time (aiokafka issue 528). In
this module no caller waits for room: a record is an entry in a plain queue. When the leader is free, the
whole queue becomes the next wire batch, encoded by aiokafka's record codec. The next batch forms while one is in
flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

from aiokafka import TopicPartition

from app.bindings.record import Record
from app.brokers.driver import DROPPED, Submission, answer, unanswered
from app.brokers.kafka.topic_state import TopicState
from app.brokers.portable import size_of
from app.errors import BrokerError, BrokerRefused, PublishUnknown
from app.model.receipt import Receipt
from app.routing.partitions import partition_of

Entry = tuple[Submission, int, Record]
"""A submission, the index of a record in it, and the record."""

UNLIMITED = 1 << 62
ALONE = 3  # records in a row that fail in batches of one, before the topic is taken to be at fault


class Batcher:
    """The records of one partition that wait to be sent or are in flight. At most one wire batch of the
    partition is in flight at a time, so records of one key stay in order."""

    __slots__ = (
        "_in_doubt",
        "failed_alone",
        "in_flight",
        "most",
        "number",
        "on_wire",
        "queue",
        "resent",
        "rests_until",
        "seen",
        "size",
        "suspected_at",
        "suspects",
        "topic",
        "tp",
        "waiting",
        "wire",
    )  # fmt: skip

    def __init__(self, topic: TopicState, number: int) -> None:
        self.topic = topic
        self.number = number
        self.tp = TopicPartition(topic.name, number)
        self.queue: deque[Entry] = deque()
        self.in_flight: list[Entry] = []
        self.wire: bytes | None = None  # the batch in flight, as it was encoded
        self.on_wire = False  # whether the batch in flight is in a request without an answer
        self.resent = False  # whether the batch in flight was sent more than once
        self.rests_until = 0.0  # when it may be sent, by the clock of the event loop, in seconds
        self.seen = -1  # the look of the shipper at which answered records were dropped
        self.waiting = False  # listed by the publisher as having records to send
        self.size = 0  # bytes of the batch in flight
        self.suspects = 0  # records at the head of the queue, one of which the broker rejects
        self.suspected_at = 0  # batches that the topic had stored when the search began
        self.failed_alone = 0  # suspects in a row that failed in a batch of one
        self.most = UNLIMITED  # most records of the next batch, during the search
        # Records that may be stored, although no answer has confirmed it: submission and index.
        self._in_doubt: set[tuple[Submission, int]] = set()

    def fill(self, batch: Any) -> bool:
        """Move records from the queue into ``batch``, and encode it as ``wire``. Return True if it has records. A
        record whose caller has a result already, or was cancelled, is dropped."""
        queue, in_flight = self.queue, self.in_flight
        most, topic = self.most, self.topic
        if self._in_doubt:
            self._in_doubt = {each for each in self._in_doubt if not each[0].done()}
        bounded = topic.bounded and topic.knows_bounds()
        while queue and len(in_flight) < most:
            entry = queue[0]
            submission, index, record = entry
            refusal = topic.refusal(record) if bounded else None
            if submission.done():
                submission.resolve(index, DROPPED)
            elif refusal is not None:
                submission.resolve(index, self._meaning(submission, index, refusal))
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
        self.topic.count_stored(record for _, _, record in in_flight)
        name, number = self.topic.name, self.number
        if offset is None:
            for submission, index, _ in in_flight:
                submission.resolve(index, Receipt(broker, name, number, ""))
            return
        for submission, index, _ in in_flight:
            submission.resolve(index, Receipt(broker, name, number, str(offset)))
            offset += 1

    def doubt(self) -> None:
        """Note that the records in flight may be stored, because an attempt to send them had no certain answer. A later
        error of such a record does not show that the record is missing."""
        self._in_doubt.update([(submission, index) for submission, index, _ in self.in_flight])

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
        self._answer(self._unload(), error)

    def refuse(self, named: Collection[int], why: Callable[[int, Record], BrokerError]) -> bool:
        """Fail the records in flight whose indexes are in ``named``, and queue the others again. ``why``
        returns the error of a record. Return False, with nothing changed, if no index is in the batch."""
        culprits = {index for index in named if 0 <= index < len(self.in_flight)}
        for place in culprits:
            submission, index, record = self.in_flight[place]
            submission.resolve(index, self._meaning(submission, index, why(place, record)))
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
        self._answer([self.queue.popleft() for _ in range(min(rest, len(self.queue)))], error)
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
        self._answer(queue, error)

    def holds_answered(self) -> bool:
        """Return True if the caller of any record in flight has a result already. The batch must not be sent
        again then."""
        return any(submission.done() for submission, _, _ in self.in_flight)

    def _answer(self, entries: Iterable[Entry], error: BrokerError) -> None:
        if not self._in_doubt:
            answer(entries, error)
            return
        for submission, index, _ in entries:
            submission.resolve(index, self._meaning(submission, index, error))

    def _meaning(self, submission: Submission, index: int, error: BrokerError) -> BrokerError:
        """Return the error that the caller of a record gets. The record may be stored by an earlier attempt."""
        if (submission, index) not in self._in_doubt or isinstance(error, PublishUnknown):
            return error
        return PublishUnknown(
            f"an earlier attempt may have stored the record; the last one ended with: {error}",
            broker=error.broker,
            retry_after=error.retry_after,
        )


class TopicBatchers(TopicState):
    """The batchers of one topic."""

    __slots__ = ("batchers",)

    def __init__(self, name: str, partitions: int) -> None:
        super().__init__(name, partitions)
        self.batchers = [Batcher(self, number) for number in range(partitions)]

    def batcher(self, key: bytes | None) -> Batcher:
        """Return the batcher for a key. Records without a key stay on one partition until its batch is
        sent."""
        if key is None:
            return self.batchers[self.keyless]
        return self.batchers[partition_of(key, len(self.batchers))]

    def end(self, error: BrokerError) -> None:
        """Fail all records that are not on the wire. Those on the wire fail with ``error`` too, unless the broker
        stores them."""
        self.gone = error
        for batcher in self.batchers:
            batcher.fail_queued(error)

    def grow(self, partitions: int) -> None:
        """Add batchers for partitions that an operator has added."""
        self.batchers += [Batcher(self, number) for number in range(len(self.batchers), partitions)]
        self.partitions = partitions
