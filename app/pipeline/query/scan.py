"""A table of the lake as a dataset from which DuckDB requests columns and rows, batch by batch.

DuckDB passes a dataset of Arrow the columns and the conditions of a query. Iceberg keeps the least
and greatest value of each column, so files that cannot match are not opened. From the others Arrow
reads only the columns, which it finds by Iceberg's ids. Files with deleted rows are read by PyIceberg,
which holds one file's columns in memory.

The threads of DuckDB pull the batches one at a time, and each batch is read when it is pulled. A
scanner of Arrow would read ahead on its own threads. These continue after the answer and abort the
process if Python ends meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.types import NestedField, PrimitiveType

from app.errors import SetupError
from app.pipeline.archive.nested import FIELD_ID, aligned

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BATCH: Final = 8_192  # rows: records of some kilobytes stay far below a gigabyte


class PullScan:
    """A replacement for Arrow's scanner that reads on the thread that pulls from it."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema, self._batches = schema, batches

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches)


class LakeDataset(ds.Dataset):  # type: ignore[misc]
    """One snapshot of a table as a dataset of Arrow.

    Attributes:
        table: The table of PyIceberg.
        asked: The columns of each scan, including those of its conditions.
        fault: The error of a file that could not be read, which DuckDB would report as an error of
            the SQL.
    """

    def __init__(self, table: Table, at: datetime | None = None) -> None:
        """Choose the snapshot: the newest one, or that of a time. Raise SetupError if the table has
        none that is so old."""
        self.table = table
        self._snapshot = None if at is None else _snapshot_at(table, at)
        self._schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        self.asked: list[list[str]] = []
        self.fault: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - the name in Arrow's interface
        **_: Any,
    ) -> PullScan:
        """Return a scan of ``columns``, in their order, over the rows for which ``filter`` is true."""
        wanted = list(self._schema.names if columns is None else columns)
        needed = list(dict.fromkeys([*wanted, *self._columns_of(filter)]))
        self.asked.append(needed)
        return PullScan(
            self._schema_of(wanted), self._batches(wanted, self._schema_of(needed), filter)
        )

    def files(self, condition: pc.Expression | None = None) -> list[FileScanTask]:
        """Return the files that may have rows for which the condition is true."""
        if condition is None:
            return self._tasks
        form, nowhere = ds.ParquetFileFormat(), pyarrow.fs.LocalFileSystem()
        by_place = {each.file.file_path: each for each in self._tasks}
        fields = [self.table.schema().find_field(name) for name in self._columns_of(condition)]
        known = [
            form.make_fragment(place, nowhere, partition_expression=self._bounds(each.file, fields))
            for place, each in by_place.items()
        ]
        kept = ds.FileSystemDataset(known, self._schema, form).get_fragments(filter=condition)
        return [by_place[each.path] for each in kept]

    @cached_property
    def _tasks(self) -> list[FileScanTask]:
        return list(self.table.scan(snapshot_id=self._snapshot).plan_files())

    def _schema_of(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self._schema.field(name) for name in names])

    def _batches(
        self, wanted: Sequence[str], needed: pa.Schema, condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns ``wanted`` of the rows that match the condition. ``needed`` has these columns and those
        of the condition."""
        try:
            for task in self.files(condition):
                read = self._by_arrow if self._can_arrow_read(task) else self._by_iceberg
                for batch in read(task, needed, condition):
                    rows = batch.select(needed.names).cast(needed)
                    yield (rows if condition is None else rows.filter(condition)).select(wanted)
        except Exception as fault:
            self.fault = fault
            raise

    def _can_arrow_read(self, task: FileScanTask) -> bool:
        """Return True if the file has the rows of the table, so that Arrow can read it."""
        return task.file.file_format == FileFormat.PARQUET and not task.delete_files

    @cached_property
    def _has_own_names(self) -> bool:
        """Return True if all files have the names of the columns. Iceberg writes other names for those
        with characters that Avro does not permit. Only the first schema has the number 0: earlier ones
        may have been removed with their snapshots."""
        names = self.table.schema().column_names
        return [each.schema_id for each in self.table.metadata.schemas] == [0] and all(
            _AVRO_NAME.fullmatch(step) for name in names for step in name.split(".")
        )

    @cached_property
    def _by_id(self) -> pa.Schema:
        """Return the columns with their ids."""
        return schema_to_pyarrow(self.table.schema(), include_field_ids=True)

    def _by_arrow(
        self, task: FileScanTask, columns: pa.Schema, condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Read a file with Arrow, leaving out row groups whose bounds exclude the condition."""
        with self.table.io.new_input(task.file.file_path).open() as file:
            whole = ds.ParquetFileFormat().make_fragment(file)
            prunable = condition is not None and self._has_own_names
            kept = whole.subset(condition, schema=self._schema) if prunable else whole
            found = [(self._by_id.field(name), self._stored(whole, name)) for name in columns.names]
            read = [own.name for _, own in found if own is not None]
            # Read ahead only in native files: Arrow's threads must not use a Python file after the pull.
            with pq.ParquetFile(
                file, metadata=whole.metadata, pre_buffer=isinstance(file, pa.NativeFile)
            ) as rows:
                for group in kept.row_groups:
                    for batch in rows.iter_batches(_BATCH, [group.id], read):
                        yield _named(batch, found, columns)

    def _stored(self, file: ds.ParquetFileFragment, name: str) -> pa.Field | None:
        """Return the column of a file that has the id of a column of the table; None if there is none."""
        wanted = self._by_id.field(name).metadata[FIELD_ID]
        there = (each for each in file.physical_schema if each.metadata)
        return next((each for each in there if each.metadata.get(FIELD_ID) == wanted), None)

    def _by_iceberg(
        self, task: FileScanTask, columns: pa.Schema, _: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        named = self.table.schema().select(*columns.names)
        scan = ArrowScan(self.table.metadata, self.table.io, named, AlwaysTrue())
        return scan.to_record_batches([task])

    def _columns_of(self, condition: pc.Expression | None) -> list[str]:
        """Return the columns that are needed to evaluate a condition."""
        if condition is None:
            return []
        return [name for name in self._schema.names if self._needs(condition, name)]

    def _needs(self, condition: pc.Expression, name: str) -> bool:
        others = pa.schema([field for field in self._schema if field.name != name])
        try:
            ds.Scanner.from_batches([], schema=others, filter=condition)
        except pa.ArrowInvalid:
            return True
        return False

    def _bounds(self, file: DataFile, fields: Sequence[NestedField]) -> pc.Expression:
        """Return a condition that holds for every row of a file."""
        bounds = (self._bound(file, field) for field in fields)
        return reduce(and_, (each for each in bounds if each is not None), pc.scalar(True))

    def _bound(self, file: DataFile, field: NestedField) -> pc.Expression | None:
        """Return a condition that a column is between its bounds in a file, or null; None if the
        file has no bounds for the column.
        """
        at, kind = field.field_id, field.field_type
        if not (
            isinstance(kind, PrimitiveType) and at in file.lower_bounds and at in file.upper_bounds
        ):
            return None
        low, high = (
            pa.scalar(from_bytes(kind, bound[at]), self._schema.field(field.name).type)
            for bound in (file.lower_bounds, file.upper_bounds)
        )
        column = pc.field(field.name)
        within = (column >= low) & (column <= high)
        return within if file.null_value_counts.get(at) == 0 else within | column.is_null()


def _named(
    batch: pa.RecordBatch, found: Sequence[tuple[pa.Field, pa.Field | None]], columns: pa.Schema
) -> pa.RecordBatch:
    """Return the columns of the table, each from that of the file; null if the file has none."""
    arrays = [
        pa.nulls(len(batch), wanted.type)
        if own is None
        else aligned(batch.column(own.name), own.type, wanted.type)
        for wanted, own in found
    ]
    return pa.RecordBatch.from_arrays(arrays, columns.names)


def _snapshot_at(table: Table, at: datetime) -> int:
    found = table.snapshot_as_of_timestamp(int(at.timestamp() * 1000))
    if found is None:
        raise SetupError(
            f"the table in {table.location()} has no snapshot of {at:%Y-%m-%d %H:%M:%S} UTC or before",
            setting="--at",
            cure="name a later time: SELECT committed_at FROM events_snapshots lists what is kept",
        )
    return found.snapshot_id
