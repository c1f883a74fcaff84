"""The tasks that decode records and write the data files of ``events``, ``quarantine`` and the typed
tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.pipeline.archive.files import DataFile, Files, TableLayout, as_batch
from app.pipeline.archive.identity import identities
from app.pipeline.decode.batch import decoded_batch, parts
from app.pipeline.decode.buffers import Numbers
from app.pipeline.decode.times import INSTANT
from app.pipeline.kinds import TypedTable
from app.pipeline.tables import UNFIT
from app.pipeline.typed.rows import rows_of, unfit_rows


class TypedTask(msgspec.Struct, frozen=True):
    """The work of a task for a typed table.

    Attributes:
        table: The settings of the table.
        layout: The layout of the table.
        rows: Whether to write the rows. They are not written again if the table has them.
        unfit: Whether to write records whose data does not fit to ``quarantine``.
    """

    table: TypedTable
    layout: TableLayout
    rows: bool = True
    unfit: bool = True


class DecodeTask(msgspec.Struct, frozen=True):
    """The work of a task.

    Attributes:
        events: The layout of ``events``.
        quarantine: The layout of ``quarantine``.
        typed: The typed tables.
        only_count: Whether to count the events without writing them.
        only_typed: Whether to write neither events nor records that are no events.
    """

    events: TableLayout
    quarantine: TableLayout
    typed: tuple[TypedTask, ...] = ()
    only_count: bool = False
    only_typed: bool = False


def write_files(batches: Iterable[pa.RecordBatch], task: DecodeTask) -> Iterator[pa.RecordBatch]:
    """Decode batches of the columns RAW, write the data files of the tables, and yield a batch of
    ``FILES``.

    If the task fails, its files are removed.
    """
    writing = _Writing(task)
    try:
        for batch in batches:
            for part in parts(batch):
                writing.add(part, decoded_batch(part))
        found = as_batch(writing.closed())
    except BaseException:  # otherwise each retry would fill a full disk further
        writing.discard()
        raise
    yield found


class _Writing:
    """The files of all tables that a task writes."""

    def __init__(self, task: DecodeTask) -> None:
        self._task = task
        self._events = Files(task.events)
        self._refused = Files(task.quarantine)
        self._unfit = Files(task.quarantine)
        self._typed = [Files(each.layout) for each in task.typed]
        self._count = 0

    def add(self, sent: pa.RecordBatch, decoded: pa.RecordBatch) -> None:
        broken = decoded.column("verdict").is_valid()
        if broken.true_count and not self._task.only_typed:
            self._refused.add(_seen(decoded.filter(broken)), None)
        if broken.true_count:
            valid = pc.invert(broken)
            sent, decoded = sent.filter(valid), decoded.filter(valid)
        self._count += len(decoded)
        if not len(decoded) or (self._task.only_count and not self._task.typed):
            return
        known = identities(decoded.column("source"), decoded.column("id"))
        if not self._task.only_count:
            self._events.add(decoded.append_column("identity", pa.array(known)), known)
        for files, each in zip(self._typed, self._task.typed, strict=True):
            self._add_typed(files, each, sent, decoded, known)

    def _add_typed(
        self,
        files: Files,
        task: TypedTask,
        sent: pa.RecordBatch,
        decoded: pa.RecordBatch,
        known: Numbers,
    ) -> None:
        found = rows_of(task.table, task.layout.schema, decoded, sent)
        if found is None:
            return
        if task.rows and len(found.rows):
            files.add(found.rows, known[found.at])
        if task.unfit and found.unfit is not None:
            self._unfit.add(_seen(found.unfit), known[found.unfit_at])

    def closed(self) -> list[DataFile]:
        counted = [DataFile(self._task.events.name, rows=self._count)]
        all_files = [each for files in self._each() for each in files.closed()]
        return [*(counted if self._task.only_count else ()), *all_files]

    def discard(self) -> None:
        for files in self._each():
            files.discard()

    def _each(self) -> tuple[Files, ...]:
        return self._events, *self._typed, self._refused, self._unfit


VERDICTS: Final = "broker STRING, topic STRING, partition INT, offset BIGINT, record_time TIMESTAMP, verdict STRING"


def verdicts(
    batches: Iterable[pa.RecordBatch], typed: Sequence[TypedTable]
) -> Iterator[pa.RecordBatch]:
    """Yield the verdict of each record in the columns ``VERDICTS``, also for data that does not fit
    the typed table of its event."""
    names = [each.split()[0] for each in VERDICTS.split(", ")]
    for batch in batches:
        for part in parts(batch):
            decoded = decoded_batch(part)
            unfit = np.zeros(len(decoded), bool)
            for each in typed:
                unfit[unfit_rows(each, decoded)] = True
            found = pc.if_else(pa.array(unfit), UNFIT, decoded.column("verdict"))
            columns = [decoded.column(name) for name in names[:-1]]
            yield pa.RecordBatch.from_arrays([*columns, found], names)


def _seen(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with the time at which its rows are written."""
    now = pa.repeat(pa.scalar(datetime.now(UTC), INSTANT), len(batch))
    return batch.append_column("seen", now)
