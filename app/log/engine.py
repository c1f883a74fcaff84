"""The interface of the embedded log. It runs on the event loop and passes work to the writer and reader threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import apsw

from app.bindings.record import Record
from app.log.catalogue import Catalogue
from app.log.commit import AppendRequest, Fates, StagedRecords
from app.log.database import FolderLock, cluster_id, damage, open_reader, open_writer
from app.log.event_index import EventIndex, EventSearch, SearchHits
from app.log.groups.coordinator import Coordinator
from app.log.groups.positions import GroupPositions
from app.log.groups.store import GroupStore
from app.log.identities import Identities
from app.log.known import LogState
from app.log.partition_append import PartitionAppend, StoredAppend
from app.log.partitions import LogTopic, PartitionLog
from app.log.producers import Producers
from app.log.reader import LogReader, time_search
from app.log.sequences import Batch
from app.log.settings import EngineSettings
from app.log.stored_batches import EVERYTHING, StoredRun, stored_runs
from app.log.topic_changes import TopicChanges
from app.log.upkeep import LogUpkeep
from app.log.writer import Writer
from app.model.message import Message, MessagePage, Partition
from app.model.metadata import LogHealth
from app.telemetry.tasks import keep

T = TypeVar("T")

PAGE_RECORDS = 500
PAGE_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class LogEngine:
    """An embedded log in one folder. Call ``start`` first. ``stop`` stores the accepted records and closes the
    file.

    ``on_round`` is called before a commit group is closed. ``findings`` lists damage that was found at the start.
    ``cluster`` is the unique id of this log."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._lock = FolderLock(settings.path, settings.setting)
        self._writer: Writer | None = None
        self._reader: LogReader | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.on_round: Callable[[], None] = lambda: None
        self._forget()

    def _forget(self) -> None:
        """Reset the state in memory. ``start`` reads it again from the file."""
        settings = self.settings
        positions = GroupPositions(settings.now_ms)
        self._catalogue = Catalogue(settings.max_topics, settings.max_partitions)
        self._producers = Producers(settings.max_producers)
        self.identities = Identities(settings.name, settings.now_ms)
        self.events = EventIndex(settings.find_keep, settings.now_ms)
        self._known = LogState(
            self._catalogue, positions, self._producers, self.identities, self.events
        )
        self._changes = TopicChanges(settings.name, self._known)
        self.groups = GroupStore(positions, self._writer_or_raise)
        self.coordinator = Coordinator(self.groups)
        self.upkeep = LogUpkeep(settings, self._known, self.coordinator, self._writer_or_raise)
        self._watchers: dict[PartitionLog, set[Callable[[], None]]] = {}
        self._newest: StagedRecords | None = None  # records whose watchers are being notified
        self.findings: list[str] = []
        self.cluster = ""

    async def start(self) -> None:
        """Open the log. Raise SetupError if another process has the folder, or the file is no log or has a newer
        format."""
        self._lock.acquire()
        self._forget()
        writer = Writer(self.settings, self._known, self._settle, self._on_round)
        try:
            await writer.start(self._open)
        except BaseException:
            self._lock.release()
            raise
        self._writer = writer
        self._reader = LogReader(self.settings.name)
        self._reader.start(lambda: open_reader(self.settings.path, self.settings.vfs))
        for finding in self.findings:
            _log.error("log %s: %s", self.settings.name, finding)
        self._keeping = keep("retention", self.upkeep.run, of=self.settings.name)

    async def stop(self) -> None:
        if self._writer is None or self._reader is None or self._keeping is None:
            return
        self.coordinator.close()
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        await self._reader.stop()
        await self._writer.stop()
        self._writer = None
        self._lock.release()

    def append(self, append: AppendRequest) -> None:
        """Store records. Their results come by ``AppendRequest.resolve_all`` on the event loop once they are
        durable."""
        self._writer_or_raise().append(append)

    def append_to(
        self,
        place: Partition,
        records: Sequence[Record],
        batch: Batch | None = None,
        owner: str = "",
    ) -> asyncio.Future[StoredAppend]:
        """Store records in one partition, all or none, and return a future of the first offset.

        A batch of an idempotent producer is stored once, however often it is sent. ``owner`` is the user whose
        share of producer states the batch uses. The future may have a BrokerError: BrokerRefused of kind ``fenced``
        or ``out-of-order`` for numbers that do not fit. Cancelling it early prevents the append."""
        placed = PartitionAppend(place, records, batch, owner)
        self._writer_or_raise().append(placed)
        return placed.fate

    def new_producer(self) -> asyncio.Future[int]:
        """Reserve an id that no producer of this log has had."""
        return self._writer_or_raise().run(self._producers.reserve_id)

    async def create_topic(self, name: str, partitions: int | None = None, owner: str = "") -> None:
        """Create a topic, unless it exists. ``owner`` is a user of a Kafka listener, or ""."""
        count = partitions or self.settings.partitions
        await self._writer_or_raise().run(lambda db: self._changes.create(db, name, count, owner))

    async def grow_topic(self, name: str, partitions: int) -> None:
        """Raise the number of partitions of a topic. Raise BrokerRefused if it has as many, or a subscription reads
        it."""
        await self._writer_or_raise().run(lambda db: self._changes.grow(db, name, partitions))

    async def delete_topic(self, name: str, creator: str | None = None) -> None:
        """Delete a topic with its records, positions and producer states, so that a new topic of its name starts
        without any.

        ``creator`` is a user that may delete only empty topics of its own. Raise BrokerRefused if the topic is
        missing, if a subscription reads it, or if ``creator`` may not delete it."""
        topic = await self._writer_or_raise().run(
            lambda db: self._changes.delete(db, name, creator)
        )
        for partition in topic.partitions:
            for notify in self._watchers.pop(partition, set()):
                notify()  # a waiting reader finds that the topic is gone

    def topics(self) -> Mapping[str, LogTopic]:
        return self._catalogue.topics

    def partition(self, place: Partition) -> PartitionLog:
        """Return a partition. Raise PositionOutOfRange if it does not exist."""
        return self._catalogue.find(place)

    async def page(
        self,
        place: Partition,
        offset: int,
        *,
        until: int | None = None,
        epoch: int = 0,
        max_records: int = PAGE_RECORDS,
        max_bytes: int = PAGE_BYTES,
    ) -> MessagePage:
        """Return the messages from ``offset`` on, at most one page. Raise PositionOutOfRange if the log does not
        have the offset."""
        partition = self.partition(place)
        end = partition.next_offset if until is None else min(until, partition.next_offset)
        reader = self._reader_or_raise()
        return await reader.run(
            lambda db: reader.page(db, partition, offset, end, epoch, max_records, max_bytes)
        )

    def at_hand(
        self, partition: PartitionLog, offset: int, until: int, most: int
    ) -> MessagePage | None:
        """Return messages that were just stored, without the reader thread. Return None if ``page`` must read the
        messages.

        Only a watcher may call this, while it is being notified of the growth."""
        newest = self._newest
        if newest is None or newest.partition is not partition or offset < newest.base:
            return None
        records = newest.records[offset - newest.base : until - newest.base]
        if not 0 < len(records) <= most:
            return None
        place, time_ms = partition.place, newest.time_ms
        messages = [
            Message(Record(*fields), place, str(at), at, time_ms, 0)
            for at, fields in enumerate(records, offset)
        ]
        return MessagePage(tuple(messages), offset + len(messages), newest.bytes)

    async def scan(
        self,
        place: Partition,
        offset: int,
        take: Callable[[Iterator[StoredRun]], T],
        most: int = EVERYTHING,
    ) -> T:
        """Pass the stored runs from ``offset`` on, about ``most`` bytes, to ``take`` in the reader thread. Return
        its result.

        ``take`` may stop early. Raise PositionOutOfRange if the log does not have ``offset``."""
        partition, reader = self.partition(place), self._reader_or_raise()
        partition.check(offset)
        until = partition.next_offset
        return await reader.run(
            lambda db: take(stored_runs(db, partition, offset, until, reader.report, most))
        )

    async def offset_at(self, place: Partition, time_ms: int) -> int:
        """Return the offset of the first record that was stored at or after ``time_ms`` (ms since the epoch)."""
        partition = self.partition(place)
        return await self._reader_or_raise().run(lambda db: time_search(db, partition, time_ms))

    def watch(self, place: Partition, notify: Callable[[], None]) -> None:
        """Call ``notify`` on the event loop whenever the partition has grown."""
        self._watchers.setdefault(self.partition(place), set()).add(notify)

    def unwatch(self, place: Partition, notify: Callable[[], None]) -> None:
        self._watchers.get(self.partition(place), set()).discard(notify)

    async def find(self, search: EventSearch) -> SearchHits:
        """Find records that may have an event, on a connection of its own, so that other readers do not wait."""
        settings = self.settings
        partitions = list(self._catalogue.partitions())

        def run() -> SearchHits:
            db = open_reader(settings.path, settings.vfs)
            try:
                return search.run(db, partitions)
            finally:
                db.close()

        return await asyncio.to_thread(run)

    def health(self) -> LogHealth:
        """Return whether the log accepts records, and why not."""
        if self._writer is None:
            return LogHealth(healthy=False, cause=f"log {self.settings.name} is not running")
        cause = self._writer.storing.broken or self._writer.storing.full
        return LogHealth(healthy=not cause, cause=cause)

    @property
    def damaged(self) -> int:
        """Return the number of damaged records that readers have met. They are never served."""
        return self._reader.damaged if self._reader else 0

    def _open(self) -> apsw.Connection:
        """Open the file and load the state, in the writer thread."""
        settings = self.settings
        db = open_writer(settings.path, settings.setting, settings.synchronous, settings.vfs)
        try:
            if self.settings.check_on_start:
                self.findings += damage(db)
            self.findings += self._catalogue.load(db)
            self.groups.positions.load(db)
            self._producers.load(db)
            self.identities.load(db)
            self.events.load(db)
            self.cluster = cluster_id(db)
        except BaseException:
            db.close()
            raise
        return db

    def _settle(self, fates: Fates | tuple[()], grown: Sequence[StagedRecords]) -> None:
        """Deliver the results of a commit group, and notify the watchers."""
        for append, results in fates:
            append.resolve_all(results)
        for self._newest in grown:
            for notify in tuple(self._watchers.get(self._newest.partition, ())):
                notify()
        self._newest = None

    def _on_round(self) -> None:
        self.on_round()

    def _writer_or_raise(self) -> Writer:
        if self._writer is None:
            raise RuntimeError("the log is not started")
        return self._writer

    def _reader_or_raise(self) -> LogReader:
        if self._reader is None:
            raise RuntimeError("the log is not started")
        return self._reader
