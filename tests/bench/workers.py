"""HTTP → embedded log with one process and with several: events a second, and what an event costs in all.

Rounds alternate, so that a busy machine disturbs both alike. The load runs beside the service, on the same
processors: where there are two, two processes of the service have to share them with it.

::

    PYTHONPATH=tests/support python tests/bench/workers.py            five rounds of 40,000 events
    PYTHONPATH=tests/support python tests/bench/workers.py --workers 1 2 4 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
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
from service_process import ServiceProcess, free_ports
from workers_service import children_of

HEADINGS = [
    "processes", "events/s", "CPU µs/event, all", "process 1", "others", "memory MB, all",
]  # fmt: skip

_CONFIG = """
version: 1
installation: bench
server:
  workers: {workers}
  events: {{host: 127.0.0.1, port: {events}}}
  admin: {{host: 127.0.0.1, port: {admin}}}
store: {{kind: sqlite, path: {folder}/store.db}}
brokers: {{target: {{kind: embedded, path: {folder}/log}}}}
routes:
  - name: everything
    to: {{broker: target, topic: bench}}
    key: {{mapper: partitionkey}}
timeouts: {{not_ready: 0s}}
"""


@dataclass
class Row:
    """One value a round; costs in microseconds of processor time an event."""

    workers: int
    rates: list[float] = field(default_factory=list)
    owner: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    memory: float = 0.0

    def cells(self) -> list[str]:
        costs = [own + other for own, other in zip(self.owner, self.others, strict=True)]
        rates = f"{median(self.rates):,.0f} [{min(self.rates):,.0f}-{max(self.rates):,.0f}]"
        shares = [f"{median(self.owner):.1f}", f"{median(self.others):.1f}"]
        return [str(self.workers), rates, table.spread(costs), *shares, f"{self.memory:.0f}"]


class Service:
    """``family``: the process that owns the log, then all others."""

    def __init__(self, folder: Path, workers: int) -> None:
        folder.mkdir()
        self.port, admin = free_ports(2)
        config = folder / "skybridge.yaml"
        config.write_text(
            _CONFIG.format(workers=workers, events=self.port, admin=admin, folder=folder)
        )
        self._process = ServiceProcess(config, folder, admin, (SKYBRIDGE,))
        self._process.start()
        parent = self._process.pid
        children = children_of(parent)
        self.family = [*children, parent] if workers > 1 else [parent]

    def stop(self) -> None:
        self._process.stop()

    def measure(self, row: Row, events: int) -> None:
        before = [cpu_seconds(pid) for pid in self.family]
        sent: dict[str, Any] = lab.load(self.port, "single", events)
        spent = [
            1e6 * (cpu_seconds(pid) - then) / sent["events"]
            for pid, then in zip(self.family, before, strict=True)
        ]
        row.rates.append(sent["events"] / sent["seconds"])
        row.owner.append(spent[0])
        row.others.append(sum(spent[1:]))
        row.memory = sum(memory(pid).now for pid in self.family)


def measure(folder: Path, counts: Sequence[int], rounds: int, events: int) -> list[Row]:
    rows = [Row(count) for count in counts]
    started: list[Service] = []
    with lab.stopping(started):
        for row in rows:
            started.append(Service(folder / str(row.workers), row.workers))
            lab.load(started[-1].port, "single", KEYS)  # warm: imports, caches, topics
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for service, row in zip(started, rows, strict=True):
                service.measure(row, events)
    return rows


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--json", type=Path, help="write every round here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="skybridge-bench-") as folder:
        rows = measure(Path(folder), options.workers, options.rounds, options.events)
    print(table.text(rows, HEADINGS))
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
