"""Find the new events among arriving events: one for each (source, id), and none that ``events``
already has. With a window, only events of records that were stored less than the window apart count
as equal.

Duplicates are searched in narrow columns. First the identities alone are compared, eight bytes a
row, with each other and with the table. Only if two match, the sources, ids and positions are
compared. The wide rows stay in the files that the tasks wrote. A file with a duplicate is written
again without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as f

from app.pipeline import history, tables
from app.pipeline.archive import commit, layouts
from app.pipeline.archive.files import (
    DOOMED,
    FILES,
    DataFile,
    TableLayout,
    as_batch,
    rewrite_without_doomed,
)
from app.pipeline.archive.known import IdentityCache
from app.pipeline.archive.storage import open_file
from app.pipeline.decode.buffers import Numbers
from app.pipeline.history import Snapshot
from app.pipeline.settings import Lake
from app.pipeline.typed.schema import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW: Final = 2_000
"""The largest number of identities that a filter lists. Such a filter needs no join, and Iceberg
reads only their files.
"""

_KEY: Final = ("identity", "source", "id")
_RANK: Final = ("record_time", *tables.PLACE)
_AT: Final = ("file", "row")
"""The columns with the position of an arriving row: the number of its file, and its number in the
file.
"""


def new(
    spark: SparkSession, lake: Lake, arriving: Sequence[DataFile], known: IdentityCache
) -> tuple[list[DataFile], pa.Table | None]:
    """Return the files of new events, and the identities and positions of duplicates if there are
    some. Of equal events the one that was stored first remains.

    Args:
        spark: The session.
        lake: The lake.
        arriving: Files of ``events`` that no snapshot names. Files with duplicates are rewritten
            and removed.
        known: The cache of event identities.
    """
    layout = layouts.layout(spark, lake, tables.EVENTS_TABLE)
    stored = _stored(spark, lake, layout, arriving)
    suspects = _suspects(stored, arriving, known)
    if not len(suspects):
        return list(arriving), None
    gone = _duplicates(stored, layout, arriving, suspects)
    doomed = _rows_by_file(gone)
    return _without(spark, lake, layout, arriving, doomed), gone


def of_events(
    spark: SparkSession,
    lake: Lake,
    files: Sequence[DataFile],
    gone: pa.Table | None,
    here: pa.Table | None,
) -> list[DataFile]:
    """Return files of typed tables and ``quarantine`` without rows whose event is not in ``events``.

    Args:
        spark: The session.
        lake: The lake.
        files: The files, which no snapshot names. Those with such rows are rewritten and removed.
        gone: The identities and positions of duplicates that were not added to ``events``.
        here: Instead of ``gone``: the positions of all events that ``events`` has in the range.
    """
    if not files or (gone is None and here is None):
        return list(files)
    known = {each.table: each for each in lake.tables}
    found: list[DataFile] = []
    for name in dict.fromkeys(each.name for each in files):
        layout = layouts.layout(spark, lake, name, known.get(name))
        own = [each for each in files if each.name == name]
        prefix = PREFIX if name in known else ""
        places = (_doomed_rows(layout, each, prefix, gone, here) for each in own)
        doomed = {n: rows for n, rows in enumerate(places) if len(rows)}
        found += _without(spark, lake, layout, own, doomed)
    return found


def _doomed_rows(
    layout: TableLayout,
    file: DataFile,
    prefix: str,
    gone: pa.Table | None,
    here: pa.Table | None,
) -> Numbers:
    """Return the numbers of the rows of a file whose event is not in ``events``."""
    if gone is not None and not np.isin(file.known, gone["identity"].to_numpy()).any():
        return np.zeros(0, np.int64)
    with open_file(file.path, layout.access) as source:
        read = pq.ParquetFile(source).read([prefix + each for each in tables.PLACE])
    places = read.rename_columns(list(tables.PLACE)).append_column(
        "row", pa.array(range(len(read)))
    )
    known, how = (here, "left anti") if gone is None else (gone, "left semi")
    wanted = places.schema.remove(len(tables.PLACE)).remove_metadata()
    told = known.select(tables.PLACE).cast(wanted)  # type: ignore[union-attr]
    rows: Numbers = places.join(told, list(tables.PLACE), join_type=how)["row"].to_numpy()
    return rows


def _without(
    spark: SparkSession,
    lake: Lake,
    layout: TableLayout,
    files: Sequence[DataFile],
    doomed: Mapping[int, Numbers],
) -> list[DataFile]:
    """Return the files without doomed rows. A file with such rows is removed, and written again if
    it has others."""
    whole = [each for n, each in enumerate(files) if n not in doomed]
    rest = {n: rows for n, rows in doomed.items() if len(rows) < files[n].rows}
    again = _rewrite_files(spark, layout, files, rest)
    commit.remove_files(spark, lake.table(layout.name), (files[n] for n in doomed))
    return [*whole, *again]


class _Stored(NamedTuple):
    """The events in the table that arriving events may repeat.

    Attributes:
        rows: These events.
        newest: The snapshot of the newest change; None if the table is empty.
        window: The window in microseconds; None for all events.
        since: The earliest time of their records in microseconds since 1970; None for all events.
    """

    rows: DataFrame
    newest: Snapshot | None
    window: int | None = None
    since: int | None = None


def _stored(
    spark: SparkSession, lake: Lake, layout: TableLayout, arriving: Sequence[DataFile]
) -> _Stored:
    name = lake.table(tables.EVENTS_TABLE)
    rows, newest = spark.table(name), history.newest_change(spark, name)
    if lake.window is None:
        return _Stored(rows, newest)
    window = round(lake.window * 1_000_000)
    edge = min((_earliest(each, layout) for each in arriving), default=0) - window
    later = rows.where(f.col("record_time") >= f.timestamp_micros(f.lit(edge)))
    return _Stored(later, newest, window, edge)


def _earliest(file: DataFile, layout: TableLayout) -> int:
    """Return the earliest time of a record in a file, in microseconds since 1970."""
    with open_file(file.path, layout.access) as source:
        times = pq.ParquetFile(source).read(["record_time"])["record_time"].cast(pa.int64())
    return pc.min(times).as_py() or 0


def _suspects(stored: _Stored, arriving: Sequence[DataFile], known: IdentityCache) -> pa.Array:
    """Return the identities that occur twice or are in the table. They belong to duplicates, or
    rarely to a hash collision.
    """
    found = np.frombuffer(b"".join(each.identities for each in arriving), np.int64)
    names, counts = np.unique(found, return_counts=True)
    return pa.array(np.union1d(names[counts > 1], _stored_identities(stored, names, known)))


def _stored_identities(stored: _Stored, names: Numbers, known: IdentityCache) -> Numbers:
    """Return the identities that the table has, from the cache or by a search of Spark."""
    if stored.newest is None or not len(names):
        return np.zeros(0, np.int64)
    table = stored.rows.select("identity")
    size = None if stored.window is None else table.count
    found = known.present(names, stored.newest, lambda: _identities(table), size, stored.since)
    return _identities(_rows_with(table, pa.array(names))) if found is None else found


def _identities(frame: DataFrame) -> Numbers:
    numbers: Numbers = frame.toArrow()["identity"].to_numpy()
    return numbers


def _duplicates(
    stored: _Stored,
    layout: TableLayout,
    arriving: Sequence[DataFile],
    suspects: pa.Array,
) -> pa.Table:
    """Return the rows whose events are duplicates: their file, place in it, identity and position.
    They are compared in Python, because Spark needs a second for a window and a join."""
    there = _rows_with(stored.rows.select(*_KEY, "record_time"), suspects).toArrow()
    rows = [_suspect_rows(layout, n, each, suspects) for n, each in enumerate(arriving)]
    ordered = pa.concat_tables(rows).sort_by([(name, "ascending") for name in (*_KEY, *_RANK)])
    there = there.cast(
        ordered.select(there.column_names).schema
    )  # a session may use large string types
    columns = (*_AT, "identity", *tables.PLACE)
    if stored.window is not None:
        return ordered.filter(_repeated(ordered, there, stored.window)).select(columns)
    again = _as_the_row_before(ordered)
    there = there.select(_KEY)
    known = ordered.filter(pc.invert(again)).join(there, list(_KEY), join_type="left semi")
    return pa.concat_tables([each.select(columns) for each in (ordered.filter(again), known)])


def _repeated(ordered: pa.Table, there: pa.Table, window: int) -> pa.Array:
    """Return for each row whether an equal event was stored less than the window before. The rows
    are ordered by key and time. A row that is left out does not count for later ones."""
    latest: dict[tuple[Any, ...], int] = {}
    for key, at in _keys_and_times(there):
        latest[key] = max(at, latest.get(key, at))
    found = []
    for key, at in _keys_and_times(ordered):
        repeats = key in latest and latest[key] > at - window
        found.append(repeats)
        if not repeats:
            latest[key] = at
    return pa.array(found, pa.bool_())


def _keys_and_times(rows: pa.Table) -> Iterator[tuple[tuple[Any, ...], int]]:
    keys = zip(*(rows[name].to_pylist() for name in _KEY), strict=True)
    times = rows["record_time"].cast(pa.int64()).fill_null(0).to_pylist()
    return zip(keys, times, strict=True)


def _rows_by_file(gone: pa.Table) -> dict[int, Numbers]:
    files, places = (gone[name].to_numpy() for name in _AT)
    return {n: places[files == n] for n in np.unique(files).tolist()}


def _suspect_rows(layout: TableLayout, n: int, file: DataFile, suspects: pa.Array) -> pa.Table:
    """Return the rows of a file that have one of these identities, with the columns of key, rank
    and position.
    """
    chosen = pc.is_in(pa.array(file.known), suspects)
    rows = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
    columns = [layout.schema.field(name) for name in dict.fromkeys((*_KEY, *_RANK))]
    found = pa.schema(columns).remove_metadata().empty_table()
    if len(rows):
        with open_file(file.path, layout.access) as source:
            found = pq.ParquetFile(source).read(found.column_names).take(pa.array(rows))
    for name, numbers in zip(_AT, (np.full(len(rows), n), rows), strict=True):
        found = found.append_column(name, pa.array(numbers))
    return found


def _as_the_row_before(ordered: pa.Table) -> pa.Array:
    """Return for each row whether it has the same key as the row before."""
    columns = [ordered[name].combine_chunks() for name in _KEY]
    same = reduce(pc.and_, (pc.equal(each[1:], each[:-1]) for each in columns))
    return pa.concat_arrays([pa.array([False] * min(1, len(ordered)), pa.bool_()), same])


def _rewrite_files(
    spark: SparkSession,
    layout: TableLayout,
    arriving: Sequence[DataFile],
    doomed: Mapping[int, Numbers],
) -> list[DataFile]:
    """Write files again without their doomed rows, with one task for each file."""
    if not doomed:
        return []
    files = pa.Table.from_batches([as_batch([arriving[n] for n in doomed])])
    rows = [each.astype(np.int64).tobytes() for each in doomed.values()]
    frame = commit.one_task_each(spark, files.append_column(DOOMED, pa.array(rows, pa.binary())))
    return commit.run_tasks(frame.mapInArrow(partial(rewrite_without_doomed, layout=layout), FILES))


def _rows_with(frame: DataFrame, wanted: pa.Array) -> DataFrame:
    """Return the rows with one of these identities."""
    if not len(wanted):
        return frame.limit(0)
    if len(wanted) <= FEW:
        return frame.where(f"identity IN ({', '.join(map(str, wanted.to_pylist()))})")
    listed = frame.sparkSession.createDataFrame(pa.table({"identity": wanted}))
    return frame.join(f.broadcast(listed), "identity", "left_semi")
