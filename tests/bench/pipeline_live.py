"""A running archive beside a steady feed: does it keep up, and how far is the lake behind?

    python tests/bench/pipeline_live.py [--events N]

``skybridge pipeline archive`` with ``trigger: 10s`` runs beside Kafka and a feed of 1,500 events a second. The lag is
what the archive exports for Prometheus, asked each second; the first minute, in which Java warms up, does not count. In
the end every event has to be in the lake, counted by PyIceberg, and the files of all tables are counted.
"""

from __future__ import annotations

import math
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final

import httpx
import msgspec
import pipeline_events
import pyarrow.parquet as pq
from confluent_kafka import Producer
from cost import cpu_of_tree, memory_of_tree, proportional_of_tree
from pipeline_archive import another
from pipeline_figures import Figure, sized, told
from pipeline_shell import SKYBRIDGE, configured
from pyiceberg.catalog.sql import SqlCatalog

from free_ports import free_ports
from kafka_server import KafkaServer
from lake_events import make_topic
from lake_folders import read_table

RATE: Final = 1_500  # events a second
LAG: Final = 15.0  # seconds, at p99
MEMORY: Final = 1_500.0  # MB
FILES: Final = 10.0  # a minute
TABLES: Final = ("events_raw", "events", "quarantine")
_LEAST, _MOST = RATE * 150, RATE * 600  # events
_WARM: Final = 60.0  # seconds that do not count
_TURN: Final = 0.05  # seconds between two bursts of the feed
_STARTS_WITHIN: Final = 300.0
_ENDS_WITHIN: Final = 120.0
_LAG: Final = re.compile(r"^skybridge_archive_lag_seconds\{.*\} (\S+)$", re.MULTILINE)


class Look(msgspec.Struct, frozen=True):
    """``at``: seconds since the feed began; ``lag``: seconds.

    ``memory``: MB of Java, Python and its workers. ``resident``: the same if pages that they share count for each.
    """

    at: float
    lag: float
    memory: float
    resident: float


def lag(metrics: str) -> float | None:
    """None before it is exported."""
    try:
        found = _LAG.search(httpx.get(f"http://{metrics}/metrics", timeout=5.0).text)
    except httpx.HTTPError:
        return None
    return None if found is None else float(found[1])


def events(folder: Path) -> Iterator[tuple[bytes | None, bytes, list[tuple[str, bytes]]]]:
    """Without end, each under an id of its own."""
    rows: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.parquet")):
        rows += pq.read_table(file, columns=["key", "value", "headers"]).to_pylist()
    number = 0
    while True:
        row = rows[number % len(rows)]
        headers, body = another(row, b"%d" % number)
        yield row["key"], body, headers
        number += 1


def feed(servers: str, folder: Path, count: int, metrics: str, pid: int) -> list[Look]:
    """``count`` events at ``RATE``; what was seen beside it, each second."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "compression.type": "lz4"})
    made, began, sent, looks = events(folder), perf_counter(), 0, list[Look]()
    while sent < count:
        at = perf_counter() - began
        for _ in range(min(count, int(at * RATE)) - sent):
            key, body, headers = next(made)
            producer.produce("live", key=key, value=body, headers=headers)
            sent += 1
        producer.poll(0)
        if at >= len(looks):
            held = proportional_of_tree(pid), memory_of_tree(pid).now
            looks.append(Look(at, lag(metrics) or 0.0, *held))
        sleep(_TURN)
    assert producer.flush(60) == 0
    return looks


def caught_up(process: subprocess.Popen[bytes], metrics: str, most: float) -> None:
    """It exports a lag that is not above ``most``."""
    end = perf_counter() + _STARTS_WITHIN
    while (now := lag(metrics)) is None or now > most:
        if process.poll() is not None or perf_counter() > end:
            raise SystemExit(f"the archive does not get there: lag {now}")
        sleep(0.5)


def arrived(lake: Path, records: int) -> None:
    """As many records are in the two tables that are written last; or it takes too long, and the count says it."""
    end = perf_counter() + _ENDS_WITHIN
    while perf_counter() < end:
        tables = (read_table(lake, name, ("offset",)) for name in ("events", "quarantine"))
        if sum(each.num_rows for each in tables) >= records:
            return
        sleep(2.0)


def files_of(lake: Path) -> tuple[int, int]:
    """The data files of all tables now, and all that were written."""
    now = written = 0
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=lake.as_uri())
    for name in TABLES:
        table = catalog.load_table(f"skybridge.{name}")
        now += len(table.inspect.data_files())
        written += len(list(lake.glob(f"skybridge/{name}/data/**/*.parquet")))
    catalog.engine.dispose()
    return now, written


def figures(looks: list[Look], cpu: float, files: tuple[int, int], complete: bool) -> list[Figure]:
    counted_ones = [look for look in looks if look.at >= _WARM]
    lags = sorted(look.lag for look in counted_ones)
    p99 = lags[math.ceil(len(lags) * 0.99) - 1]
    memory = max(each.memory for each in counted_ones)
    resident = max(each.resident for each in counted_ones)
    minutes = looks[-1].at / 60
    rate = f"{RATE:,} events/s for {looks[-1].at:.0f} s, trigger 10 s"
    now, written = (count / minutes for count in files)
    return [
        Figure(
            f"live: lag at p99, {rate}",
            f"{p99:.1f} s; {lags[-1]:.1f} s at most, half of the time below {lags[len(lags) // 2]:.1f} s",
            p99,
            LAG,
            most=True,
        ),
        Figure("live: CPU", f"{cpu / looks[-1].at:.0%} of a core"),
        Figure(
            "live: memory of Java and Python",
            f"{memory:,.0f} MB at most; {resident:,.0f} MB if pages that they share count for each",
            memory,
            MEMORY,
            most=True,
            unit="MB",
        ),
        Figure(
            "live: data files of all tables, a minute",
            f"{now:.1f}, of {written:.1f} that were written",
            now,
            FILES,
            most=True,
            unit="",
        ),
        Figure("live: every event is in the lake, once", "yes" if complete else "NO"),
    ]


def main() -> int:
    asked = sized(__doc__, short=_LEAST, usual=_MOST, rounds=1).parse_args()
    count = _LEAST if asked.short else min(max(asked.events, _LEAST), _MOST)
    kafka = KafkaServer(brief=False)
    kafka.start()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_topic(kafka.bootstrap_servers, "live", 4)
            pipeline_events.write(folder / "events", pipeline_events.BASE)
            metrics = f"127.0.0.1:{free_ports(1)[0]}"
            config = configured(folder / "house", kafka.bootstrap_servers, "live", metrics, "10s")
            command = [str(SKYBRIDGE), "pipeline", "archive", "--config"]
            process = subprocess.Popen([*command, str(config)], stdout=subprocess.DEVNULL)
            try:
                caught_up(process, metrics, 20.0)
                before = cpu_of_tree(process.pid)
                looks = feed(
                    kafka.bootstrap_servers, folder / "events", count, metrics, process.pid
                )
                cpu = cpu_of_tree(process.pid) - before
                arrived(folder / "house" / "lake", count)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(300)
            rows = read_table(folder / "house" / "lake", "events_raw", ("offset",)).num_rows
            found = read_table(folder / "house" / "lake", "events", ("identity",))
            broken = read_table(folder / "house" / "lake", "quarantine", ("offset",)).num_rows
            files = files_of(folder / "house" / "lake")
    finally:
        kafka.stop()
    once = len(found["identity"].unique()) == found.num_rows
    complete = rows == count == found.num_rows + broken and once
    return max(told(figures(looks, cpu, files, complete), asked.json), 0 if complete else 1)


if __name__ == "__main__":
    raise SystemExit(main())
