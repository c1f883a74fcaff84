"""The pipeline's decoder alone: Parquet to nowhere, the native way beside Python over Arrow batches.

    python tests/bench/pipeline_decode.py [--short] [--events N] [--rounds N]

Each way runs in turn, ``rounds`` times after a round that warms up; the best counts. CPU is that of the JVM
and of its Python workers, which a busy machine changes less than the time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec
import pipeline_events

from app.pipeline.decode import exactly, natively
from app.pipeline.session import open_session
from app.pipeline.settings import Engine

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TARGET = 3.0  # times the best Python way
_TICKS = os.sysconf("SC_CLK_TCK")


class Cost(msgspec.Struct, frozen=True):
    """``seconds`` by the clock, ``cpu`` seconds of all processes of Spark."""

    seconds: float
    cpu: float


def identity(raw: DataFrame) -> DataFrame:
    """Into Python and back, and nothing done there: what no Python way can beat."""
    return raw.mapInArrow(_as_it_is, raw.schema)


def _as_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


WAYS: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    "scan, nothing decoded": lambda raw: raw,
    "native": natively,
    "mapInArrow, identity": identity,
    "mapInArrow, app.bindings": exactly,
}
_NATIVE, _PYTHON = "native", "mapInArrow, app.bindings"


def measured(frame: DataFrame, jvm: int) -> Cost:
    started, cpu = perf_counter(), _cpu(jvm)
    frame.write.format("noop").mode("overwrite").save()
    return Cost(perf_counter() - started, _cpu(jvm) - cpu)


def _cpu(process: int) -> float:
    """Of a process and all below it, living ones and those that it has waited for."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task").glob("*/children")
        below = [int(child) for each in children for child in each.read_text().split()]
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, stat[11:15])) / _TICKS + sum(map(_cpu, below))


def compare(spark: SparkSession, folder: Path, rounds: int) -> dict[str, Cost]:
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    raw = spark.read.parquet(str(folder))
    best: dict[str, Cost] = {}
    for turn in range(rounds + 1):
        for name, way in WAYS.items():
            cost = measured(way(raw), jvm)
            if turn and (name not in best or cost.seconds < best[name].seconds):
                best[name] = cost
    return best


def report(best: Mapping[str, Cost], events: int, doubtful: int) -> float:
    """Prints the table; the ratio of native to Python."""
    print(f"\n{events:,} events of about 1 kB: {_mix()}")
    print(f"{doubtful / events:.1%} in doubt\n")
    print(f"{'way':28} {'events/s':>10} {'CPU us/event':>13}")
    for name, cost in best.items():
        print(f"{name:28} {events / cost.seconds:10,.0f} {cost.cpu / events * 1e6:13.2f}")
    ratio = best[_PYTHON].seconds / best[_NATIVE].seconds
    by_cpu = best[_PYTHON].cpu / best[_NATIVE].cpu
    print(
        f"\nnative is {ratio:.2f} times the Python way; by CPU {by_cpu:.2f} times (target {TARGET})"
    )
    return ratio


def _mix() -> str:
    return ", ".join(f"{share} % {name}" for name, (share, _) in pipeline_events.MIX.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="100,000 events, one round")
    parser.add_argument("--events", type=int, help="how many; 2,000,000 unless told")
    parser.add_argument("--rounds", type=int, help="3 unless told; the best counts")
    told = parser.parse_args()
    events = told.events or (100_000 if told.short else 2_000_000)
    spark = open_session(Engine(master="local[2]", memory="3g"), None, app_name="bench")
    try:
        with tempfile.TemporaryDirectory() as folder:
            pipeline_events.write(Path(folder), events)
            events = spark.read.parquet(folder).count()
            doubtful = natively(spark.read.parquet(folder)).where("doubt").count()
            best = compare(spark, Path(folder), told.rounds or (1 if told.short else 3))
    finally:
        spark.stop()
    return 0 if report(best, events, doubtful) >= TARGET or told.short else 1


if __name__ == "__main__":
    raise SystemExit(main())
