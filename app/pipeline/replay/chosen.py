"""The records that a choice selects, and slices of them in sending order.

A slice is a range of offsets in each partition, cut by time. Within a partition, records are in the
order of their offsets. A record with an earlier time than its predecessor gets the time of the
predecessor. So records of one key, which share a partition, keep their order. Records of different
partitions are ordered by time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import Window
from pyspark.sql import functions as f

from app.bindings.record import Record
from app.pipeline import decode, filtering, tables
from app.pipeline.archive import progress
from app.pipeline.archive.progress import Progress
from app.pipeline.replay.choice import RecordChoice
from app.pipeline.settings import Lake
from app.pipeline.tables import PLACE
from app.spark.arrow_records import records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_SLICES: Final = 1_000
Place = tuple[str, str, int]
"""Broker, topic and partition."""


class Slice(msgspec.Struct, frozen=True):
    """Records in sending order.

    Attributes:
        records: The records.
        moments: The time of each record in microseconds since 1970, which never decreases within a
            partition.
    """

    records: Sequence[Record]
    moments: Sequence[int]


class ChosenRecords:
    """The records that a replay sends, decoded once.

    Records that were archived after the planning (``reach``) are left out.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, choice: RecordChoice, reach: Progress
    ) -> None:
        table = spark.table(lake.table(tables.RAW_TABLE))
        self._choice = choice
        self._raw = table.where(progress.between({}, reach)).where(choice.of_records())

    @cached_property
    def places(self) -> DataFrame:
        """Return LOCATION, ``type``, ``verdict`` and ``size`` (bytes) of each chosen record. The
        frame is cached.
        """
        lengths = [f.octet_length(name) for name in ("data", "data_bytes", "value")]
        size = f.coalesce(*lengths, f.lit(0)).cast("long")
        found = decode.decoded(self._raw).withColumn("size", size)
        columns = (*PLACE, "record_time", "type", "verdict", "size")
        if filters := self._choice.filters():
            asked = dict.fromkeys([*columns, *filtering.filter_inputs(filters).columns()])
            found = filtering.passing_rows(found.where("verdict IS NULL").select(*asked), filters)
        return found.select(*columns).persist()

    def slice(self, start: Progress, end: Progress) -> Slice:
        """Return the chosen records from ``start`` to before ``end``."""
        within = progress.between(start, end)
        rows = self._raw.where(within)
        if self._choice.by_event:
            meant = self.places.where(within).select(*PLACE)
            rows = rows.join(f.broadcast(meant), list(PLACE), "left_semi")
        before = Window.partitionBy(*PLACE[:3]).orderBy("offset")
        moment = f.unix_micros(f.max("record_time").over(before)).alias("moment")
        table = rows.select("*", moment).orderBy("moment", *PLACE).toArrow()
        found = [record for batch in table.to_batches() for record in records(batch)]
        return Slice(found, table.column("moment").to_pylist())


def slices(places: DataFrame, count: int, most: int) -> list[Progress]:
    """Return the end of each slice. A slice has about ``most`` of the ``count`` records and starts
    at the end before.
    """
    if not count:
        return []
    times = _quantiles(places, min(MOST_SLICES, -(-count // most)))
    number = f.expr(_search("unix_micros(record_time)", times, 0)).alias("number")
    bounds = f.min("offset").alias("first"), f.max("offset").alias("last")
    rows = places.groupBy(*PLACE[:3], number).agg(*bounds).collect()
    cut: dict[Place, int] = {}
    firsts: dict[int, list[tuple[Place, int]]] = {}
    for broker, topic, partition, which, first, last in rows:
        place = (broker, topic, partition)
        cut[place] = max(last + 1, cut.get(place, 0))
        firsts.setdefault(which, []).append((place, first))
    found = [_progress(cut)]
    for n in range(len(times), 0, -1):  # a slice starts at its lowest offset
        for place, first in firsts.get(n, ()):
            cut[place] = min(first, cut[place])
        found.append(_progress(cut))
    return found[::-1]


def _quantiles(places: DataFrame, parts: int) -> list[int]:
    """Return times that cut the records into parts of similar size; fewer times if many records
    share one.
    """
    if parts < 2:  # noqa: PLR2004 - one part has no cut
        return []
    shares = [n / parts for n in range(1, parts)]
    micros = f.unix_micros("record_time")
    row = places.select(f.percentile_approx(micros, shares, 10_000).alias("cuts")).first()
    return sorted(set(row["cuts"] or [])) if row is not None else []


def _search(value: str, times: Sequence[int], base: int) -> str:
    """Return an SQL expression that counts the ``times`` up to ``value``, plus ``base``, by binary
    search.
    """
    if not times:
        return str(base)
    middle = len(times) // 2
    low = _search(value, times[:middle], base)
    high = _search(value, times[middle + 1 :], base + middle + 1)
    return f"CASE WHEN {value} < {times[middle]} THEN {low} ELSE {high} END"


def _progress(cut: Mapping[Place, int]) -> Progress:
    return progress.from_entries((*place, offset) for place, offset in cut.items())
