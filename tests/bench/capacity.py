"""``make capacity``: what an installation has to have, measured here, as the page docs/capacity.md.

::

    python tests/bench/capacity.py                             minutes
    python tests/bench/capacity.py --short                     does it work?
    python tests/bench/capacity.py --write docs/capacity.md    also as a page
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import capacity_page
import lab
import logs
from cost import cpu_seconds, memory

from app.store import open_store
from store_samples import a_letter, a_row, an_attempt
from waiting import wait_until

EXAMPLE = 1_000  # bytes of data, of the example
BODIES = (200, 1_000, 10_000)  # bytes of data
WITHIN = 240.0


@dataclass(frozen=True)
class Size:
    rounds: int
    events: int
    backlog: int
    in_flight: int
    rows: int
    steady: float  # seconds


FULL = Size(rounds=3, events=10_000, backlog=10_000, in_flight=2_000, rows=10_000, steady=20.0)
SHORT = Size(rounds=1, events=6_000, backlog=2_000, in_flight=200, rows=500, steady=5.0)


def ingress(folder: Path, name: str, broker: dict[str, Any], size: Size) -> list[capacity_page.In]:
    """Rounds of each size of event; for an embedded log also what it takes on the disk."""
    log = Path(broker["path"]) if broker["kind"] == "embedded" else None
    service = lab.Service(folder / name, broker)
    return [measured(service, name, body, size, log) for body in BODIES]


def measured(
    service: lab.Service, name: str, body: int, size: Size, log: Path | None
) -> capacity_page.In:
    """A service that has stopped has no journal beside its log."""
    before = on_disk(log)
    service.start()
    try:
        lab.load(service.port, "single", size.events, f"--body={body}")  # warm
        costs = [
            lab.cpu_of_load(service.pid, service.port, "single", size.events, f"--body={body}")
            for _ in range(size.rounds)
        ]
    finally:
        service.stop()
    stored = (on_disk(log) - before) / ((1 + size.rounds) * size.events)
    return capacity_page.In(name, body, median(costs), stored if log else math.nan)


def on_disk(log: Path | None) -> int:
    file = None if log is None else log / "log.db"
    return file.stat().st_size if file is not None and file.exists() else 0


def delivery(folder: Path, size: Size) -> capacity_page.Out:
    """A backlog to a webhook that answers at once; then to one that never answers, for what is held."""
    service = lab.Service(folder / "delivery", {"kind": "embedded", "path": str(folder / "full")})
    service.start()
    lab.load(service.port, "single", size.backlog)
    service.stop()
    drained = drain(service, folder, size)
    return capacity_page.Out(*drained, hold(service, size))


def drain(service: lab.Service, folder: Path, size: Size) -> tuple[float, float, float]:
    """Microseconds of CPU a delivery, deliveries a second, and MB at the most."""
    sink = lab.Sink(folder)
    hook = subscription("drain", f"http://127.0.0.1:{sink.port}/", 64)
    with lab.stopping([sink]):
        found = lab.drain(service, hook, sink.count, size.backlog, size.backlog // 10)
    return found.cost, found.rate, found.memory.peak


def steady(folder: Path, seconds: float) -> capacity_page.Steady:
    """The worked example itself, at its rate: events come alone, and cost more than in a full stream."""
    folder.mkdir()
    sink = lab.Sink(folder)
    service = lab.Service(folder / "service", {"kind": "embedded", "path": str(folder / "log")})
    hooks = [f"http://127.0.0.1:{sink.port}/{n}" for n in range(capacity_page.WEBHOOKS)]
    service.start(tuple(subscription(f"hook-{n}", url, 64) for n, url in enumerate(hooks)))
    words = (f"--port={service.port}", f"--rate={capacity_page.EVENTS}", f"--body={EXAMPLE}")
    try:
        lab.result_of(lab.start("soak_load.py", *words, "--seconds=3"))  # warm
        before, began = cpu_seconds(service.pid), time.monotonic()
        told = lab.result_of(lab.start("soak_load.py", *words, f"--seconds={seconds}"))
        cores = (cpu_seconds(service.pid) - before) / (time.monotonic() - began)
        return capacity_page.Steady(
            cores, told["acknowledged"] / told["seconds"], memory(service.pid).peak
        )
    finally:
        service.stop()
        sink.stop()


def hold(service: lab.Service, size: Size) -> float:
    """Megabytes for 1,000 events of 0.6 kB that are out and unanswered."""
    with silent() as port:
        service.start((subscription("none", f"http://127.0.0.1:{port}/", 1),))
        idle = memory(service.pid).now
        service.stop()
        service.start((subscription("held", f"http://127.0.0.1:{port}/", size.in_flight),))
        try:
            wait_until(
                lambda: in_flight(service) >= size.in_flight, "all in flight", WITHIN, turn=0.2
            )
            return 1_000 * (memory(service.pid).now - idle) / size.in_flight
        finally:
            service.kill()


def subscription(name: str, sink: str, concurrency: int) -> dict[str, Any]:
    return {
        "id": name,
        "source": {"broker": "target", "topics": [lab.TOPIC]},
        "start": "earliest",
        "sink": sink,
        "concurrency": concurrency,
        "ordering": "none",
        "handshake": "off",
        "timeout": "300s",
    }


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A webhook that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=4_096) as listening:
        yield int(listening.getsockname()[1])


def in_flight(service: lab.Service) -> int:
    with urllib.request.urlopen(service.status) as answer:
        return sum(each["in_flight"] for each in json.load(answer)["subscriptions"])


def rows(folder: Path, count: int) -> capacity_page.Rows:
    """Bytes of the store's file for one row of each kind."""
    return capacity_page.Rows(
        *(asyncio.run(grown(folder / f"{kind}.db", kind, count)) for kind in KINDS)
    )


KINDS = ("parked", "letters", "attempts")


async def grown(path: Path, kind: str, count: int) -> float:
    store = open_store(path)
    await store.start()
    before = path.stat().st_size
    for first in range(0, count, 100):
        numbers = range(first, first + 100)
        if kind == "parked":
            await store.parked.park([a_row(number) for number in numbers])
        elif kind == "attempts":
            await store.attempts.add([an_attempt(number) for number in numbers])
        else:
            for number in numbers:
                await store.letters.add(a_letter(number))
    await store.stop()
    return (path.stat().st_size - before) / count


def kafka_ingress(folder: Path, size: Size) -> list[capacity_page.In]:
    missing: list[str] = []
    with logs.standing("kafka", missing) as log:
        if log:
            return ingress(folder, log.name, log.broker(folder), size)
    print(*missing, file=sys.stderr)
    return []


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="does it work?")
    parser.add_argument("--write", type=Path, help="write the page here")
    options = parser.parse_args(arguments)
    size = SHORT if options.short else FULL
    with tempfile.TemporaryDirectory(prefix="skybridge-capacity-") as name:
        folder = Path(name)
        path = str(folder / "log")
        inward = ingress(folder, "embedded log", {"kind": "embedded", "path": path}, size)
        inward += kafka_ingress(folder, size)
        page = capacity_page.page(
            inward,
            delivery(folder, size),
            rows(folder, size.rows),
            steady(folder / "steady", size.steady),
        )
    print(page)
    if options.write:
        options.write.write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
