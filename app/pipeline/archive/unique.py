"""Of events that arrive, the new ones: one a (source, id), and none that ``events`` has.

Duplicates are looked for on narrow columns. First by ``identity`` alone, eight bytes a row: what comes twice, and
what the table has. Only where such a suspect is found are keys and places compared. The wide rows stay where they
were decoded. They are filtered by the places of the duplicates, or of the new ones where these are fewer, which go to
every task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from app.pipeline import history, tables
from app.pipeline.settings import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW: Final = 2_000
"""Identities or places that are named one by one in a filter: no job brings them to the tasks, and Iceberg reads only
the buckets of these identities.
"""

LARGER: Final = 4
"""Times as many identities as arrive: of a table that has no more, all come to the driver."""

IDENTITY: Final = "xxhash64(source, id)"

_KEY: Final = ("identity", "source", "id")
_RANK: Final = ("record_time", *tables.PLACE)


def identities(events: DataFrame) -> pa.ChunkedArray:
    """Of every row, null for what is no event."""
    return events.select("identity").toArrow()["identity"]


def new(
    spark: SparkSession, lake: Lake, events: DataFrame, arriving: pa.ChunkedArray
) -> tuple[DataFrame, int]:
    """The rows to append, and how many. Of several the one that was stored first stays.

    ``events`` is read several times: keep it. ``arriving``: its identities, without null.
    """
    suspects = _suspects(spark, lake, arriving)
    if not len(suspects):
        return events, len(arriving)
    places = _duplicates(spark, lake, events, suspects)
    count = len(arriving) - len(places)
    if len(places) <= FEW:
        return events.where(f"NOT ({_named(places)})"), count
    if count >= len(places):
        return _joined(spark, events, places, "left_anti"), count
    rest = _joined(spark, events.select(*tables.PLACE), places, "left_anti").toArrow()
    return _joined(spark, events, rest, "left_semi"), count


def _suspects(spark: SparkSession, lake: Lake, arriving: pa.ChunkedArray) -> pa.Array:
    """Identities that arrive twice, or are in the table: of duplicates, and of different names by a rare chance."""
    counted = pc.value_counts(arriving.combine_chunks())
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
    if not rows:
        return pa.chunked_array([], pa.int64())
    if len(names) > FEW and rows <= LARGER * len(names):
        return pa.chunked_array([names.filter(pc.is_in(names, table.toArrow()["identity"]))])
    return _chosen(spark, table, names).toArrow()["identity"]


def _duplicates(spark: SparkSession, lake: Lake, events: DataFrame, suspects: pa.Array) -> pa.Table:
    """The places of rows that are not to be appended. Compared here: a window and a join cost Spark a second."""
    table = spark.table(lake.table(tables.EVENTS_TABLE)).select(*_KEY)
    there = _chosen(spark, table, suspects).toArrow()
    arriving = _chosen(spark, events.select(*_KEY, *_RANK), suspects).toArrow()
    ordered = arriving.sort_by([(name, "ascending") for name in (*_KEY, *_RANK)])
    again = _as_the_row_before(ordered)
    known = ordered.filter(pc.invert(again)).join(there, list(_KEY), join_type="left semi")
    return pa.concat_tables([each.select(tables.PLACE) for each in (ordered.filter(again), known)])


def _as_the_row_before(ordered: pa.Table) -> pa.Array:
    """Whether a row has the key of the one before it."""
    columns = [ordered[name].combine_chunks() for name in _KEY]
    same = reduce(pc.and_, (pc.equal(each[1:], each[:-1]) for each in columns))
    return pa.concat_arrays([pa.array([False] * min(1, len(ordered)), pa.bool_()), same])


def _chosen(spark: SparkSession, frame: DataFrame, wanted: pa.Array) -> DataFrame:
    """The rows with one of these identities."""
    if not len(wanted):
        return frame.limit(0)
    if len(wanted) <= FEW:
        return frame.where(f"identity IN ({', '.join(map(str, wanted.to_pylist()))})")
    return _joined(spark, frame, pa.table({"identity": wanted}), "left_semi")


def _named(places: pa.Table) -> str:
    """A condition: a row is at one of these."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for place in zip(*(column.to_pylist() for column in places.columns), strict=True):
        found.setdefault(place[:3], []).append(place[3])
    return " OR ".join(map(_at, found, found.values())) or "false"


def _at(partition: tuple[str, str, int], offsets: Sequence[int]) -> str:
    broker, topic, number = partition
    named = f"broker = {_text(broker)} AND topic = {_text(topic)} AND partition = {number}"
    return f"({named} AND offset IN ({', '.join(map(str, offsets))}))"


def _text(value: str) -> str:
    """A literal: what Spark's strings may not have stands as its octets."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def _joined(spark: SparkSession, frame: DataFrame, told: pa.Table, how: str) -> DataFrame:
    """By all columns of ``told``, which goes to every task: ``frame`` stays where it is."""
    return frame.join(f.broadcast(spark.createDataFrame(told)), told.column_names, how)
