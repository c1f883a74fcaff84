"""The one thread that reads: pages, each in a read transaction of its own, so that no reader keeps
the write-ahead log from being folded back for longer than a page.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw
import msgspec

from app.errors import BrokerUnavailable
from app.log.catalogue import PartitionLog, Segment
from app.log.codec import decode_record
from app.log.hop import Hop
from app.model.message import Message

T = TypeVar("T")
Job = Callable[[apsw.Connection], Any]
_log = logging.getLogger(__name__)


class Page(msgspec.Struct, frozen=True):
    """``messages`` in order; ``next_offset`` is where the next page begins, also past damage."""

    messages: tuple[Message, ...]
    next_offset: int


class Reader:
    """``run`` is called on the event loop; jobs run in the thread, one at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._hop = Hop(self._loop)
        self._jobs: SimpleQueue[tuple[Job, asyncio.Future[Any]] | None] = SimpleQueue()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.damaged = 0  # records that were not the bytes written

    def start(self, opening: Callable[[], apsw.Connection]) -> None:
        name = f"log-reader-{self._name}"
        threading.Thread(target=self._main, args=(opening,), name=name, daemon=True).start()

    def run(self, job: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((job, future))
        return future

    async def stop(self) -> None:
        self._jobs.put(None)
        await self._ended

    def page(
        self,
        db: apsw.Connection,
        partition: PartitionLog,
        offset: int,
        until: int,
        epoch: int,
        max_records: int,
        max_bytes: int,
    ) -> Page:
        """In the thread. Raises PositionOutOfRange for an ``offset`` that is gone."""
        partition.check(offset)
        segment = partition.segment_of(offset)
        page = Page((), offset)
        while segment is not None:
            try:
                page = self._read(
                    db, partition, segment, offset, until, epoch, max_records, max_bytes
                )
            except apsw.SQLError:  # retention dropped the table meanwhile
                if segment in partition.segments:
                    raise
                partition.check(offset)
                segment = partition.segment_of(offset)
                continue
            following = partition.after(segment)
            if page.messages or page.next_offset > offset or following is None:
                break
            segment = following
        if page.next_offset == offset < until:  # every record below ``until`` was stored once
            self.damaged += until - offset
            _log.error("%s: no record is left from %d to %d", partition.place, offset, until - 1)
            return Page((), until)
        return page

    def _read(
        self,
        db: apsw.Connection,
        partition: PartitionLog,
        segment: Segment,
        offset: int,
        until: int,
        epoch: int,
        max_records: int,
        max_bytes: int,
    ) -> Page:
        query = f"SELECT * FROM {segment.table} WHERE offset >= ? AND offset < ? ORDER BY offset LIMIT ?"  # noqa: S608 - our number
        messages: list[Message] = []
        place = partition.place
        taken = 0
        cursor = db.execute(query, (offset, until, max_records))
        for at, time_ms, checksum, data in cursor:
            record = decode_record(checksum, data)
            offset = at + 1
            if record is None:
                self.damaged += 1
                _log.error("%s at %d: the bytes on the disk are not those written", place, at)
                continue
            messages.append(Message(record, place, str(at), at, time_ms, epoch))
            taken += len(data)
            if taken >= max_bytes:
                break
        cursor.close(force=True)
        return Page(tuple(messages), offset)

    def _main(self, opening: Callable[[], apsw.Connection]) -> None:
        db: apsw.Connection | None = None
        while (item := self._jobs.get()) is not None:
            job, future = item
            if future.done():
                continue
            try:
                db = db or opening()
                result = job(db)
            except apsw.Error as error:
                unavailable = BrokerUnavailable(f"the log's file cannot be read: {error}")
                self._hop.refuse(future, unavailable)
            except Exception as error:  # noqa: BLE001 - handed to whoever awaits the job
                self._hop.refuse(future, error)
            else:
                self._hop.answer(future, result)
        if db is not None:
            db.close()
        self._hop.answer(self._ended, None)


def time_search(db: apsw.Connection, partition: PartitionLog, time_ms: int) -> int:
    """The first offset stored at or after ``time_ms``; times never go back within a partition."""
    low, high = partition.earliest, partition.next_offset
    while low < high:
        middle = (low + high) // 2
        if _time_at(db, partition, middle) < time_ms:
            low = middle + 1
        else:
            high = middle
    return low


def _time_at(db: apsw.Connection, partition: PartitionLog, offset: int) -> int:
    """The time of the record at ``offset``, or of the next one there is."""
    segment = partition.segment_of(offset)
    while segment is not None:
        query = f"SELECT time_ms FROM {segment.table} WHERE offset >= ? ORDER BY offset LIMIT 1"  # noqa: S608 - our number
        for (time_ms,) in db.execute(query, (offset,)):
            return int(time_ms)
        segment = partition.after(segment)
    return 1 << 62
