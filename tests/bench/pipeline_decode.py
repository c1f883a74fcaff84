"""The pipeline's decoder alone: Parquet to nowhere, by column and row by row, beside what Spark and Python cost anyway.

    python tests/bench/pipeline_decode.py [--short] [--events N] [--rounds N]

Events in binary mode, and the mix of modes and versions. Each way runs in turn, ``rounds`` times after a round that warms
up, on at most 500,000 events; the least CPU counts. CPU is that of the JVM and of its Python workers, which a busy machine
changes less than the time. HotSpot compiles for a million events: a few rounds of few events are all cold.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pipeline_events
from pipeline_cpu import Cost, Meter
from pipeline_figures import Figure, sized, told

from app.pipeline.decode import KEPT, SENT, decoded, exact
from app.pipeline.tables import ARRIVAL, ATTRIBUTES, DATA, VERDICT
from app.spark.session import open_session
from app.spark.settings import SparkEngine

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TARGETS = {"binary": 1.3, "mixed": 2.0}
"""Times the CPU of a way into Python and back, by kind of events."""
WARM = 500_000  # events
BINARY = ("binary 1.0",)
_JUDGED = f"{ATTRIBUTES.replace('time TIMESTAMP, ', '')}, {DATA}, {ARRIVAL}, {VERDICT}"


def identity(raw: DataFrame) -> DataFrame:
    """Into Python and back, and nothing done there: what no way in Python can beat."""
    return raw.select(*KEPT, *SENT).mapInArrow(_as_it_is, raw.select(*KEPT, *SENT).schema)


def _as_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def bindings(raw: DataFrame) -> DataFrame:
    """``app.bindings`` on each record, and the columns of what they say."""
    return raw.select(*KEPT, *SENT).mapInArrow(_row_by_row, _JUDGED)


def _row_by_row(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from map(exact.decode_rows, batches)


SCAN, IDENTITY, BY_COLUMN, BY_ROW = "scan", "identity", "by column", "row by row"
WAYS: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    SCAN: lambda raw: raw,
    IDENTITY: identity,
    BY_COLUMN: decoded,
    BY_ROW: bindings,
}


def measured(frame: DataFrame, meter: Meter) -> Cost:
    meter.lap()
    frame.write.format("noop").mode("overwrite").save()
    return meter.lap()


def compare(spark: SparkSession, folder: Path, rounds: int) -> dict[str, Cost]:
    meter = Meter(spark)
    files = sorted(map(str, folder.glob("*.parquet")))
    some = spark.read.parquet(*files[: WARM // pipeline_events.BASE])
    for way in WAYS.values():
        measured(way(some), meter)
    raw = spark.read.parquet(*files)
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        for name, way in WAYS.items():
            cost = measured(way(raw), meter)
            if name not in best or cost.cpu < best[name].cpu:
                best[name] = cost
    return best


def figures(kind: str, best: Mapping[str, Cost], events: int) -> Iterator[Figure]:
    for name, cost in best.items():
        ratio = cost.cpu / best[IDENTITY].cpu
        target = TARGETS[kind] if name == BY_COLUMN else None
        shown = f"{cost.cpu / events * 1e6:.1f} µs of CPU, {events / cost.seconds:,.0f} events/s"
        yield Figure(f"decode, {kind}: {name}", shown, ratio, target, "identity's CPU", most=True)


def main() -> int:
    parser = sized(__doc__, short=20_000, usual=200_000, rounds=4)
    asked = parser.parse_args()
    events, rounds = (20_000, 1) if asked.short else (asked.events, asked.rounds)
    found: list[Figure] = []
    spark = open_session(SparkEngine(master="local[2]", memory="3g"), None, app_name="bench")
    try:
        for kind, mix in (("binary", BINARY), ("mixed", tuple(pipeline_events.MIX))):
            with tempfile.TemporaryDirectory() as folder:
                pipeline_events.write(Path(folder), events, mix)
                count = spark.read.parquet(folder).count()
                found += figures(kind, compare(spark, Path(folder), rounds), count)
    finally:
        spark.stop()
    return told(found, asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
