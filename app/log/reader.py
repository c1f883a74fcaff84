"""The reader thread of the log. Each page has a read transaction of its own, so that checkpoints wait for one page
at most."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from app.bindings.record import Record
from app.errors import BrokerUnavailable
from app.log.codec import decode_row
from app.log.loop_handoff import LoopHandoff
from app.log.partitions import PartitionLog, Segment
from app.model.message import Message, MessagePage

T = TypeVar("T")
Job = Callable[[apsw.Connection], Any]
_log = logging.getLogger(__name__)


class LogReader:
    """The reader thread. ``run`` is called on the event loop; jobs run in the thread, one at a time.

    ``damaged`` counts records whose bytes are not those that were written."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._handoff = LoopHandoff(self._loop)
        self._jobs: SimpleQueue[tuple[Job, asyncio.Future[Any]] | None] = SimpleQueue()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.damaged = 0

    def start(self, opening: Callable[[], apsw.Connection]) -> None:
        name = f"log-reader-{self._name}"
        threading.Thread(target=self._main, args=(opening,), name=name, daemon=True).start()

    def run(self, job: Callable[[apsw.Connection], T]) -> asyncio.Future[T]:
        """Run a job in the thread, and return the future of its result."""
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
    ) -> MessagePage:
        """Read one page of messages, in the reader thread.

        Raises:
            PositionOutOfRange: the partition no longer has ``offset``.
        """
        partition.check(offset)
        while offset < until:
            reached = partition.reach(offset, until)
            if reached is None:
                break
            segment, end = reached
            try:
                page = self._read(
                    db, partition, segment, offset, end, epoch, max_records, max_bytes
                )
            except apsw.SQLError:  # retention dropped the table meanwhile
                if segment in partition.segments:
                    raise
                continue
            if page.messages:
                return page
            self.report(partition, offset, end)
            offset = end
        return MessagePage((), offset)

    def _read(
        self,
        db: apsw.Connection,
        partition: PartitionLog,
        segment: Segment,
        offset: int,
        end: int,
        epoch: int,
        max_records: int,
        max_bytes: int,
    ) -> MessagePage:
        """Read messages of one segment. Offsets have no gaps, so offsets that are missing before an intact row are
        damage."""
        messages: list[Message] = []
        place = partition.place
        room = max_bytes
        cursor = db.execute(rows_of(segment), (offset, end))
        for row in cursor:
            base, count, time_ms, _, data = row
            stored = decode_row(row)
            if stored is None or base + count <= offset:
                continue
            self.report(partition, offset, base)
            offset = max(offset, base)
            fitting = -(-room * count // len(data))  # records that reach the bound, on average
            stop = min(base + count, end, offset + min(max_records - len(messages), fitting))
            messages += [
                Message(Record(*fields), place, str(at), at, time_ms, epoch)
                for at, fields in enumerate(stored[offset - base : stop - base], offset)
            ]
            room -= len(data) * (stop - offset) // count
            offset = stop
            if room <= 0 or len(messages) >= max_records or stop < base + count:
                break
        cursor.close(force=True)
        return MessagePage(tuple(messages), offset, max_bytes - room)

    def report(self, partition: PartitionLog, start: int, end: int) -> None:
        """Log and count records that are damaged or missing, from ``start`` up to ``end``."""
        if start < end:
            self.damaged += end - start
            _log.error("%s: damage, %d to %d are lost", partition.place, start, end - 1)

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
                self._handoff.refuse(future, unavailable)
            except Exception as error:  # noqa: BLE001 - handed to the task that awaits the job
                self._handoff.refuse(future, error)
            else:
                self._handoff.answer(future, result)
        if db is not None:
            db.close()
        self._handoff.answer(self._ended, None)


def time_search(db: apsw.Connection, partition: PartitionLog, time_ms: int) -> int:
    """Return the offset of the first record that was stored at or after ``time_ms``. Times never go back within a
    partition."""
    low, high = partition.earliest, partition.next_offset
    while low < high:
        middle = (low + high) // 2
        if _time_at(db, partition, middle) < time_ms:
            low = middle + 1
        else:
            high = middle
    return low


def _time_at(db: apsw.Connection, partition: PartitionLog, offset: int) -> int:
    """Return the time of the record at ``offset``, or of the next record."""
    segment = partition.segment_of(offset)
    while segment is not None:
        cursor = db.execute(rows_of(segment), (offset, partition.next_offset))
        for _, _, time_ms, _, _ in cursor:
            cursor.close(force=True)
            return int(time_ms)
        segment = partition.after(segment)
    return 1 << 62


def rows_of(segment: Segment) -> str:
    """Return the SQL for the rows from the one with the first offset, up to the second offset."""
    table = segment.table
    return (
        "SELECT base_offset, count, time_ms, checksum, records"  # noqa: S608 - a number from the catalogue
        f" FROM {table} WHERE base_offset < ?2 AND base_offset >="
        f" coalesce((SELECT max(base_offset) FROM {table} WHERE base_offset <= ?1), 0)"
        " ORDER BY base_offset"
    )
