"""HTTP → Kafka with one gateway and with two on one port: events a second, and what an event costs in all.

Rounds alternate, so that a busy machine disturbs both alike. The load and Kafka run beside the gateways, on
the same processors.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import lab
import logs
import table
from bench_events import KEYS
from cost import cpu_seconds, memory

from free_ports import free_ports

COUNTS = (1, 2)
PREFACE = """## Two gateways on one port

HTTP → Kafka with one gateway and with two that share a port (`reuse_port`), single events of 0.6 kB of 64 connections.
"""
HEADINGS = ["gateways", "events/s", "CPU µs/event, all", "memory MB, all"]


@dataclass
class Row:
    """One value a round; costs in microseconds of processor time an event."""

    gateways: int
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    memory: float = 0.0

    def cells(self) -> list[str]:
        rates = f"{median(self.rates):,.0f} [{min(self.rates):,.0f}-{max(self.rates):,.0f}]"
        return [str(self.gateways), rates, table.spread(self.costs), f"{self.memory:.0f}"]


class Gateways:
    """Of one installation, on one port, each with an admin port of its own."""

    def __init__(self, folder: Path, count: int, kafka: logs.Log) -> None:
        folder.mkdir()
        (self.port,) = free_ports(1)
        broker = kafka.broker(folder)
        shared = {"roles": ["gateway"], "port": self.port, "events": {"reuse_port": True}}
        self._services = [lab.Service(folder / str(n), broker, **shared) for n in range(count)]
        for each in self._services:
            each.start()

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._services]

    def stop(self) -> None:
        for each in self._services:
            each.stop()

    def measure(self, row: Row, events: int) -> None:
        before = sum(map(cpu_seconds, self.pids))
        sent: dict[str, Any] = lab.load(self.port, "single", events)
        row.costs.append(1e6 * (sum(map(cpu_seconds, self.pids)) - before) / sent["events"])
        row.rates.append(sent["events"] / sent["seconds"])
        row.memory = sum(memory(pid).now for pid in self.pids)


def measure(folder: Path, rounds: int, events: int) -> tuple[list[Row], list[str]]:
    rows, started = [Row(count) for count in COUNTS], list[Any]()
    remarks = [f"{rounds} rounds of {events:,} events."]
    with logs.standing("kafka", remarks) as kafka, lab.stopping(started):
        if kafka is None:
            return [], remarks
        all_of_them = []
        for row in rows:
            gateways = Gateways(folder / str(row.gateways), row.gateways, kafka)
            started.append(gateways)
            all_of_them.append(gateways)
            lab.load(gateways.port, "single", KEYS)  # warm: imports, caches, topics
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for gateways, row in zip(all_of_them, rows, strict=True):
                gateways.measure(row, events)
    return rows, remarks
