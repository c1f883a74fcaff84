"""Data files of the lake, as tasks write them.

Rows go from Arrow into Parquet and never back to the JVM. A file belongs to the lake when a
snapshot names it. Files of killed tasks are removed by ``maintain`` and ``erase``. The tasks report
each file to the driver as a row with the columns ``FILES``. This row includes the identities of the
file's events, in the order of its rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.pipeline.archive.partitions import Part, partition_numbers, partition_of, shown
from app.pipeline.archive.storage import create_file, delete_file, open_file
from app.pipeline.decode.buffers import Numbers

FILES: Final = (
    "name STRING, path STRING, spec INT, partition ARRAY<INT>, rows BIGINT, size BIGINT,"
    " identities BINARY"
)
_ROW: Final = {
    "name": pa.string(), "path": pa.string(), "spec": pa.int32(),
    "partition": pa.list_(pa.int32()),
    "rows": pa.int64(), "size": pa.int64(), "identities": pa.binary(),
}  # fmt: skip
DOOMED: Final = "doomed"
"""A column in addition to FILES: the numbers of the rows to remove from the file, as int64."""

OPEN: Final = 64
"""The number of files that a task keeps open after writing a group of rows. Senders choose times,
so rows may have many days.
"""

GROUP: Final = 1 << 27
"""The size in bytes up to which a task collects rows. It then writes them as one row group for each
partition.
"""

_UNIQUE: Final = frozenset(
    {"identity", "offset", "id", "time_text", "data", "data_bytes", "value", "key"}
)
"""The columns whose values seldom repeat. A dictionary for such a column would cost time and save
nothing."""
_WIDE: Final = frozenset({"data", "data_bytes", "value", "detail"})
"""The columns without statistics, because no query searches them by a range of values."""
_TYPED_UNIQUE: Final = frozenset({"ce_id", "ce_offset"})
"""The same as ``_UNIQUE`` for typed tables, whose other columns have names that users chose."""


class TableLayout(msgspec.Struct, frozen=True):
    """The properties of a table that a task needs for writing data files.

    Attributes:
        name: The name of the table.
        folder: The URI of the folder for data files.
        schema: The columns, with the field ids of Iceberg.
        spec: The number of the partitioning.
        parts: The partitioning: a day, buckets, or buckets of days.
        codec: The compression codec.
        level: The compression level; None for the default.
        access: The storage properties: end points and credentials of an object store.
    """

    name: str
    folder: str
    schema: pa.Schema
    spec: int
    parts: tuple[Part, ...]
    codec: str
    level: int | None
    access: Mapping[str, str]


class DataFile(msgspec.Struct, frozen=True):
    """A data file, in the columns of ``FILES``.

    Attributes:
        name: The name of the table.
        path: The URI; empty for rows that were counted and not written.
        spec: The number of the partitioning.
        partition: The values of the parts: a bucket, or the days since 1970 (None without a time).
        rows: The number of rows.
        size: The size in bytes.
        identities: The identity of each row as int64 bytes; empty for records that are no events.
    """

    name: str
    path: str = ""
    spec: int = 0
    partition: Sequence[int | None] = ()
    rows: int = 0
    size: int = 0
    identities: bytes = b""

    @property
    def known(self) -> Numbers:
        """Return the identity of each row as numbers."""
        return np.frombuffer(self.identities, np.int64)


def rewrite_without_doomed(
    batches: Iterable[pa.RecordBatch], layout: TableLayout
) -> Iterator[pa.RecordBatch]:
    """Write each file of ``FILES`` and ``DOOMED`` again without its doomed rows, and yield a batch
    of ``FILES``.
    """
    for batch in batches:
        yield as_batch([_rewrite_file(row, layout) for row in batch.to_pylist()])


def _rewrite_file(row: dict[str, Any], layout: TableLayout) -> DataFile:
    doomed = np.frombuffer(row.pop(DOOMED), np.int64)
    old = DataFile(**row)
    kept = np.ones(old.rows, bool)
    kept[doomed] = False
    new, done = _File(layout, old.partition), 0
    with open_file(old.path, layout.access) as source:
        for batch in _groups(pq.ParquetFile(source)):
            here = slice(done, done + len(batch))
            rows = _cast_to_table(batch.filter(pa.array(kept[here])), layout.schema)
            new.write([rows], old.known[here][kept[here]])
            done += len(batch)
    return new.closed()


def _groups(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Yield each row group as one batch, because the group fitted in memory when it was written."""
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        yield from file.iter_batches(rows, row_groups=[group])


def as_batch(files: Sequence[DataFile]) -> pa.RecordBatch:
    columns = [[getattr(each, name) for each in files] for name in _ROW]
    arrays = [pa.array(each, kind) for each, kind in zip(columns, _ROW.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(_ROW))


def _cast_to_table(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the table's columns of a batch, cast to the exact types of the table.

    The types of the batch may differ in the names and the nullability of nested fields.
    """
    pairs = [(batch.column(field.name), field.type) for field in schema]
    cast = [each if each.type == kind else each.cast(kind) for each, kind in pairs]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


class Files:
    """The data files of one table that a task writes: one for each partition, in groups of rows."""

    def __init__(self, layout: TableLayout) -> None:
        self._layout = layout
        self._files: dict[int, _File] = {}
        self._closed: list[DataFile] = []
        self._waiting: dict[int, list[tuple[pa.RecordBatch, Numbers]]] = {}
        self._octets = 0

    def add(self, batch: pa.RecordBatch, known: Numbers | None) -> None:
        """Add rows. ``known`` has their identities; None if they are no events."""
        rows = _cast_to_table(batch, self._layout.schema)
        known = np.zeros(0, np.int64) if known is None else known
        partitions = partition_numbers(rows, self._layout.parts, known)
        if (partitions[1:] < partitions[:-1]).any():
            order = np.argsort(partitions, kind="stable")
            rows, partitions = rows.take(pa.array(order)), partitions[order]
            known = known[order] if len(known) else known
        names, begins = np.unique(partitions, return_index=True)
        for name, begin, end in zip(names.tolist(), begins, [*begins[1:], len(rows)], strict=True):
            part = rows.slice(begin, end - begin), known[begin:end]
            self._waiting.setdefault(name, []).append(part)
        self._octets += rows.nbytes
        if self._octets >= GROUP:
            self._write()

    def _write(self) -> None:
        for name, parts in self._waiting.items():
            if name not in self._files:
                self._files[name] = _File(self._layout, partition_of(name, self._layout.parts))
            batches, known = zip(*parts, strict=True)
            self._files[name].write(batches, np.concatenate(known))
            if len(self._files) > OPEN:
                self._close()
        self._waiting, self._octets = {}, 0

    def _close(self) -> None:
        self._closed += [file.closed() for file in self._files.values()]
        self._files = {}

    def closed(self) -> list[DataFile]:
        self._write()
        self._close()
        pa.default_memory_pool().release_unused()  # a worker lives on after a large batch
        return self._closed

    def discard(self) -> None:
        """Remove all files written so far. Errors are ignored."""
        for file in self._files.values():
            with contextlib.suppress(Exception):
                file.closed()
        open_ones = [file.path for file in self._files.values()]
        for path in (*open_ones, *(each.path for each in self._closed)):
            with contextlib.suppress(Exception):
                delete_file(path, self._layout.access)


class _File:
    """One data file with a unique name."""

    def __init__(self, layout: TableLayout, partition: Sequence[int | None]) -> None:
        values = zip(layout.parts, partition, strict=True)
        folders = "/".join(f"{part.name}={shown(part, value)}" for part, value in values)
        path = f"{layout.folder}/{folders}/{uuid4().hex}.parquet"
        self._layout, self._sink = layout, create_file(path, layout.access)
        self._file = DataFile(layout.name, path, layout.spec, partition)
        self._known: list[bytes] = []
        is_typed = set(layout.schema.names) >= _TYPED_UNIQUE
        self._writer = pq.ParquetWriter(
            self._sink,
            layout.schema,
            compression=layout.codec,
            compression_level=layout.level,
            use_dictionary=_leaves(layout.schema, _TYPED_UNIQUE if is_typed else _UNIQUE),
            write_statistics=_leaves(layout.schema, frozenset() if is_typed else _WIDE),
            store_schema=False,
        )

    @property
    def path(self) -> str:
        return self._file.path

    def write(self, batches: Sequence[pa.RecordBatch], known: Numbers) -> None:
        """Write the batches as one row group. ``known`` has the identities of the rows, if they are
        events.
        """
        rows = pa.Table.from_batches(batches, self._layout.schema)
        self._writer.write_table(rows, row_group_size=max(1, len(rows)))
        self._known.append(known.tobytes())
        self._file = msgspec.structs.replace(self._file, rows=self._file.rows + len(rows))

    def closed(self) -> DataFile:
        with contextlib.closing(self._sink):
            self._writer.close()
            size = self._sink.tell()
        return msgspec.structs.replace(self._file, size=size, identities=b"".join(self._known))


def _leaves(schema: pa.Schema, but: frozenset[str]) -> list[str]:
    """Return the Parquet paths of all columns except those in ``but``."""
    chosen = [field for field in schema if field.name not in but]
    return [path for field in chosen for path in _paths(field.type, field.name)]


def _paths(kind: pa.DataType, path: str) -> Iterator[str]:
    if isinstance(kind, pa.MapType):
        yield from _paths(kind.key_type, f"{path}.key_value.key")
        yield from _paths(kind.item_type, f"{path}.key_value.value")
    elif isinstance(kind, pa.ListType):
        yield from _paths(kind.value_type, f"{path}.list.element")
    elif isinstance(kind, pa.StructType):
        for field in kind:
            yield from _paths(field.type, f"{path}.{field.name}")
    else:
        yield path
