"""Stored records as they are in the file, for readers that pass them on without making messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw
import msgspec

from app.log.codec import Fields, decode_row
from app.log.partitions import PartitionLog, Segment
from app.log.reader import rows_of

EVERYTHING = 1 << 62


class PageBudget:
    """The approximate number of bytes that one scan may decode. The first row of a scan always fits.

    ``spent`` is True if a row did not fit. Another scan then has to read that row."""

    __slots__ = ("_begun", "_left", "spent")

    def __init__(self, most: int) -> None:
        self._left = most
        self._begun = False
        self.spent = False

    def takes(self, size: int) -> bool:
        """Return True if a row of this size fits, and count its bytes."""
        self.spent = self._begun and size > self._left
        self._begun = True
        self._left -= size
        return not self.spent


class StoredRun(msgspec.Struct, frozen=True):
    """Consecutive records of one commit group, from offset ``base`` on."""

    base: int
    time_ms: int
    records: list[Fields]


def stored_runs(
    db: apsw.Connection,
    partition: PartitionLog,
    offset: int,
    until: int,
    report: Callable[[PartitionLog, int, int], None],
    most: int = EVERYTHING,
) -> Iterator[StoredRun]:
    """Yield the stored records from ``offset`` to ``until``, or up to about ``most`` bytes. Called in the reader
    thread.

    Args:
        db: the connection of the reader thread.
        partition: the partition.
        offset: the first offset.
        until: the offset after the last one.
        report: is called with the partition and range of missing offsets, which are damage.
        most: approximate bytes to decode.

    Raises:
        PositionOutOfRange: the partition no longer has ``offset``.
    """
    partition.check(offset)
    budget = PageBudget(most)
    while offset < until and not budget.spent:
        reached = partition.reach(offset, until)
        if reached is None:
            return
        segment, end = reached
        try:
            for run in _of_segment(db, segment, offset, end, budget):
                if offset < run.base:
                    report(partition, offset, run.base)
                offset = run.base + len(run.records)
                yield run
        except apsw.SQLError:  # retention dropped the table meanwhile
            if segment in partition.segments:
                raise
            continue
        if offset < end and not budget.spent:
            report(partition, offset, end)
        offset = end


def _of_segment(
    db: apsw.Connection, segment: Segment, offset: int, end: int, budget: PageBudget
) -> Iterator[StoredRun]:
    cursor = db.execute(rows_of(segment), (offset, end))
    try:
        for row in cursor:
            base, count, time_ms, _, data = row
            first = max(offset, base)
            if base + count <= offset:
                continue
            if not budget.takes(len(data) * (base + count - first) // count):
                return
            stored = decode_row(row)
            if stored is None:
                continue
            yield StoredRun(first, time_ms, stored[first - base : end - base])
    finally:
        cursor.close(force=True)
