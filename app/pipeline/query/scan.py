"""A table of the lake as DuckDB asks for it: some columns, rows that fit, batch after batch.

DuckDB passes a dataset of Arrow the columns and the conditions of a query. Files whose bounds (Iceberg keeps the
least and the greatest value of every column) exclude the conditions are not opened, and of the others Arrow reads
the columns alone. A file with deleted rows, or one written before the columns changed, is read by PyIceberg, which
knows the rules, and holds the columns of one file in memory for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.types import NestedField, PrimitiveType

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

_BATCH: Final = 8_192  # rows: records of some kilobytes stay far below a gigabyte
_AHEAD: Final = 2  # batches


class Rows(ds.Dataset):  # type: ignore[misc]
    """One snapshot of a table.

    ``table``  as PyIceberg has it.
    ``asked``  the columns of each scan, those of its conditions among them.
    ``fault``  of a file that cannot be read: DuckDB has it for one of the SQL.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        self.asked: list[list[str]] = []
        self.fault: Exception | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - as Arrow calls it
        **_: Any,
    ) -> ds.Scanner:
        """As Arrow has it: ``columns`` in their order, of the rows for which ``filter`` is true."""
        wanted = list(self._schema.names if columns is None else columns)
        needed = list(dict.fromkeys([*wanted, *self._named(filter)]))
        self.asked.append(needed)
        schema = pa.schema([self._schema.field(name) for name in needed])
        batches = self._batches(schema, filter)
        return ds.Scanner.from_batches(batches, schema=schema, columns=wanted, filter=filter)

    def files(self, condition: pc.Expression | None = None) -> list[FileScanTask]:
        """Those that may have rows for which it is true."""
        if condition is None:
            return self._tasks
        form, nowhere = ds.ParquetFileFormat(), pyarrow.fs.LocalFileSystem()
        by_place = {each.file.file_path: each for each in self._tasks}
        fields = [self.table.schema().find_field(name) for name in self._named(condition)]
        known = [
            form.make_fragment(place, nowhere, partition_expression=self._bounds(each.file, fields))
            for place, each in by_place.items()
        ]
        kept = ds.FileSystemDataset(known, self._schema, form).get_fragments(filter=condition)
        return [by_place[each.path] for each in kept]

    @cached_property
    def _tasks(self) -> list[FileScanTask]:
        return list(self.table.scan().plan_files())

    def _batches(
        self, schema: pa.Schema, condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        try:
            for task in self.files(condition):
                if self._plain(task):
                    yield from self._by_arrow(task, schema, condition)
                else:
                    yield from self._by_iceberg(task, schema)
        except Exception as fault:
            self.fault = fault
            raise

    def _plain(self, task: FileScanTask) -> bool:
        """Whether the rows of the table are those of the file, under the same names."""
        parquet = task.file.file_format == FileFormat.PARQUET
        return parquet and not task.delete_files and len(self.table.metadata.schemas) == 1

    def _by_arrow(
        self, task: FileScanTask, schema: pa.Schema, condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        with self.table.io.new_input(task.file.file_path).open() as file:
            fragment = ds.ParquetFileFormat().make_fragment(file)
            found = fragment.scanner(
                schema=schema,
                filter=condition,
                batch_size=_BATCH,
                batch_readahead=_AHEAD,
                fragment_readahead=1,
            )
            yield from found.to_batches()

    def _by_iceberg(self, task: FileScanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        columns = self.table.schema().select(*schema.names)
        scan = ArrowScan(self.table.metadata, self.table.io, columns, AlwaysTrue())
        for batch in scan.to_record_batches([task]):
            yield batch.select(schema.names).cast(schema)

    def _named(self, condition: pc.Expression | None) -> list[str]:
        """The columns of a condition: it does not hold together without them."""
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
        """What is true of every row of a file."""
        said = (self._bound(file, field) for field in fields)
        return reduce(and_, (each for each in said if each is not None), pc.scalar(True))

    def _bound(self, file: DataFile, field: NestedField) -> pc.Expression | None:
        """Between the least and the greatest value, or null."""
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
