"""What a delivery costs when many subscriptions read one log and ten of them want the event.

The subscriptions start on an empty log and come to rest; then events come in over HTTP. What taking them
in costs is measured on a service without subscriptions, in the same round, and taken off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lab
import logs
import table
from bench_events import attributes
from cost import cpu_seconds, memory

from waiting import wait_until

MATCHING = 10
GROWTH = 1.2  # the most that a delivery may cost beside one to a single subscription
EMBEDDED = ((10, 10), (100, 10), (1_000, 10))
KAFKA = ((100, 100), (100, 10))
"""How many subscriptions, and how many of them want what is sent."""
SHARED = ((5_000, 1),)
"""The same with ``sharing: topic``, on Kafka alone: one group reads for all."""
SHARED_GROWTH = 2.0
WARM = 5_000  # deliveries before the count begins
WITHIN = 300.0
ASKED_EVERY = 0.5  # seconds: to tell of a thousand is work
RESTING = 0.15  # seconds of CPU a second: a hundred members of Kafka groups beat
AT_REST = 10.0  # seconds over which a service without work is watched


@dataclass(frozen=True)
class Measured:
    """Microseconds of CPU a delivery; start-up in seconds, CPU at rest as a share of one core, resident
    memory in MB."""

    delivery: float
    start: float
    rest: float
    memory: float


def subscriptions(
    count: int, matching: int, port: int, sharing: str = "none"
) -> tuple[dict[str, Any], ...]:
    """``count`` of them, of which the first ``matching`` want what is sent."""
    wanted = attributes(0)["type"]
    return tuple(
        {
            "id": f"many-{number:04}",
            "source": {"broker": "target", "topics": [lab.TOPIC]},
            "start": "latest",
            "filters": [{"exact": {"type": wanted if number < matching else f"other.{number}"}}],
            "sink": f"http://127.0.0.1:{port}/{number}",
            **({"sharing": sharing} if sharing != "none" else {}),
        }
        for number in range(count)
    )


def taking_in(folder: Path, broker: dict[str, Any], events: int) -> float:
    """Microseconds of CPU an event without any subscription."""
    service = lab.Service(folder, broker)
    service.start()
    try:
        lab.load(service.port, "single", events)  # warm
        return lab.cpu_of_load(service.pid, service.port, "single", events)
    finally:
        service.stop()


def measure(
    folder: Path,
    broker: dict[str, Any],
    count: int,
    deliveries: int,
    apart: float,
    matching: int = MATCHING,
    sharing: str = "none",
) -> Measured:
    """``apart``: microseconds that taking an event in costs by itself."""
    folder.mkdir()
    sink, service = lab.Sink(folder), lab.Service(folder / "service", broker)
    matching = min(count, matching)
    try:
        begun = time.monotonic()
        begin(service, count, matching, sink.port, sharing)
        start = time.monotonic() - begun
        come_to_rest(service.pid)
        warm, events = max(20, WARM // matching), deliveries // matching
        lab.load(service.port, "single", warm)
        wait_until(lambda: sink.count() >= warm * matching, "the first deliveries", WITHIN)
        come_to_rest(service.pid)
        rest = cpu_at_rest(service.pid)
        before = cpu_seconds(service.pid)
        lab.load(service.port, "single", events)
        total = (warm + events) * matching
        wait_until(lambda: sink.count() >= total, f"{total} deliveries to {count}", WITHIN)
        used = 1e6 * (cpu_seconds(service.pid) - before)
        resident = memory(service.pid).now
        return Measured((used - events * apart) / (events * matching), start, rest, resident)
    finally:
        service.stop()
        sink.stop()


def begin(
    service: lab.Service, count: int, matching: int, port: int, sharing: str = "none"
) -> None:
    """Returns when all subscriptions are at work."""
    service.start(subscriptions(count, matching, port, sharing))
    wait_until(
        lambda: service.running() == count,
        f"{count} subscriptions at work",
        WITHIN,
        max(ASKED_EVERY, count / 2_000),
    )


def come_to_rest(pid: int, below: float = RESTING) -> None:
    """What its start, or the last load, has left to do is done: it uses no more than at rest."""
    for _ in range(int(WITHIN)):
        before = cpu_seconds(pid)
        time.sleep(1.0)
        if cpu_seconds(pid) - before < below:
            return
    raise TimeoutError("the service does not come to rest")


def cpu_at_rest(pid: int, seconds: float = AT_REST) -> float:
    """As a share of one core."""
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / seconds


PREFACE = f"""## One subscription beside many

Events that {MATCHING} of many subscriptions want, beside a service with one subscription: what one delivery costs. Taking the
events in is measured on a service without subscriptions, in the same round, and subtracted.
"""


def beside_one(folder: Path, rounds: int, deliveries: int) -> tuple[list[table.Row], list[str]]:
    remarks = [f"{rounds} rounds of {deliveries:,} deliveries."]
    rows: list[table.Row] = []
    for kind, counts in (("embedded", EMBEDDED), ("kafka", KAFKA)):
        with logs.standing(kind, remarks) as log:
            if log:
                parts = [Growth(log, folder, counts)]
                if kind == "kafka":
                    parts.append(Growth(log, folder, SHARED, "topic", SHARED_GROWTH))
                for growth in parts:
                    for number in range(rounds):
                        print(f"many on {log.name}, {number + 1} of {rounds}", file=sys.stderr)
                        growth.round(deliveries)
                    rows += growth.rows
                    remarks += growth.remarks[-len(growth.rows) :]
    return rows, remarks


class Growth:
    """A row a number of subscriptions; the floor of all is the one of a single subscription."""

    def __init__(
        self,
        log: logs.Log,
        folder: Path,
        counts: Sequence[tuple[int, int]],
        sharing: str = "none",
        most: float = GROWTH,
    ) -> None:
        self._log, self._sharing, self._counts = log, sharing, tuple(counts)
        self._folder = folder / f"{log.name.split()[0]}-{sharing}"
        self._folder.mkdir()
        self._name = log.name + (", sharing" if sharing == "topic" else "")
        self.remarks: list[str] = []
        self.rows = [
            table.Row(f"{self._name} → webhooks, {matching} of {count:,}", "one subscription", most)
            for count, matching in self._counts
        ]

    def round(self, deliveries: int) -> None:
        folder = self._folder / str(len(self.rows[0].measured))
        folder.mkdir()
        apart = taking_in(folder / "apart", self._of(folder, 0), deliveries)
        one = measure(folder / "one", self._of(folder, 1), 1, deliveries, apart)
        for number, (row, (count, matching)) in enumerate(
            zip(self.rows, self._counts, strict=True)
        ):
            broker = self._of(folder, number + 2)
            many = measure(
                folder / str(number), broker, count, deliveries, apart, matching, self._sharing
            )
            row.measured.append(many.delivery)
            row.floor.append(one.delivery)
            row.memory = f"{many.memory:.0f}"
            self.remarks.append(
                f"{count:,} subscriptions on {self._name}: all at work {many.start:.1f} s after the "
                f"start, {100 * many.rest:.1f} % of a core at rest, {many.memory:.0f} MB."
            )

    def _of(self, folder: Path, number: int) -> dict[str, Any]:
        """An embedded log is a new one each time."""
        return self._log.broker(folder / f"log-{number}")
