"""HTTP → Kafka with one gateway and with two on one port: events a second, and what an event costs in all.

Rounds alternate, so that a busy machine disturbs both alike. The load and Kafka run beside the gateways, on
the same processors.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import lab
import table
from bench_events import KEYS
from cost import cpu_seconds, memory

from forked import SKYBRIDGE
from kafka_server import KafkaServer
from service_process import ServiceProcess, free_ports

HEADINGS = ["gateways", "events/s", "CPU µs/event, all", "memory MB, all"]

_CONFIG = """
version: 1
installation: bench
server: {{events: {{host: 127.0.0.1, port: {events}, reuse_port: true}}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers: {{target: {{kind: kafka, bootstrap_servers: "{kafka}"}}}}
routes:
  - name: everything
    to: {{broker: target, topic: {topic}}}
    key: {{mapper: partitionkey}}
timeouts: {{not_ready: 0s}}
"""


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

    def __init__(self, folder: Path, count: int, kafka: str) -> None:
        folder.mkdir()
        self.port, *admins = free_ports(1 + count)
        config = folder / "skybridge.yaml"
        topic = lab.TOPIC
        config.write_text(_CONFIG.format(events=self.port, folder=folder, kafka=kafka, topic=topic))
        self._processes: list[ServiceProcess] = []
        for admin in admins:
            process = ServiceProcess(config, folder, admin, (SKYBRIDGE,))
            process.arguments += ["--role", "gateway"]
            process.start({"SKYBRIDGE_SERVER__ADMIN__PORT": str(admin)})
            self._processes.append(process)

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._processes]

    def stop(self) -> None:
        for each in self._processes:
            each.stop()

    def measure(self, row: Row, events: int) -> None:
        before = sum(map(cpu_seconds, self.pids))
        sent: dict[str, Any] = lab.load(self.port, "single", events)
        row.costs.append(1e6 * (sum(map(cpu_seconds, self.pids)) - before) / sent["events"])
        row.rates.append(sent["events"] / sent["seconds"])
        row.memory = sum(memory(pid).now for pid in self.pids)


def measure(folder: Path, counts: Sequence[int], rounds: int, events: int) -> list[Row]:
    """Raises Missing where there is no Kafka."""
    rows = [Row(count) for count in counts]
    kafka = KafkaServer(brief=False)
    kafka.start()
    started: list[Any] = [kafka]
    with lab.stopping(started):
        lab.create_topics(kafka.bootstrap_servers)
        all_of_them = []
        for row in rows:
            gateways = Gateways(folder / str(row.gateways), row.gateways, kafka.bootstrap_servers)
            started.append(gateways)
            all_of_them.append(gateways)
            lab.load(gateways.port, "single", KEYS)  # warm: imports, caches, topics
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for gateways, row in zip(all_of_them, rows, strict=True):
                gateways.measure(row, events)
    return rows
