"""The pipeline's decoder alone: Parquet to nowhere, the native way beside Python over Arrow batches.

    python tests/bench/pipeline_decode.py [--short] [--events N] [--rounds N]

Two ways in Python: ``app.bindings``, which gives the same answers, and a loop that takes JSON and headers apart
and checks nothing, which nobody could use, and which no way in Python that does its work can beat by much.

Each way runs in turn, ``rounds`` times after a round that warms up; the best counts. CPU is that of the JVM
and of its Python workers, which a busy machine changes less than the time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec
import pipeline_events
from pipeline_figures import Figure, sized, told

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


def unchecked(raw: DataFrame) -> DataFrame:
    """The columns of an event by the shortest way there is in Python."""
    return raw.mapInArrow(_taken_apart, _EVENT)


def _taken_apart(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    for batch in batches:
        values, headers = batch.column("value").to_pylist(), batch.column("headers").to_pylist()
        rows = []
        for value, pairs in zip(values, headers, strict=True):
            named = {each["key"]: each["value"] for each in pairs}
            if named.get("content-type", b"").startswith(b"application/cloudevents"):
                event = {
                    name: bytes(raw).strip(b'"').decode() for name, raw in decode(value).items()
                }
                data = event.pop("data", None)
            else:
                event = {n[3:]: text.decode() for n, text in named.items() if n.startswith("ce_")}
                data = value.decode()
            core = [event.pop(name, None) for name in _CORE]
            rows.append((*core, list(event.items()), data))
        columns = list(zip(*rows, strict=True))
        texts = [pa.array(column, pa.string()) for column in columns[:-2]]
        maps = pa.array(columns[-2], pa.map_(pa.string(), pa.string()))
        names = [*_CORE, "extensions", "data"]
        yield pa.RecordBatch.from_arrays([*texts, maps, pa.array(columns[-1], pa.string())], names)


_CORE = ("specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema", "time")
_EVENT = (
    ", ".join(f"{name} STRING" for name in _CORE) + ", extensions MAP<STRING, STRING>, data STRING"
)

WAYS: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    "scan, nothing decoded": lambda raw: raw,
    "native": natively,
    "mapInArrow, identity": identity,
    "mapInArrow, a loop that checks nothing": unchecked,
    "mapInArrow, app.bindings": exactly,
}
_NATIVE = "native"
_PYTHON = ("mapInArrow, a loop that checks nothing", "mapInArrow, app.bindings")


def measured(frame: DataFrame, jvm: int) -> Cost:
    started, before = perf_counter(), _cpu(jvm)
    frame.write.format("noop").mode("overwrite").save()
    seconds, after = perf_counter() - started, _cpu(jvm)
    return Cost(seconds, sum(cpu - before.get(process, 0.0) for process, cpu in after.items()))


def _cpu(process: int) -> dict[int, float]:
    """Seconds of a process and of all below it, by their numbers. Spark ends workers that stood idle: what a way
    costs is told by those that are there behind it.
    """
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task").glob("*/children")
        below = [int(child) for each in children for child in each.read_text().split()]
    except OSError:  # it has ended
        return {}
    found = {process: sum(map(int, stat[11:13])) / _TICKS}
    for child in below:
        found |= _cpu(child)
    return found


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


def figures(best: Mapping[str, Cost], events: int, doubtful: int) -> list[Figure]:
    print(f"\n{events:,} events of about 1 kB: {_mix()}; {doubtful / events:.1%} in doubt\n")
    found = [
        Figure(
            f"decode: {name}",
            f"{events / cost.seconds:,.0f} events/s, {cost.cpu / events * 1e6:.1f} µs of CPU",
        )
        for name, cost in best.items()
    ]
    fastest = min(_PYTHON, key=lambda name: best[name].seconds)
    return [*found, *(_beside(best, name, TARGET if name == fastest else None) for name in _PYTHON)]


def _beside(best: Mapping[str, Cost], python: str, target: float | None) -> Figure:
    ratio = best[python].seconds / best[_NATIVE].seconds
    by_cpu = best[python].cpu / best[_NATIVE].cpu
    shown = f"{ratio:.2f} times as fast, {by_cpu:.2f} by CPU"
    return Figure(f"decode: native beside {python}", shown, ratio, target, "Python's speed")


def _mix() -> str:
    return ", ".join(f"{share} % {name}" for name, (share, _) in pipeline_events.MIX.items())


def main() -> int:
    parser = sized(__doc__, short=20_000, usual=200_000, rounds=3)
    asked = parser.parse_args()
    events, rounds = (20_000, 1) if asked.short else (asked.events, asked.rounds)
    spark = open_session(Engine(master="local[2]", memory="3g"), None, app_name="bench")
    try:
        with tempfile.TemporaryDirectory() as folder:
            pipeline_events.write(Path(folder), events)
            events = spark.read.parquet(folder).count()
            doubtful = natively(spark.read.parquet(folder)).where("doubt").count()
            best = compare(spark, Path(folder), rounds)
    finally:
        spark.stop()
    return told(figures(best, events, doubtful), asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
