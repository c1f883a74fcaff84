"""Data files of the lake, written by the tasks that decode: rows go from Arrow into Parquet, and no row goes back to
the JVM. A file counts when a snapshot names it; what a killed task leaves is removed by ``maintain`` and ``erase``.

The driver is told of files (``FILES``), one row each, with the identities of its events in the order of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.pipeline import tables
from app.pipeline.archive.identity import buckets, identities
from app.pipeline.decode.batch import decoded_batches
from app.pipeline.decode.buffers import Numbers
from app.pipeline.decode.times import INSTANT

FILES: Final = "name STRING, path STRING, partition STRING, rows BIGINT, size BIGINT, identities BINARY"
"""``name`` of the table; ``partition`` in Iceberg's words: ``identity_bucket=3``. ``identities``: int64, little-endian."""

GROUP: Final = 1 << 27
"""Octets that a task holds, in Arrow, before each partition gets a row group of them."""

_UNIQUE: Final = frozenset({"identity", "offset", "id", "time_text", "data", "data_bytes", "value", "key"})
"""Columns whose values hardly repeat: a dictionary costs and saves nothing."""
_WIDE: Final = frozenset({"data", "data_bytes", "value", "detail"})
"""Columns that nobody looks for by a range of values: without least and greatest ones."""
_DAY: Final = 86_400_000_000  # microseconds


class Layout(msgspec.Struct, frozen=True):
    """Of a table: what a task must know of it.

    ``folder``      where its data files go, a URI.
    ``schema``      its columns, with the field ids of Iceberg.
    ``by``          the partition's name; ``buckets`` of it, 0 where it is the day of ``record_time``.
    ``codec``, ``level``  of compression.
    ``access``      properties of the table's files: end points and credentials of an object store.
    """

    name: str
    folder: str
    schema: pa.Schema
    by: str
    buckets: int
    codec: str
    level: int | None
    access: Mapping[str, str]


class File(msgspec.Struct, frozen=True):
    """A data file, in the columns of ``FILES``."""

    name: str
    path: str = ""
    partition: str = ""
    rows: int = 0
    size: int = 0
    identities: bytes = b""

    @property
    def numbers(self) -> Numbers:
        return np.frombuffer(self.identities, np.int64)


def written(
    batches: Iterable[pa.RecordBatch], events: Layout, quarantine: Layout, *, only_count: bool
) -> Iterator[pa.RecordBatch]:
    """Batches of the columns RAW, decoded and written; what was is told in ``FILES``. ``only_count`` of events: they
    are told as a file without a path.
    """
    taken, refused, there = _Files(events), _Files(quarantine), 0
    for batch in decoded_batches(batches):
        broken = batch.column("verdict").is_valid()
        valid = batch.filter(pc.invert(broken)) if broken.true_count else batch
        there += len(valid)
        if len(valid) and not only_count:
            _add_events(taken, valid)
        if broken.true_count:
            _add_refused(refused, batch.filter(broken))
    counted = [File(name=events.name, rows=there)] if only_count else []
    yield from told([*counted, *taken.closed(), *refused.closed()])


def without(
    batches: Iterable[pa.RecordBatch], layout: Layout
) -> Iterator[pa.RecordBatch]:
    """The files of each row (``path``, ``partition``, ``identities``) written again, without the rows ``doomed``."""
    for batch in batches:
        for row in batch.to_pylist():
            yield from told([_without(row, layout)])


def _without(row: Mapping[str, Any], layout: Layout) -> File:
    kept = np.ones(row["rows"], bool)
    kept[np.frombuffer(row["doomed"], np.int64)] = False
    file = _File(layout, row["partition"])
    done = 0
    with opened(row["path"], layout.access) as old:
        for batch in pq.ParquetFile(old).iter_batches():
            chosen = kept[done : done + len(batch)]
            done += len(batch)
            file.write([_shaped(batch.filter(pa.array(chosen)).columns, layout.schema)])
    return file.closed(np.frombuffer(row["identities"], np.int64)[kept])


def told(files: Iterable[File]) -> Iterator[pa.RecordBatch]:
    rows = [msgspec.to_builtins(each, builtin_types=(bytes,)) for each in files]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, _FILES)


_FILES: Final = pa.schema(
    [
        ("name", pa.string()), ("path", pa.string()), ("partition", pa.string()),
        ("rows", pa.int64()), ("size", pa.int64()), ("identities", pa.binary()),
    ]
)  # fmt: skip


def _add_events(files: _Files, batch: pa.RecordBatch) -> None:
    known = identities(batch.column("source"), batch.column("id"))
    columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), "identity": pa.array(known)}
    rows = _shaped([columns[name] for name in files.layout.schema.names], files.layout.schema)
    files.add(rows, buckets(known, files.layout.buckets), known)


def _add_refused(files: _Files, batch: pa.RecordBatch) -> None:
    seen = pa.repeat(pa.scalar(datetime.now(UTC), INSTANT), len(batch))
    columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), "seen": seen}
    rows = _shaped([columns[name] for name in files.layout.schema.names], files.layout.schema)
    days = rows.column("record_time").cast(pa.int64()).to_numpy() // _DAY
    files.add(rows, days, None)


def _shaped(columns: Iterable[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """In the very types of the table: names and nullability of what is nested may differ."""
    pairs = zip(columns, schema, strict=True)
    cast = [each if each.type == field.type else each.cast(field.type) for each, field in pairs]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


class _Files:
    """The files of one table that a task writes: one a partition."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._files: dict[int, _File] = {}
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._identities: dict[int, list[Numbers]] = {}
        self._octets = 0

    def add(self, rows: pa.RecordBatch, partitions: Numbers, known: Numbers | None) -> None:
        order = np.argsort(partitions, kind="stable")
        rows, partitions = rows.take(pa.array(order)), partitions[order]
        names, begins = np.unique(partitions, return_index=True)
        ends = [*begins[1:], len(rows)]
        for name, begin, end in zip(names.tolist(), begins.tolist(), ends, strict=True):
            self._waiting.setdefault(name, []).append(rows.slice(begin, end - begin))
            if known is not None:
                self._identities.setdefault(name, []).append(known[order[begin:end]])
        self._octets += rows.nbytes
        if self._octets >= GROUP:
            self._write()

    def _write(self) -> None:
        for name, batches in self._waiting.items():
            if name not in self._files:
                self._files[name] = _File(self.layout, self._partition(name))
            self._files[name].write(batches)
        self._waiting, self._octets = {}, 0

    def _partition(self, name: int) -> str:
        value = name if self.layout.buckets else np.datetime64(name, "D")
        return f"{self.layout.by}={value}"

    def closed(self) -> list[File]:
        self._write()
        nothing = [np.zeros(0, np.int64)]
        return [
            file.closed(np.concatenate(self._identities.get(name, nothing)))
            for name, file in self._files.items()
        ]


class _File:
    """One file, under a name that no other has."""

    def __init__(self, layout: Layout, partition: str) -> None:
        self._layout, self._partition, self._rows = layout, partition, 0
        self._path = f"{layout.folder}/{partition}/{uuid4().hex}.parquet"
        self._sink = created(self._path, layout.access)
        self._writer = pq.ParquetWriter(
            self._sink,
            layout.schema,
            compression=layout.codec,
            compression_level=layout.level,
            use_dictionary=[name for name in layout.schema.names if name not in _UNIQUE],
            write_statistics=[name for name in layout.schema.names if name not in _WIDE],
            store_schema=False,
        )

    def write(self, batches: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches, self._layout.schema)
        self._rows += len(table)
        self._writer.write_table(table, row_group_size=max(1, len(table)))

    def closed(self, known: Numbers) -> File:
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        return File(
            self._layout.name, self._path, self._partition, self._rows, size, known.tobytes()
        )


def created(path: str, access: Mapping[str, str]) -> Any:
    """A new file to write to, in a folder of this machine or wherever PyIceberg writes."""
    local = _local(path)
    if local is None:
        return _anywhere(path, access).new_output(path).create()
    local.parent.mkdir(parents=True, exist_ok=True)
    return local.open("xb")


def opened(path: str, access: Mapping[str, str]) -> Any:
    """A file to read."""
    local = _local(path)
    return local.open("rb") if local else _anywhere(path, access).new_input(path).open()


def _local(path: str) -> Path | None:
    where = urlsplit(path)
    return Path(unquote(where.path)) if where.scheme in {"", "file"} else None


def _anywhere(path: str, access: Mapping[str, str]) -> Any:
    from pyiceberg.io import load_file_io  # noqa: PLC0415 - heavy, and a folder needs none

    return load_file_io(dict(access), path)
