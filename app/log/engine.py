"""The embedded log as the rest of Skybridge calls it. Everything here runs on the event loop and
hands the work to the writer or the reader thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import apsw

from app.bindings.record import Record
from app.log.catalogue import Catalogue
from app.log.commit import Append, Fates, Staged
from app.log.database import FolderLock, cluster_id, damage, open_reader, open_writer
from app.log.event_index import EventIndex, Hits, Search
from app.log.groups.coordinator import Coordinator
from app.log.groups.positions import Positions
from app.log.groups.store import GroupStore
from app.log.identities import Identities
from app.log.known import Known
from app.log.partition_append import Placed, Stored
from app.log.partitions import PartitionLog, Topic
from app.log.producers import Producers
from app.log.reader import Reader, time_search
from app.log.sequences import Batch
from app.log.settings import EngineSettings
from app.log.stored_batches import EVERYTHING, Run, runs
from app.log.topic_changes import TopicChanges
from app.log.upkeep import Upkeep
from app.log.writer import Writer
from app.model.message import Message, MessagePage, Partition
from app.model.metadata import Health
from app.telemetry.tasks import keep

T = TypeVar("T")

PAGE_RECORDS = 500
PAGE_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class Engine:
    """One log in one folder. ``start`` before all else; ``stop`` stores what was taken, then closes."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._lock = FolderLock(settings.path, settings.setting)
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.on_round: Callable[[], None] = lambda: None  # a commit group is about to be closed
        self._forget()

    def _forget(self) -> None:
        """What is known is read from the file at each start."""
        settings = self.settings
        positions = Positions(settings.now_ms)
        self._catalogue = Catalogue(settings.max_topics, settings.max_partitions)
        self._producers = Producers(settings.max_producers)
        self.identities = Identities(settings.name, settings.now_ms)
        self.events = EventIndex(settings.find_keep, settings.now_ms)
        self._known = Known(
            self._catalogue, positions, self._producers, self.identities, self.events
        )
        self._changes = TopicChanges(settings.name, self._known)
        self.groups = GroupStore(positions, self._writing)
        self.coordinator = Coordinator(self.groups)
        self.upkeep = Upkeep(settings, self._known, self.coordinator, self._writing)
        self._watchers: dict[PartitionLog, set[Callable[[], None]]] = {}
        self._newest: Staged | None = None  # of whose growth watchers are being told
        self.findings: list[str] = []  # what looked damaged at the start
        self.cluster = ""  # tells this log from any other, once it is open

    async def start(self) -> None:
        """Raises SetupError when the folder is taken, or the file is not ours or too new."""
        self._lock.acquire()
        self._forget()
        writer = Writer(self.settings, self._known, self._settle, self._on_round)
        try:
            await writer.start(self._open)
        except BaseException:
            self._lock.release()
            raise
        self._writer = writer
        self._reader = Reader(self.settings.name)
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

    def append(self, append: Append) -> None:
        """Store the records; their fates come by ``resolve_all`` on the loop once they are durable."""
        self._writing().append(append)

    def append_to(
        self,
        place: Partition,
        records: Sequence[Record],
        batch: Batch | None = None,
        owner: str = "",
    ) -> asyncio.Future[Stored]:
        """Store the records as a whole in a partition of the caller's choice; what is numbered by an
        idempotent producer is stored once, however often it is sent. The future has a BrokerError for
        what could not be: BrokerRefused of kind ``fenced`` or ``out-of-order`` for numbers that do not
        fit. Cancelled before it is stored, it is not. ``owner``: the user whose share of the states of
        producers it takes."""
        placed = Placed(place, records, batch, owner)
        self._writing().append(placed)
        return placed.fate

    def new_producer(self) -> asyncio.Future[int]:
        """An id that no producer of this log has ever had."""
        return self._writing().run(self._producers.reserve_id)

    async def create_topic(self, name: str, partitions: int | None = None, owner: str = "") -> None:
        """Create a topic for ``owner``, a user of a Kafka listener, or for nobody in particular."""
        count = partitions or self.settings.partitions
        await self._writing().run(lambda db: self._changes.create(db, name, count, owner))

    async def grow_topic(self, name: str, partitions: int) -> None:
        """To so many partitions, for a topic that has fewer. Raises BrokerRefused."""
        await self._writing().run(lambda db: self._changes.grow(db, name, partitions))

    async def delete_topic(self, name: str, creator: str | None = None) -> None:
        """With its records, the places of groups in it and what is known of its producers: one of its
        name would begin without a position. Raises BrokerRefused, while a subscription reads it also.
        ``creator``: a user that may delete only an empty topic of its own."""
        topic = await self._writing().run(lambda db: self._changes.delete(db, name, creator))
        for partition in topic.partitions:
            for notify in self._watchers.pop(partition, set()):
                notify()  # a reader that waits for it to grow sees that it is gone

    def topics(self) -> Mapping[str, Topic]:
        return self._catalogue.topics

    def partition(self, place: Partition) -> PartitionLog:
        """Raises PositionOutOfRange where there is none."""
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
        """The messages from ``offset`` on, at most a page. Raises PositionOutOfRange."""
        partition = self.partition(place)
        end = partition.next_offset if until is None else min(until, partition.next_offset)
        reader = self._reading()
        return await reader.run(
            lambda db: reader.page(db, partition, offset, end, epoch, max_records, max_bytes)
        )

    def at_hand(
        self, partition: PartitionLog, offset: int, until: int, most: int
    ) -> MessagePage | None:
        """As ``page``, without the reading thread, of what was stored a moment ago: for a reader that is told that the
        partition has grown, while it is told. None: it has to be read."""
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
        take: Callable[[Iterator[Run]], T],
        most: int = EVERYTHING,
    ) -> T:
        """What ``take`` makes of the runs from ``offset`` on, of about ``most`` bytes, in the reading thread;
        it stops where it has enough. Raises PositionOutOfRange."""
        partition, reader = self.partition(place), self._reading()
        partition.check(offset)
        until = partition.next_offset
        return await reader.run(
            lambda db: take(runs(db, partition, offset, until, reader.report, most))
        )

    async def offset_at(self, place: Partition, time_ms: int) -> int:
        """The first offset stored at or after ``time_ms``."""
        partition = self.partition(place)
        return await self._reading().run(lambda db: time_search(db, partition, time_ms))

    def watch(self, place: Partition, notify: Callable[[], None]) -> None:
        """Call ``notify`` on the loop whenever the partition has grown."""
        self._watchers.setdefault(self.partition(place), set()).add(notify)

    def unwatch(self, place: Partition, notify: Callable[[], None]) -> None:
        self._watchers.get(self.partition(place), set()).discard(notify)

    async def find(self, search: Search) -> Hits:
        """Records that may hold an event. Its own connection: nobody who reads the log waits for it."""
        settings = self.settings
        partitions = list(self._catalogue.partitions())

        def run() -> Hits:
            db = open_reader(settings.path, settings.vfs)
            try:
                return search.run(db, partitions)
            finally:
                db.close()

        return await asyncio.to_thread(run)

    def health(self) -> Health:
        if self._writer is None:
            return Health(healthy=False, cause=f"log {self.settings.name} is not running")
        cause = self._writer.storing.broken or self._writer.storing.full
        return Health(healthy=not cause, cause=cause)

    @property
    def damaged(self) -> int:
        """Records met so far whose bytes were not the ones written; they are never served."""
        return self._reader.damaged if self._reader else 0

    def _open(self) -> apsw.Connection:
        """In the writer thread."""
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

    def _settle(self, fates: Fates | tuple[()], grown: Sequence[Staged]) -> None:
        """One hop for a whole commit group."""
        for append, results in fates:
            append.resolve_all(results)
        for self._newest in grown:
            for notify in tuple(self._watchers.get(self._newest.partition, ())):
                notify()
        self._newest = None

    def _on_round(self) -> None:
        self.on_round()

    def _writing(self) -> Writer:
        if self._writer is None:
            raise RuntimeError("the log is not started")
        return self._writer

    def _reading(self) -> Reader:
        if self._reader is None:
            raise RuntimeError("the log is not started")
        return self._reader
