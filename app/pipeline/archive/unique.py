"""Of events that arrive, the new ones: one a (source, id), and none that ``events`` has.

Duplicates are looked for on narrow columns. First by ``identity`` alone, eight bytes a row: what comes twice, and
what the table has. Only where such a suspect is found are keys and places compared. The wide rows stay in the files
that their tasks wrote. A file that has a duplicate is written again without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as f

from app.pipeline import history, tables
from app.pipeline.archive import commit
from app.pipeline.archive.files import DOOMED, FILES, File, Layout, opened, without
from app.pipeline.decode.buffers import Numbers
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW: Final = 2_000
"""Identities that are named one by one in a filter: no job brings them to the tasks, and Iceberg reads only the
buckets of these identities.
"""

LARGER: Final = 4
"""Times as many identities as arrive: of a table that has no more, all come to the driver."""

_KEY: Final = ("identity", "source", "id")
_RANK: Final = ("record_time", *tables.PLACE)
_AT: Final = ("file", "row")
"""Where a row that arrives is: the number of its file, and its own."""


def new(spark: SparkSession, lake: Lake, arriving: Sequence[File]) -> list[File]:
    """Files of new events. Of several the one that was stored first stays. ``arriving``: files of ``events`` that no
    snapshot names; those that are written again are removed.
    """
    suspects = _suspects(spark, lake, arriving)
    if not len(suspects):
        return list(arriving)
    layout = commit.layout(spark, lake, tables.EVENTS_TABLE)
    doomed = _duplicates(spark, lake, layout, arriving, suspects)
    whole = [each for n, each in enumerate(arriving) if n not in doomed]
    rest = {n: rows for n, rows in doomed.items() if len(rows) < arriving[n].rows}
    again = _again(spark, layout, arriving, rest)
    commit.remove(spark, lake.table(tables.EVENTS_TABLE), (arriving[n] for n in doomed))
    return [*whole, *again]


def _suspects(spark: SparkSession, lake: Lake, arriving: Sequence[File]) -> pa.Array:
    """Identities that arrive twice, or are in the table: of duplicates, and of different names by a rare chance."""
    known = b"".join(each.identities for each in arriving)
    counted = pc.value_counts(pa.array(np.frombuffer(known, np.int64)))
    names, counts = counted.field("values"), counted.field("counts")
    twice = names.filter(pc.greater(counts, 1))
    return pc.unique(pa.concat_arrays([twice, *_known(spark, lake, names).chunks]))


def _known(spark: SparkSession, lake: Lake, names: pa.Array) -> pa.ChunkedArray:
    """Those that the table has. Of many against a table that is not much larger, they are compared here: eight bytes a
    row come to the driver, and nothing goes to the tasks.
    """
    table = spark.table(lake.table(tables.EVENTS_TABLE)).select("identity")
    newest = history.newest(spark, lake.table(tables.EVENTS_TABLE))
    rows = 0 if newest is None else newest.count("total-records")
    if not rows or not len(names):
        return pa.chunked_array([], pa.int64())
    if len(names) > FEW and rows <= LARGER * len(names):
        return pa.chunked_array([names.filter(pc.is_in(names, table.toArrow()["identity"]))])
    return _chosen(spark, table, names).toArrow()["identity"]


def _duplicates(
    spark: SparkSession, lake: Lake, layout: Layout, arriving: Sequence[File], suspects: pa.Array
) -> dict[int, Numbers]:
    """The rows that are not new, by the number of their file. Compared here: a window and a join cost Spark a second."""
    table = spark.table(lake.table(tables.EVENTS_TABLE)).select(*_KEY)
    there = _chosen(spark, table, suspects).toArrow()
    rows = [_suspected(layout, n, each, suspects) for n, each in enumerate(arriving)]
    ordered = pa.concat_tables(rows).sort_by([(name, "ascending") for name in (*_KEY, *_RANK)])
    again = _as_the_row_before(ordered)
    there = there.cast(ordered.select(_KEY).schema)  # a session may have its strings large
    known = ordered.filter(pc.invert(again)).join(there, list(_KEY), join_type="left semi")
    found = [each.select(_AT) for each in (ordered.filter(again), known)]
    files, places = (column.to_numpy() for column in pa.concat_tables(found).columns)
    return {n: places[files == n] for n in np.unique(files).tolist()}


def _suspected(layout: Layout, n: int, file: File, suspects: pa.Array) -> pa.Table:
    """The rows of a file that have one of these identities, by key, rank and place."""
    chosen = pc.is_in(pa.array(file.known), suspects)
    rows = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
    columns = [layout.schema.field(name) for name in dict.fromkeys((*_KEY, *_RANK))]
    found = pa.schema(columns).remove_metadata().empty_table()
    if len(rows):
        with opened(file.path, layout.access) as source:
            found = pq.ParquetFile(source).read(found.column_names).take(pa.array(rows))
    for name, numbers in zip(_AT, (np.full(len(rows), n), rows), strict=True):
        found = found.append_column(name, pa.array(numbers))
    return found


def _as_the_row_before(ordered: pa.Table) -> pa.Array:
    """Whether a row has the key of the one before it."""
    columns = [ordered[name].combine_chunks() for name in _KEY]
    same = reduce(pc.and_, (pc.equal(each[1:], each[:-1]) for each in columns))
    return pa.concat_arrays([pa.array([False] * min(1, len(ordered)), pa.bool_()), same])


def _again(
    spark: SparkSession, layout: Layout, arriving: Sequence[File], doomed: Mapping[int, Numbers]
) -> list[File]:
    """These files without these rows: a task a file."""
    if not doomed:
        return []
    rows = [
        {**msgspec.structs.asdict(arriving[n]), DOOMED: each.astype(np.int64).tobytes()}
        for n, each in doomed.items()
    ]
    frame = spark.createDataFrame(rows, f"{FILES}, {DOOMED} BINARY").repartition(len(rows))
    return commit.files(frame.mapInArrow(partial(without, layout=layout), FILES))


def _chosen(spark: SparkSession, frame: DataFrame, wanted: pa.Array) -> DataFrame:
    """The rows with one of these identities."""
    if not len(wanted):
        return frame.limit(0)
    if len(wanted) <= FEW:
        return frame.where(f"identity IN ({', '.join(map(str, wanted.to_pylist()))})")
    told = spark.createDataFrame(pa.table({"identity": wanted}))
    return frame.join(f.broadcast(told), "identity", "left_semi")
