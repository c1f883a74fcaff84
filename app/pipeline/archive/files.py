"""Data files of the lake, written by the tasks that decode: rows go from Arrow into Parquet, and none goes back to the
JVM. A file counts when a snapshot names it. What a killed task leaves behind ``maintain`` and ``erase`` remove.

The driver learns of files by ``FILES``, one row each, with the identities of its events in the order of its rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.pipeline.archive.identity import buckets, identities
from app.pipeline.decode.batch import decoded_batches
from app.pipeline.decode.buffers import Numbers
from app.pipeline.decode.times import INSTANT

FILES: Final = (
    "name STRING, path STRING, spec INT, partition INT, rows BIGINT, size BIGINT, identities BINARY"
)
_ROW: Final = {
    "name": pa.string(), "path": pa.string(), "spec": pa.int32(), "partition": pa.int32(),
    "rows": pa.int64(), "size": pa.int64(), "identities": pa.binary(),
}  # fmt: skip
DOOMED: Final = "doomed"
"""A column beside FILES: the numbers of rows of the file, as int64."""

OPEN: Final = 64
"""Files that a task has open beyond a group of rows: producers choose times, and so the days of what is refused."""

GROUP: Final = 1 << 27
"""Octets of rows that a task holds before it writes them: a row group for each partition that they have."""

_UNIQUE: Final = frozenset(
    {"identity", "offset", "id", "time_text", "data", "data_bytes", "value", "key"}
)
"""Columns whose values hardly repeat: a dictionary costs time and saves nothing."""
_WIDE: Final = frozenset({"data", "data_bytes", "value", "detail"})
"""Columns that nobody looks for by a range of values: without least and greatest ones."""
_DAY: Final = 86_400_000_000  # microseconds


class Layout(msgspec.Struct, frozen=True):
    """What a task must know of a table.

    ``folder``   where its data files go, a URI.
    ``schema``   its columns, with the field ids of Iceberg.
    ``spec``     the number of its partitioning.
    ``by``       the name of the partition; ``buckets`` of it, 0 where it is the day of ``record_time``.
    ``codec``, ``level``  of compression.
    ``access``   properties of the table's storage: end points and credentials of an object store.
    """

    name: str
    folder: str
    schema: pa.Schema
    spec: int
    by: str
    buckets: int
    codec: str
    level: int | None
    access: Mapping[str, str]


class File(msgspec.Struct, frozen=True):
    """A data file, in the columns of ``FILES``. ``name``: of the table. ``partition``: the bucket, or the days since
    1970. Without a ``path``: rows that were counted and not written.
    """

    name: str
    path: str = ""
    spec: int = 0
    partition: int = 0
    rows: int = 0
    size: int = 0
    identities: bytes = b""

    @property
    def known(self) -> Numbers:
        """The identity of each row."""
        return np.frombuffer(self.identities, np.int64)


def written(
    batches: Iterable[pa.RecordBatch], events: Layout, quarantine: Layout, *, only_count: bool
) -> Iterator[pa.RecordBatch]:
    """Batches of the columns RAW, decoded and written: a batch of ``FILES``. ``only_count`` of events."""
    taken, refused, count = _Files(events), _Files(quarantine), 0
    try:
        for batch in decoded_batches(batches):
            broken = batch.column("verdict").is_valid()
            valid = batch.filter(pc.invert(broken)) if broken.true_count else batch
            count += len(valid)
            if len(valid) and not only_count:
                taken.add_events(valid)
            if broken.true_count:
                refused.add_refused(batch.filter(broken))
        counted = [File(name=events.name, rows=count)] if only_count else []
        found = _told([*counted, *taken.closed(), *refused.closed()])
    except BaseException:  # a full disk must not be filled further by each try
        taken.discard()
        refused.discard()
        raise
    yield found


def without(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Each file of ``FILES`` and ``DOOMED`` written again, without its doomed rows."""
    for batch in batches:
        yield _told([_without(row, layout) for row in batch.to_pylist()])


def _without(row: dict[str, Any], layout: Layout) -> File:
    doomed = np.frombuffer(row.pop(DOOMED), np.int64)
    old = File(**row)
    kept = np.ones(old.rows, bool)
    kept[doomed] = False
    new, done = _File(layout, old.partition), 0
    with opened(old.path, layout.access) as source:
        for batch in _groups(pq.ParquetFile(source)):
            here = slice(done, done + len(batch))
            rows = _shaped(batch.filter(pa.array(kept[here])), layout.schema)
            new.write([rows], old.known[here][kept[here]])
            done += len(batch)
    return new.closed()


def _groups(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Each row group whole: it was held whole when it was written."""
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        yield from file.iter_batches(rows, row_groups=[group])


def _told(files: Sequence[File]) -> pa.RecordBatch:
    columns = [[getattr(each, name) for each in files] for name in _ROW]
    arrays = [pa.array(each, kind) for each, kind in zip(columns, _ROW.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(_ROW))


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a table in its very types: names and nullability of what is nested may differ."""
    pairs = [(batch.column(field.name), field.type) for field in schema]
    cast = [each if each.type == kind else each.cast(kind) for each, kind in pairs]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


class _Files:
    """The files of one table that a task writes: one a partition, in groups of rows."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._files: dict[int, _File] = {}
        self._closed: list[File] = []
        self._waiting: dict[int, list[tuple[pa.RecordBatch, Numbers]]] = {}
        self._octets = 0

    def add_events(self, batch: pa.RecordBatch) -> None:
        known = identities(batch.column("source"), batch.column("id"))
        rows = _shaped(batch.append_column("identity", pa.array(known)), self._layout.schema)
        self._add(rows, buckets(known, self._layout.buckets), known)

    def add_refused(self, batch: pa.RecordBatch) -> None:
        seen = pa.repeat(pa.scalar(datetime.now(UTC), INSTANT), len(batch))
        rows = _shaped(batch.append_column("seen", seen), self._layout.schema)
        times = rows.column("record_time").cast(pa.int64()).fill_null(0)
        days = times.to_numpy() // _DAY
        self._add(rows, days, np.zeros(0, np.int64))

    def _add(self, rows: pa.RecordBatch, partitions: Numbers, known: Numbers) -> None:
        order = np.argsort(partitions, kind="stable")
        rows = rows.take(pa.array(order))
        known = known[order] if len(known) else known
        names, begins = np.unique(partitions[order], return_index=True)
        for name, begin, end in zip(names.tolist(), begins, [*begins[1:], len(rows)], strict=True):
            part = rows.slice(begin, end - begin), known[begin:end]
            self._waiting.setdefault(name, []).append(part)
        self._octets += rows.nbytes
        if self._octets >= GROUP:
            self._write()

    def _write(self) -> None:
        for name, parts in self._waiting.items():
            if name not in self._files:
                self._files[name] = _File(self._layout, name)
            batches, known = zip(*parts, strict=True)
            self._files[name].write(batches, np.concatenate(known))
            if len(self._files) > OPEN:
                self._close()
        self._waiting, self._octets = {}, 0

    def _close(self) -> None:
        self._closed += [file.closed() for file in self._files.values()]
        self._files = {}

    def closed(self) -> list[File]:
        self._write()
        self._close()
        return self._closed

    def discard(self) -> None:
        """Removes what it has written, as far as it can."""
        for file in self._files.values():
            with contextlib.suppress(Exception):
                file.closed()
        open_ones = [file.path for file in self._files.values()]
        for path in (*open_ones, *(each.path for each in self._closed)):
            with contextlib.suppress(Exception):
                removed(path, self._layout.access)


class _File:
    """One file, under a name that no other has."""

    def __init__(self, layout: Layout, partition: int) -> None:
        value = partition if layout.buckets else np.datetime64(partition, "D")
        path = f"{layout.folder}/{layout.by}={value}/{uuid4().hex}.parquet"
        self._layout, self._sink = layout, created(path, layout.access)
        self._file = File(layout.name, path, layout.spec, partition)
        self._known: list[bytes] = []
        self._writer = pq.ParquetWriter(
            self._sink,
            layout.schema,
            compression=layout.codec,
            compression_level=layout.level,
            use_dictionary=_leaves(layout.schema, _UNIQUE),
            write_statistics=_leaves(layout.schema, _WIDE),
            store_schema=False,
        )

    @property
    def path(self) -> str:
        return self._file.path

    def write(self, batches: Sequence[pa.RecordBatch], known: Numbers) -> None:
        """A row group. ``known``: the identities, of events."""
        rows = pa.Table.from_batches(batches, self._layout.schema)
        self._writer.write_table(rows, row_group_size=max(1, len(rows)))
        self._known.append(known.tobytes())
        self._file = msgspec.structs.replace(self._file, rows=self._file.rows + len(rows))

    def closed(self) -> File:
        with contextlib.closing(self._sink):
            self._writer.close()
            size = self._sink.tell()
        return msgspec.structs.replace(self._file, size=size, identities=b"".join(self._known))


def _leaves(schema: pa.Schema, but: frozenset[str]) -> list[str]:
    """The columns of Parquet, by their paths, of all but these."""
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


def created(path: str, access: Mapping[str, str]) -> Any:
    """A new file to write, in a folder of this machine or wherever PyIceberg writes."""
    local = _local(path)
    if local is None:
        return _anywhere(path, access).new_output(path).create()
    local.parent.mkdir(parents=True, exist_ok=True)
    return local.open("xb")


def opened(path: str, access: Mapping[str, str]) -> contextlib.AbstractContextManager[Any]:
    """A file to read."""
    local = _local(path)
    found = local.open("rb") if local else _anywhere(path, access).new_input(path).open()
    return contextlib.closing(found)


def removed(path: str, access: Mapping[str, str]) -> None:
    local = _local(path)
    local.unlink() if local else _anywhere(path, access).delete(path)


def _local(path: str) -> Path | None:
    """As Hadoop reads a URI, which takes ``%20`` for three letters."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return Path(path)
    return Path("/", rest.lstrip("/")) if scheme == "file" else None


def _anywhere(path: str, access: Mapping[str, str]) -> Any:
    from pyiceberg.io import load_file_io  # noqa: PLC0415 - heavy, and a folder needs none

    return load_file_io(dict(access), path)
