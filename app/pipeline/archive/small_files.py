"""Merge the small files that a running archive writes.

Each batch adds a file to one or more partitions of each table. As soon as a partition has ``MERGED``
files of similar size, they become one file. So a record is written again a few times at most, and a
partition keeps a few dozen small files. When a partition has had no new file for ``CLOSED`` seconds,
all of its small files become one. Larger files, and those of earlier runs, are left to ``maintain``.

A merge is a commit that replaces files. Iceberg refuses it if another program has replaced or
deleted one of them, or rows of them. The archive then gives these files up, and goes on.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.pipeline import history, tables
from app.pipeline.archive import commit
from app.pipeline.archive.iceberg_adapter import StoredFile
from app.pipeline.archive.metrics import ArchiveMetrics
from app.pipeline.archive.rewrite import replace_files
from app.pipeline.archive.table_state import TableState, table_state
from app.pipeline.settings import Lake
from app.spark.faults import REFUSALS, ended_fault, is_any
from app.spark.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

MERGED: Final = 10
"""The number of files of similar size that are merged. Each record is written again once for each
power of this number."""
SMALL: Final = 64 << 20
"""The size in bytes from which a file is not merged any more."""
TOGETHER: Final = 128 << 20
"""The size in bytes of the files that one commit replaces."""
CLOSED: Final = 3_600.0
"""The seconds without a new file after which the small files of a partition are merged."""
EVERY: Final = 10.0  # seconds between two looks at the tables
MOST: Final = 10_000
"""The number of small files of a table above which they are left to ``maintain``. Senders choose
times, so a batch may have files of thousands of days."""

_TIER_BITS: Final = 3
"""Files are of similar size if the numbers of bits of their sizes differ by less than this."""


class SmallFile(NamedTuple):
    """A small file of a table.

    Attributes:
        stored: The file.
        since: The id of a snapshot before the file was read; None if there was none.
        turn: The number of the look that found the file. Earlier ones have earlier snapshots.
    """

    stored: StoredFile
    since: int | None
    turn: int


class SmallFiles:
    """The small files that were added to the partitions of one table since the archive began."""

    def __init__(self) -> None:
        self._files: dict[str, list[SmallFile]] = {}
        self._changed: dict[str, float] = {}  # monotonic time of the last file of a partition
        self._turn = 0

    def add(self, files: Iterable[StoredFile], since: int | None, now: float) -> None:
        """Add those of the files that are small."""
        self._turn += 1
        for each in files:
            if each.size < SMALL:
                partition = str(each.java.partition().toString())
                self._files.setdefault(partition, []).append(SmallFile(each, since, self._turn))
                self._changed[partition] = now
        if sum(map(len, self._files.values())) > MOST:
            self.forget()

    def forget(self) -> None:
        """Forget all files. They are left to ``maintain``."""
        self._files, self._changed = {}, {}

    def take(self, now: float) -> list[list[SmallFile]]:
        """Remove and return the files to merge, in groups of one partition: about ``TOGETHER``
        bytes at most.
        """
        found, size = list[list[SmallFile]](), 0
        for partition, files in list(self._files.items()):
            closed = now >= self._changed[partition] + CLOSED
            for group in [_smallest(files)] if closed else _tiers(files):
                size += sum(each.stored.size for each in group)
                if found and size > TOGETHER:
                    return found
                self._remove(partition, group)
                found += [group] if len(group) > 1 else []
            if closed and len(self._files[partition]) <= 1:
                del self._files[partition], self._changed[partition]
        return found

    def _remove(self, partition: str, group: Sequence[SmallFile]) -> None:
        paths = {each.stored.path for each in group}
        files = self._files[partition]
        self._files[partition] = [each for each in files if each.stored.path not in paths]


def _tiers(files: Sequence[SmallFile]) -> list[list[SmallFile]]:
    """Return the groups of files of similar size that are large enough to be merged."""
    tiers: dict[int, list[SmallFile]] = {}
    for each in files:
        tiers.setdefault(each.stored.size.bit_length() // _TIER_BITS, []).append(each)
    return [each for each in tiers.values() if len(each) >= MERGED]


def _smallest(files: Sequence[SmallFile]) -> list[SmallFile]:
    """Return the smallest files, of about ``TOGETHER`` bytes."""
    ordered = sorted(files, key=lambda each: each.stored.size)
    ends = accumulate(each.stored.size for each in ordered)
    return [each for each, end in zip(ordered, ends, strict=True) if end <= TOGETHER]


class _Watched:
    """A table that the archive watches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.small = SmallFiles()
        self.state: TableState | None = None


class FileMerger:
    """The tables of a running archive, whose state is reported and whose small files are merged."""

    def __init__(self, spark: SparkSession, lake: Lake, metrics: ArchiveMetrics) -> None:
        self._spark, self._lake, self._metrics = spark, lake, metrics
        names = (*tables.COLUMNS, *(each.table for each in lake.tables))
        self._watched = [_Watched(each) for each in names]
        self._next = -math.inf

    def step(self) -> None:
        """Look at all tables and merge small files of one of them, if ``EVERY`` seconds have passed.

        An error is logged and counted. Only the end of Java is raised.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        for each in self._watched:
            try:
                self._look(each, now)
                if groups := each.small.take(now):
                    self._merge(each, groups, now)
                    self._watched.remove(each)  # the others come first at the next step
                    self._watched.append(each)
                    return
            except Exception as why:  # the archive goes on, unless Java has ended
                if ended := ended_fault(why):
                    raise ended from why
                self._give_up(each, why)

    def _look(self, table: _Watched, now: float) -> None:
        name = self._lake.table(table.name)
        self._metrics.conflicted(table.name, commit.conflicts.pop(name, 0))
        loaded = history.iceberg_table(self._spark, name)
        before, table.state = table.state, table_state(loaded, table.state)
        self._metrics.looked(table.name, table.state)
        if before is not None and before.newest != table.state.newest:
            table.small.add(_appended(loaded, before.newest), before.newest, now)

    def _merge(self, table: _Watched, groups: list[list[SmallFile]], now: float) -> None:
        oldest = min((each for group in groups for each in group), key=lambda each: each.turn)
        files = [[each.stored for each in group] for group in groups]
        with self._metrics.timing("merge"):
            made = replace_files(self._spark, self._lake, table.name, files, oldest.since)
        self._metrics.merged(table.name, sum(map(len, files)))
        table.small.add(made, oldest.since, now)

    def _give_up(self, table: _Watched, why: Exception) -> None:
        table.small.forget()
        if not is_any(why, REFUSALS):  # another program was faster, which commit counts
            self._metrics.failed("merge")
            _log.warning("files of %s were not merged: %s", table.name, first_line(why))


def _appended(loaded: Any, since: int | None) -> Iterator[StoredFile]:
    """Yield the files that were appended after a snapshot, in the present partitioning."""
    scan = loaded.newIncrementalAppendScan()
    if since is not None:
        scan = scan.fromSnapshotExclusive(since)
    tasks = scan.planFiles()
    try:
        for task in tasks.iterator():
            file = task.file()
            if file.specId() == loaded.spec().specId():
                yield StoredFile(
                    file.fileSizeInBytes(), str(file.location()), file.copyWithoutStats()
                )
    finally:
        tasks.close()
