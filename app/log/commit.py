"""One commit group: the records of many submits, staged by partition, stored in one transaction."""

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
from app.log.event_index import prints_of
from app.log.known import Known
from app.log.partition_append import Placed, Stored
from app.log.partitions import PartitionLog, Segment
from app.log.settings import EngineSettings
from app.model.receipt import Receipt
from app.routing.identity import Identity
from app.routing.partitions import partition_of


class Append(Protocol):
    """What the writer takes: records for one topic, and where their fates go. ``identities``: one a record,
    where some are stored once only."""

    topic: str
    records: Sequence[Record]
    identities: Sequence[Identity | None] | None

    def done(self) -> bool:
        """Nobody waits any more: what is not stored yet must not be (rule 9)."""

    def resolve_all(self, results: list[PublishResult]) -> None: ...


Fates = list[tuple[Append, list[PublishResult]]]


class Rider:
    """Rows that go along with a commit group, so that they cost no fsync; called, they go by themselves if
    they did not. ``store``: writes them in a transaction, returns what to do once that is committed."""

    def __init__(self, store: Callable[[apsw.Connection], Callable[[], None]]) -> None:
        self._store = store
        self._publish: Callable[[], None] | None = None
        self._durable = False

    def store(self, db: apsw.Connection) -> None:
        self._publish = self._store(db)

    def publish(self) -> None:
        """After the commit."""
        if self._publish is not None:
            self._publish()
        self._durable = True

    def __call__(self, db: apsw.Connection) -> None:
        if not self._durable:
            with db:
                self.store(db)
            self.publish()


class Staged:
    """What a commit group adds to one partition."""

    __slots__ = ("base", "partition", "prints", "records", "rows", "time_ms")

    def __init__(self, partition: PartitionLog, now_ms: int) -> None:
        self.partition = partition
        self.base = partition.next_offset
        self.time_ms = max(now_ms, partition.last_ms)  # never backwards: times are searched
        self.records: list[Fields] = []
        self.rows: list[Row] = []
        self.prints = b""

    @property
    def next_offset(self) -> int:
        return self.base + len(self.records)

    @property
    def bytes(self) -> int:
        return sum(len(row[-1]) for row in self.rows)


class Single:
    """One record by itself, whose fate is taken from ``add``."""

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
        """Nobody waits."""


class CommitGroup:
    """Stage records with ``add``, make rows of them with ``encode``, write these with ``store`` inside
    a transaction, and once that is committed make them visible with ``publish``. Dropped without
    ``publish``, nothing happened."""

    def __init__(self, settings: EngineSettings, known: Known) -> None:
        self._catalogue = known.catalogue
        self._numbering = known.producers.begin()
        self._broker = settings.name
        self._now = settings.now_ms()
        self._recognition = known.identities.begin(self._now)
        self._events = known.events if known.events.keep else None
        self._settings = settings
        self._staged: dict[PartitionLog, Staged] = {}
        self._opened: list[tuple[PartitionLog, Segment]] = []

    def add(self, append: Append) -> list[PublishResult]:
        """Stage its records; the receipts hold once ``store`` is committed."""
        if isinstance(append, Placed):
            return [self._place(append)]
        if append.identities is not None:
            return list(
                map(partial(self._add_once, append.topic), append.records, append.identities)
            )
        topic = self._catalogue.topics[append.topic]
        name, broker, partitions = topic.name, self._broker, topic.partitions
        results: list[PublishResult] = []
        for record in append.records:  # hot: the cost of every record
            key = record.key
            number = topic.spread() if key is None else partition_of(key, len(partitions))
            partition = partitions[number]
            staged = self._staged.get(partition) or self._staging(partition)
            records = staged.records
            results.append(Receipt(broker, name, number, str(staged.base + len(records))))
            records.append((key, record.headers, record.body, record.content_type))
        return results

    def add_checked(self, append: Append) -> list[PublishResult]:
        """The same, record by record: one that cannot be encoded is refused alone, but for those that
        are stored as a whole."""
        if isinstance(append, Placed):
            refused = next(filter(None, map(self._unstorable, append.records)), None)
            return [refused or self._place(append)]
        identities = append.identities or (None,) * len(append.records)
        return [
            self._add_checked(Single(append.topic, record, identity))
            for record, identity in zip(append.records, identities, strict=True)
        ]

    def encode(self) -> None:
        """Before the transaction. Raises one of ``Unstorable``; then nothing may be stored."""
        for staged in self._staged.values():
            staged.rows = encode_rows(staged.base, staged.time_ms, staged.records)
            if self._events is not None:
                staged.prints = prints_of(staged.records)

    def store(self, db: apsw.Connection) -> None:
        """The next offset of a partition is where its last row ends: it is in the same transaction
        as the records because it is the records."""
        for staged in self._staged.values():
            segment = self._segment(db, staged.partition)
            for row in staged.rows:
                db.execute(segment.insert, row)
            if self._events is not None:
                self._events.store(db, segment, staged.base, staged.prints)
        self._numbering.store(db)
        self._recognition.store(db)

    def publish(self) -> list[Staged]:
        """After the commit: readers may see it. Returns by what the partitions have grown."""
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

    def _place(self, append: Placed) -> PublishResult:
        """What was stored before is not staged again."""
        partitions = self._catalogue.topics[append.topic].partitions
        if not 0 <= append.partition < len(partitions):
            return BrokerRefused(f"{append.topic} has no such partition", kind="unknown-topic")
        partition, batch = partitions[append.partition], append.batch
        try:
            before = None if batch is None else self._numbering.judge(partition, batch)
        except BrokerRefused as refusal:
            return refusal
        if before is not None:
            append.stored = Stored(before, None)
        else:
            staged = self._staging(partition)
            append.stored = Stored(staged.next_offset, staged.time_ms)
            staged.records += map(fields_of, append.records)
            if batch is not None:
                self._numbering.stage(
                    partition, batch, append.stored.base, staged.time_ms, append.owner
                )
        return Receipt(self._broker, append.topic, append.partition, str(append.stored.base))

    def _add_once(self, topic: str, record: Record, identity: Identity | None) -> PublishResult:
        """A duplicate is not staged: where the first of them is, is its fate."""
        if identity is None:
            return self.add(Single(topic, record))[0]
        verdict, receipt = self._recognition.judge(topic, identity)
        if receipt is not None:
            return receipt
        (stored,) = self.add(Single(topic, record))
        if isinstance(stored, Receipt):
            self._recognition.stage(identity, stored)
            if verdict == "differs":
                return msgspec.structs.replace(stored, repeat="differs")
        return stored

    def _add_checked(self, single: Single) -> PublishResult:
        return self._unstorable(single.records[0]) or self.add(single)[0]

    def _unstorable(self, record: Record) -> BrokerRefused | None:
        try:
            check(record)
        except Unstorable as error:
            text = f"the record cannot be stored: {error}"
            return BrokerRefused(text, kind="unwritable", broker=self._broker)
        return None

    def _staging(self, partition: PartitionLog) -> Staged:
        staged = self._staged.get(partition)
        if staged is None:
            staged = self._staged[partition] = Staged(partition, self._now)
        return staged

    def _segment(self, db: apsw.Connection, partition: PartitionLog) -> Segment:
        """The newest segment, or a new one when that takes no more."""
        if partition.segments:
            newest = partition.segments[-1]
            age = self._now - newest.first_ms if newest.first_ms else 0
            if not self._settings.closes(partition.place.topic, newest.bytes, age):
                return newest
        segment = self._catalogue.new_segment(db, partition, partition.next_offset)
        self._opened.append((partition, segment))
        return segment


def all_failed(appends: Sequence[Append], error: BrokerError) -> Fates:
    return [(append, [error] * len(append.records)) for append in appends]
