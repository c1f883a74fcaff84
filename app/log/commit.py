"""One commit group: the records of many submits, staged by partition, stored in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import apsw

from app.bindings.record import Record
from app.errors import BrokerError, BrokerRefused
from app.interfaces import PublishResult
from app.log.catalogue import Catalogue, PartitionLog, Segment, Topic
from app.log.codec import encode_record
from app.log.settings import EngineSettings
from app.model.receipt import Receipt
from app.routing.partitions import partition_of

Row = tuple[int, int, int, bytes]
"""Offset, time in milliseconds, checksum, record."""


class Append(Protocol):
    """What the writer takes: records for one topic, and where their fates go."""

    topic: str
    records: Sequence[Record]

    def done(self) -> bool:
        """Nobody waits any more: what is not stored yet must not be (rule 9)."""

    def resolve_all(self, results: list[PublishResult]) -> None: ...


Fates = list[tuple[Append, list[PublishResult]]]


class Staged:
    """What a commit group adds to one partition."""

    __slots__ = ("bytes", "next_offset", "partition", "rows", "time_ms")

    def __init__(self, partition: PartitionLog, now_ms: int) -> None:
        self.partition = partition
        self.next_offset = partition.next_offset
        self.time_ms = max(now_ms, partition.last_ms)  # never backwards: times are searched
        self.rows: list[Row] = []
        self.bytes = 0

    def add(self, checksum: int, data: bytes) -> int:
        offset = self.next_offset
        self.next_offset = offset + 1
        self.rows.append((offset, self.time_ms, checksum, data))
        self.bytes += len(data)
        return offset


class CommitGroup:
    """Stage records with ``add``, write them with ``store`` inside a transaction, and once that is
    committed make them visible with ``publish``. Dropped without ``publish``, nothing happened."""

    def __init__(self, catalogue: Catalogue, settings: EngineSettings) -> None:
        self._catalogue = catalogue
        self._broker = settings.name
        self._now = settings.now_ms()
        self._settings = settings
        self._staged: dict[PartitionLog, Staged] = {}
        self._opened: list[tuple[PartitionLog, Segment]] = []

    def add(self, append: Append) -> list[PublishResult]:
        """Stage its records; the receipts hold once ``store`` is committed."""
        topic = self._catalogue.topics[append.topic]
        return [self._add(topic, record) for record in append.records]

    def add_to(self, partition: PartitionLog, records: Sequence[Record]) -> None:
        """Stage for a partition that the caller chose. Raises ValueError for what cannot be stored."""
        staged = self._staging(partition)
        for record in records:
            staged.add(*encode_record(record))

    def _add(self, topic: Topic, record: Record) -> PublishResult:
        try:
            checksum, data = encode_record(record)
        except (ValueError, TypeError, OverflowError) as error:
            return BrokerRefused(f"the record cannot be stored: {error}", broker=self._broker)
        key = record.key
        partitions = topic.partitions
        number = topic.spread() if key is None else partition_of(key, len(partitions))
        offset = self._staging(partitions[number]).add(checksum, data)
        return Receipt(self._broker, topic.name, number, str(offset))

    def _staging(self, partition: PartitionLog) -> Staged:
        staged = self._staged.get(partition)
        if staged is None:
            staged = self._staged[partition] = Staged(partition, self._now)
        return staged

    def store(self, db: apsw.Connection) -> None:
        for staged in self._staged.values():
            segment = self._segment(db, staged.partition)
            db.executemany(f"INSERT INTO {segment.table} VALUES(?, ?, ?, ?)", staged.rows)
        db.executemany(
            "UPDATE partitions SET next_offset = ? WHERE topic = ? AND number = ?",
            [
                (staged.next_offset, staged.partition.topic_id, staged.partition.number)
                for staged in self._staged.values()
            ],
        )

    def publish(self) -> list[PartitionLog]:
        """After the commit: readers may see it. Returns the partitions that have grown."""
        for partition, segment in self._opened:
            partition.segments += (segment,)
        for staged in self._staged.values():
            partition = staged.partition
            active = partition.segments[-1]
            active.bytes += staged.bytes
            active.first_ms = active.first_ms or staged.time_ms
            active.last_ms = partition.last_ms = staged.time_ms
            partition.next_offset = staged.next_offset
        return [staged.partition for staged in self._staged.values()]

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
