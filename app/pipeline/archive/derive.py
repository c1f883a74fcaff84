"""Derive ``events``, the typed tables and ``quarantine`` from ``events_raw``, one range of offsets
after another.

A range is decoded once, by tasks that write the data files of all tables. Files of new events are
committed to ``events`` (``unique`` finds the new ones), then the rows of these events to the typed
tables. Files of invalid records, and of events whose data does not fit, are committed to
``quarantine``.

Every table carries its progress in the snapshot of the range's rows. ``quarantine`` is written last
and for every range, so its progress states which ranges are finished. A range that a killed driver
interrupted is derived again. Events that ``events`` already has are then skipped, and so are the
rows of typed tables that have them. A typed row belongs to its table if ``events`` has the event at
the same position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import functions as f

from app.pipeline import tables
from app.pipeline.archive import commit, layouts, progress, raw, unique
from app.pipeline.archive.files import FILES, DataFile
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.progress import Progress
from app.pipeline.archive.ranges import DeriveRange
from app.pipeline.archive.raw import Batches, RangeRecords
from app.pipeline.archive.reading import batches
from app.pipeline.archive.writing import DecodeTask, TypedTask, write_files
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Observe = Callable[[str], None]
"""A callback that receives the name of each moment. Tests kill the process there."""


class Derived(msgspec.Struct, frozen=True):
    """The counts of a derived range: ``records = events + duplicates + quarantined``.

    ``unfit`` counts the events whose data does not fit the typed table of their type. ``rules``
    counts the rows added to ``quarantine`` by rule.
    """

    records: int = 0
    events: int = 0
    duplicates: int = 0
    quarantined: int = 0
    unfit: int = 0
    rules: Mapping[str, int] = {}

    def __add__(self, other: Derived) -> Derived:
        return Derived(
            self.records + other.records,
            self.events + other.events,
            self.duplicates + other.duplicates,
            self.quarantined + other.quarantined,
            self.unfit + other.unfit,
            Counter(self.rules) + Counter(other.rules),
        )


class DecodedFiles(NamedTuple):
    """The files of a decoded range, which no snapshot names yet.

    Attributes:
        events: The files of events.
        typed: The files of typed tables.
        refused: The files of records that are no events.
        unfit: The files of ``quarantine`` with events whose data does not fit.
    """

    events: list[DataFile]
    typed: list[DataFile]
    refused: list[DataFile]
    unfit: list[DataFile]


def derive(
    spark: SparkSession, lake: Lake, piece: DeriveRange, observe: Observe, known: IdentityCache
) -> Derived:
    """Derive one range and return the counts. If it fails with an error of Spark, it may be derived
    again.

    Args:
        spark: The session.
        lake: The lake.
        piece: The range.
        observe: Called with the name of each moment.
        known: The cache of event identities.
    """
    observe("range begun")
    arrived = raw.records(spark, lake, piece.start, piece.end)
    there = bool(piece.only) or piece.is_in(piece.before)
    found = write_decoded(
        spark,
        lake,
        arrived,
        typed_tasks(spark, lake, piece),
        only_count=there,
        only_typed=bool(piece.only),
    )
    observe("range decoded")
    left = [*found.typed, *found.unfit]
    quarantine = lake.table(tables.QUARANTINE_TABLE)
    with commit.removing_on_error(spark, quarantine, [*found.refused, *left]):
        if there:
            added, gone, here = 0, None, _stored_places(spark, lake, piece) if left else None
        else:
            ends = progress.merged(piece.before, piece.end)
            added, gone = append(spark, lake, found.events, ends, observe, known, piece.start)
            here = None
    observe("events committed")
    with commit.removing_on_error(spark, quarantine, found.refused):
        left = unique.of_events(spark, lake, left, gone, here)
        unfit = _commit_typed(spark, lake, piece, left, observe)
    rules = _rules(spark, lake, [*found.refused, *unfit])
    _commit_quarantine(spark, lake, piece, [*found.refused, *unfit])
    observe("quarantine committed")
    whole, broken = commit.row_count(found.events), commit.row_count(found.refused)
    if piece.only:
        return Derived(unfit=commit.row_count(unfit), rules=rules)
    return Derived(whole + broken, added, whole - added, broken, commit.row_count(unfit), rules)


def typed_tasks(spark: SparkSession, lake: Lake, piece: DeriveRange) -> list[TypedTask]:
    """Return what the tasks of a range write for typed tables: only what the tables lack."""
    return [
        TypedTask(
            each,
            layouts.layout(spark, lake, each.table, each),
            rows=not piece.is_in(piece.typed.get(each.table, {})),
            unfit=not (piece.only and piece.is_in(piece.unfit)),
        )
        for each in lake.tables
        if piece.only in ("", each.table)
    ]


def _stored_places(spark: SparkSession, lake: Lake, piece: DeriveRange) -> pa.Table:
    """Return the positions of the events that ``events`` has in a range."""
    events = spark.table(lake.table(tables.EVENTS_TABLE))
    types = [each.type for each in lake.tables if piece.only in ("", each.table)]
    chosen = events.where(progress.between(piece.start, piece.end)).where(f.col("type").isin(types))
    return chosen.select(*tables.PLACE).toArrow()


def _commit_typed(
    spark: SparkSession,
    lake: Lake,
    piece: DeriveRange,
    left: list[DataFile],
    observe: Observe,
) -> list[DataFile]:
    """Commit the rows of each typed table that lacks them, and return the files that are left."""
    for name in (each.table for each in lake.tables if piece.only in ("", each.table)):
        own = [each for each in left if each.name == name]
        left = [each for each in left if each.name != name]
        done = piece.typed.get(name, {})
        if not piece.is_in(done):
            with commit.removing_on_error(spark, lake.table(tables.QUARANTINE_TABLE), left):
                ends = progress.merged(done, piece.end)
                commit.append(spark, lake.table(name), own, ends, start=piece.start)
            observe(f"{name} committed")
    return left


def _rules(spark: SparkSession, lake: Lake, files: list[DataFile]) -> Mapping[str, int]:
    """Return the number of rows of each rule in files of ``quarantine``."""
    found = Counter[str]()
    if not files:
        return found
    layout = layouts.layout(spark, lake, tables.QUARANTINE_TABLE)
    rule = pa.schema([layout.schema.field("rule")])
    for each in files:
        for batch in batches(each.path, layout.access, rule):
            found.update(batch.column("rule").fill_null("").to_pylist())
    return found


def _commit_quarantine(
    spark: SparkSession, lake: Lake, piece: DeriveRange, files: list[DataFile]
) -> None:
    """Commit the files of ``quarantine``, with the progress of all tables that are finished."""
    name = lake.table(tables.QUARANTINE_TABLE)
    done = progress.read(spark, name) if piece.only else piece.end
    reached = progress.merged(piece.unfit, piece.end)
    ends = {each.table: reached for each in lake.tables if piece.only in ("", each.table)}
    unfit = {**progress.read_unfit(spark, name), **ends}
    start = progress.NO_PROGRESS if piece.only else piece.start
    commit.append(spark, name, files, done, progress.unfit_property(unfit, done), start)


def write_decoded(
    spark: SparkSession,
    lake: Lake,
    records: RangeRecords,
    typed: Iterable[TypedTask] = (),
    *,
    only_count: bool = False,
    only_typed: bool = False,
) -> DecodedFiles:
    """Decode records and write their data files, which no snapshot names yet.

    Args:
        spark: The session.
        lake: The lake.
        records: The records.
        typed: What to write for typed tables.
        only_count: Whether to count the events without writing them, because the lake has them.
        only_typed: Whether to leave out records that are no events, too.
    """
    events, quarantine = (
        layouts.layout(spark, lake, name) for name in (tables.EVENTS_TABLE, tables.QUARANTINE_TABLE)
    )
    task = DecodeTask(events, quarantine, tuple(typed), only_count, only_typed)
    told = partial(_written, read=records.read, task=task)
    found = commit.run_tasks(records.frame.mapInArrow(told, FILES))
    broken = [each for each in found if each.name == quarantine.name]
    return DecodedFiles(
        [each for each in found if each.name == events.name],
        [each for each in found if each.name not in (events.name, quarantine.name)],
        [each for each in broken if not each.identities],
        [each for each in broken if each.identities],
    )


def _written(batches: Batches, read: Callable[[Batches], Batches], task: DecodeTask) -> Batches:
    """Read the rows of a task with ``read`` and write them. Spark calls a function with one
    argument, so the others are bound beforehand."""
    return write_files(read(batches), task)


def append(
    spark: SparkSession,
    lake: Lake,
    arriving: list[DataFile],
    ends: Progress,
    observe: Observe,
    known: IdentityCache,
    start: Progress = progress.NO_PROGRESS,
) -> tuple[int, pa.Table | None]:
    """Commit the new events. Return their number and the positions of the duplicates, if there are
    some. Without new events a snapshot is made too: it carries the progress. ``start`` is that of
    ``commit.append``.
    """
    table = lake.table(tables.EVENTS_TABLE)
    with commit.removing_on_error(spark, table, arriving):
        new, gone = unique.new(spark, lake, arriving, known)
    observe("duplicates found")
    made = commit.append(spark, table, new, ends, start=start)
    known.extend(made, (each.known for each in new))
    return commit.row_count(new), gone
