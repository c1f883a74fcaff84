"""One commit group: the records of many appends, staged by partition and stored in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import apsw
import msgspec

from app.bindings.record import Record
from app.errors import BrokerError, BrokerRefused
from app.interfaces import PublishResult
from app.log.codec import Fields, Row, Unstorable, check, encode_rows, fields_of
from app.log.event_index import fingerprints_of
from app.log.known import LogState
from app.log.partition_append import PartitionAppend, StoredAppend
from app.log.partitions import PartitionLog, Segment
from app.log.settings import EngineSettings
from app.model.receipt import Receipt
from app.routing.identity import Identity
from app.routing.partitions import partition_of


class AppendRequest(Protocol):
    """Records to append to one topic, with the receiver of their results.

    ``identities`` has the identity of each record for a route that deduplicates, or None."""

    topic: str
    records: Sequence[Record]
    identities: Sequence[Identity | None] | None

    def done(self) -> bool:
        """Return True if the caller has given up. Records that are not stored yet must then not be stored."""

    def resolve_all(self, results: list[PublishResult]) -> None: ...


Fates = list[tuple[AppendRequest, list[PublishResult]]]
"""The results of appends: for each append one result per record."""


class Piggyback:
    """Writes that join the transaction of a commit group, so that they cost no fsync of their own.

    A call of the object stores the writes in their own transaction, unless a commit group has stored them.

    Args:
        store: writes the rows in the current transaction, and returns the function to call after the commit.
    """

    def __init__(self, store: Callable[[apsw.Connection], Callable[[], None]]) -> None:
        self._store = store
        self._publish: Callable[[], None] | None = None
        self._durable = False

    def store(self, db: apsw.Connection) -> None:
        self._publish = self._store(db)

    def publish(self) -> None:
        """Apply the writes in memory after the commit."""
        if self._publish is not None:
            self._publish()
        self._durable = True

    def __call__(self, db: apsw.Connection) -> None:
        if not self._durable:
            with db:
                self.store(db)
            self.publish()


class StagedRecords:
    """The records that a commit group adds to one partition."""

    __slots__ = ("base", "partition", "prints", "records", "rows", "time_ms")

    def __init__(self, partition: PartitionLog, now_ms: int) -> None:
        self.partition = partition
        self.base = partition.next_offset
        self.time_ms = max(
            now_ms, partition.last_ms
        )  # never backwards, because times are searched by bisection
        self.records: list[Fields] = []
        self.rows: list[Row] = []
        self.prints = b""

    @property
    def next_offset(self) -> int:
        return self.base + len(self.records)

    @property
    def bytes(self) -> int:
        return sum(len(row[-1]) for row in self.rows)


class SingleAppend:
    """An append of one record, whose result is returned by ``CommitGroup.add``."""

    __slots__ = ("identities", "records", "topic")

    def __init__(self, topic: str, record: Record, identity: Identity | None = None) -> None:
        self.topic = topic
        self.records: Sequence[Record] = (record,)
        self.identities: Sequence[Identity | None] | None = (
            None if identity is None else (identity,)
        )

    def done(self) -> bool:
        return False

    def resolve_all(self, results: list[PublishResult]) -> None:
        """Ignore the results, because no caller waits for them."""


class CommitGroup:
    """The records of one transaction. Nothing is changed in memory before ``publish`` is called.

    The writer calls ``add`` for each append, then ``encode``, then ``store`` in a transaction, and ``publish``
    after its commit."""

    def __init__(self, settings: EngineSettings, known: LogState) -> None:
        self._catalogue = known.catalogue
        self._numbering = known.producers.begin()
        self._broker = settings.name
        self._now = settings.now_ms()
        self._recognition = known.identities.begin(self._now)
        self._events = known.events if known.events.keep else None
        self._settings = settings
        self._staged: dict[PartitionLog, StagedRecords] = {}
        self._opened: list[tuple[PartitionLog, Segment]] = []

    def add(self, append: AppendRequest) -> list[PublishResult]:
        """Stage the records of an append. Return one result per record, which is valid once ``store`` is committed."""
        if isinstance(append, PartitionAppend):
            return [self._place(append)]
        if append.identities is not None:
            return list(
                map(partial(self._add_once, append.topic), append.records, append.identities)
            )
        topic = self._catalogue.topics[append.topic]
        name, broker, partitions = topic.name, self._broker, topic.partitions
        results: list[PublishResult] = []
        for record in append.records:  # hot path: runs for every record
            key = record.key
            number = topic.spread() if key is None else partition_of(key, len(partitions))
            partition = partitions[number]
            staged = self._staged.get(partition) or self._staging(partition)
            records = staged.records
            results.append(Receipt(broker, name, number, str(staged.base + len(records))))
            records.append((key, record.headers, record.body, record.content_type))
        return results

    def add_checked(self, append: AppendRequest) -> list[PublishResult]:
        """Stage the records of an append one by one, so that a record that cannot be encoded is refused alone.

        A ``PartitionAppend`` is refused as a whole."""
        if isinstance(append, PartitionAppend):
            refused = next(filter(None, map(self._unstorable, append.records)), None)
            return [refused or self._place(append)]
        identities = append.identities or (None,) * len(append.records)
        return [
            self._add_checked(SingleAppend(append.topic, record, identity))
            for record, identity in zip(append.records, identities, strict=True)
        ]

    def encode(self) -> None:
        """Encode the staged records before the transaction. Raise one of ``Unstorable`` if a record cannot be
        stored."""
        for staged in self._staged.values():
            staged.rows = encode_rows(staged.base, staged.time_ms, staged.records)
            if self._events is not None:
                staged.prints = fingerprints_of(staged.records)

    def store(self, db: apsw.Connection) -> None:
        """Write the rows, producer states and identities in the current transaction.

        The next offset of a partition is not stored separately: it is the end of the partition's last row."""
        for staged in self._staged.values():
            segment = self._segment(db, staged.partition)
            for row in staged.rows:
                db.execute(segment.insert, row)
            if self._events is not None:
                self._events.store(db, segment, staged.base, staged.prints)
        self._numbering.store(db)
        self._recognition.store(db)

    def publish(self) -> list[StagedRecords]:
        """Make the records visible to readers after the commit. Return what was added to each partition."""
        self._numbering.publish()
        self._recognition.publish()
        for partition, segment in self._opened:
            partition.segments += (segment,)
        for staged in self._staged.values():
            partition = staged.partition
            active = partition.segments[-1]
            active.bytes += staged.bytes
            active.first_ms = active.first_ms or staged.time_ms
            active.last_ms = partition.last_ms = staged.time_ms
            partition.next_offset = staged.next_offset
        return list(self._staged.values())

    def _place(self, append: PartitionAppend) -> PublishResult:
        """Stage the records of a ``PartitionAppend``, unless its batch was stored before."""
        partitions = self._catalogue.topics[append.topic].partitions
        if not 0 <= append.partition < len(partitions):
            return BrokerRefused(f"{append.topic} has no such partition", kind="unknown-topic")
        partition, batch = partitions[append.partition], append.batch
        try:
            before = None if batch is None else self._numbering.judge(partition, batch)
        except BrokerRefused as refusal:
            return refusal
        if before is not None:
            append.stored = StoredAppend(before, None)
        else:
            staged = self._staging(partition)
            append.stored = StoredAppend(staged.next_offset, staged.time_ms)
            staged.records += map(fields_of, append.records)
            if batch is not None:
                self._numbering.stage(
                    partition, batch, append.stored.base, staged.time_ms, append.owner
                )
        return Receipt(self._broker, append.topic, append.partition, str(append.stored.base))

    def _add_once(self, topic: str, record: Record, identity: Identity | None) -> PublishResult:
        """Stage a record and return its receipt. If the record is a duplicate, stage nothing, and return the
        receipt of the first record."""
        if identity is None:
            return self.add(SingleAppend(topic, record))[0]
        verdict, receipt = self._recognition.judge(topic, identity)
        if receipt is not None:
            return receipt
        (stored,) = self.add(SingleAppend(topic, record))
        if isinstance(stored, Receipt):
            self._recognition.stage(identity, stored)
            if verdict == "differs":
                return msgspec.structs.replace(stored, repeat="differs")
        return stored

    def _add_checked(self, single: SingleAppend) -> PublishResult:
        return self._unstorable(single.records[0]) or self.add(single)[0]

    def _unstorable(self, record: Record) -> BrokerRefused | None:
        try:
            check(record)
        except Unstorable as error:
            text = f"the record cannot be stored: {error}"
            return BrokerRefused(text, kind="unwritable", broker=self._broker)
        return None

    def _staging(self, partition: PartitionLog) -> StagedRecords:
        staged = self._staged.get(partition)
        if staged is None:
            staged = self._staged[partition] = StagedRecords(partition, self._now)
        return staged

    def _segment(self, db: apsw.Connection, partition: PartitionLog) -> Segment:
        """Return the newest segment of the partition. If that segment is closed, return a new one."""
        if partition.segments:
            newest = partition.segments[-1]
            age = self._now - newest.first_ms if newest.first_ms else 0
            if not self._settings.closes(partition.place.topic, newest.bytes, age):
                return newest
        segment = self._catalogue.new_segment(db, partition, partition.next_offset)
        self._opened.append((partition, segment))
        return segment


def all_failed(appends: Sequence[AppendRequest], error: BrokerError) -> Fates:
    return [(append, [error] * len(append.records)) for append in appends]
