"""Read the Parquet files of the lake in batches whose size in memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.pipeline.archive.nested import FIELD_ID, aligned
from app.pipeline.archive.storage import open_file

ROWS: Final = 10_000
"""The largest number of rows in a batch, which is Spark's default."""
OCTETS: Final = 1 << 25
"""The approximate size limit of a batch in bytes, so that rows of a megabyte come a few at
a time.
"""

_LARGE: Final = "value"
"""The column whose repeated values Spark stores once."""

Skip = Callable[[Mapping[str, Any]], bool]
"""A function that returns True if a row group is not wanted. It receives the metadata of the
columns that have no inner columns, by their names in the table.
"""


def batches(
    path: str,
    access: Mapping[str, str],
    wanted: pa.Schema,
    *,
    skip: Skip = lambda _columns: False,
    complete: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with the columns of a schema.

    Args:
        path: The URI of the file.
        access: The storage properties of the table.
        wanted: The columns, which are found by Iceberg's ids, also inside other columns.
        skip: Chooses row groups that are not read.
        complete: Whether the file must have all columns. Otherwise a column that was added to the
            table later is null.

    Raises:
        ValueError: The file lacks a column.
    """
    with open_file(path, access) as source:
        plain = pq.ParquetFile(source)
        names = _names(plain.schema_arrow, wanted)
        if complete and None in names:
            gone = wanted.field(names.index(None)).metadata[FIELD_ID]
            raise ValueError(f"{path} has no column with the id {gone}")
        yield from _batches(source, plain, names, wanted, skip)


def _names(schema: pa.Schema, wanted: pa.Schema) -> list[str | None]:
    """Return the names of the wanted columns in a file; None for those that it lacks."""
    known = {
        field.metadata[FIELD_ID]: field.name
        for field in schema
        if FIELD_ID in (field.metadata or {})
    }
    return [known.get(field.metadata[FIELD_ID]) for field in wanted]


def _batches(
    source: Any, plain: pq.ParquetFile, names: list[str | None], wanted: pa.Schema, skip: Skip
) -> Iterator[pa.RecordBatch]:
    read = [name for name in names if name is not None]
    types = {field.name: field.type for field in plain.schema_arrow}
    own = dict(zip(wanted.names, names, strict=True))
    large = own.get(_LARGE)
    coded = plain
    if large is not None:
        coded = pq.ParquetFile(source, metadata=plain.metadata, read_dictionary=[large])
    for group in range(plain.num_row_groups):
        told = plain.metadata.row_group(group)
        there = {each.path_in_schema: each for each in map(told.column, range(told.num_columns))}
        columns = {name: there[each] for name, each in own.items() if each in there}
        if skip(columns):
            continue
        file = coded if large and columns[_LARGE].has_dictionary_page else plain
        row = max(1, told.total_byte_size // max(1, told.num_rows))
        rows = max(1, min(ROWS, OCTETS // row))
        for batch in file.iter_batches(rows, row_groups=[group], columns=read):
            found = [
                pa.nulls(len(batch), field.type)
                if name is None
                else aligned(batch.column(name), types[name], field.type)
                for name, field in zip(names, wanted, strict=True)
            ]
            yield from _split(pa.RecordBatch.from_arrays(found, wanted.names))


def _split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch with decoded values, halved until each part has at most OCTETS bytes.

    A repeated value is stored once in its row group, so the size of the group does not show the
    size of its rows.
    """
    at = batch.schema.get_field_index(_LARGE)
    value = batch.column(at) if at >= 0 else None
    if value is None or not pa.types.is_dictionary(value.type):
        yield batch
    elif len(batch) > 1 and _octets(value) > OCTETS:
        middle = len(batch) // 2
        yield from _split(batch.slice(0, middle))
        yield from _split(batch.slice(middle))
    else:
        yield batch.set_column(at, _LARGE, value.dictionary_decode())


def _octets(coded: pa.DictionaryArray) -> int:
    lengths = pc.binary_length(coded.dictionary).take(coded.indices)
    return pc.sum(lengths.cast(pa.int64())).as_py() or 0
