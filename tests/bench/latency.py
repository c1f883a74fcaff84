"""From the first byte of a POST to the first byte of its delivery, at 1,000 events a second."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from typing import Any

import lab
import logs
import table

from free_ports import free_ports
from waiting import wait_until

RATE = 1_000
TARGETS = {"embedded log": (5.0, 25.0), "Kafka": (8.0, 40.0), "the clock alone": (inf, inf)}
"""Milliseconds: half of all events, and 99 of 100."""

PREFACE = f"""## Latency

{RATE:,} events of 0.6 kB a second by a schedule that waits for no answer (open loop), 10,000 keys, one webhook: from the
first byte of the POST to the first byte of the delivery, both by one clock, in a process outside. The clock alone is
that process posting to itself. The service, the log and the clock share the machine's CPUs.
"""


class Latency:
    """Two rows: the 50th and the 99th percentile of each round."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.half, self.most = (
            table.Plain(f"{name}, {percentile}", "", target, unit="ms")
            for percentile, target in zip(("p50", "p99"), TARGETS[name], strict=True)
        )
        self._late = self._highest = 0.0

    def add(self, found: dict[str, Any]) -> None:
        self.half.measured.append(found["p50"])
        self.most.measured.append(found["p99"])
        self._late = max(self._late, found["late"])
        self._highest = max(self._highest, found["most"])

    def remark(self) -> str:
        return (
            f"{self.name}: the slowest event took {self._highest:.1f} ms; 99 of 100 posts were at most "
            f"{self._late:.2f} ms late for want of a CPU."
        )


def ends(port: int, sink: int, seconds: float) -> dict[str, Any]:
    words = (f"--port={port}", f"--sink={sink}", f"--rate={RATE}", f"--seconds={seconds}")
    return lab.result_of(lab.start("latency_ends.py", *words))


def through(folder: Path, broker: dict[str, Any], seconds: float) -> dict[str, Any]:
    """A service of its own with one subscription, of this name."""
    (sink,) = free_ports(1)
    hook = {
        "id": folder.name,
        "source": {"broker": "target", "topics": [lab.TOPIC]},
        "start": "latest",
        "sink": f"http://127.0.0.1:{sink}/",
    }
    service = lab.Service(folder, broker)
    service.start((hook,))
    try:
        wait_until(lambda: service.running() == 1, "subscription", lab.LOAD_WITHIN, turn=0.2)
        return ends(service.port, sink, seconds)
    finally:
        service.stop()


def measure(folder: Path, rounds: int, seconds: float) -> tuple[list[table.Plain], list[str]]:
    remarks = [f"{rounds} rounds of {seconds:g} s each, behind 2 s that do not count."]
    embedded, kafka, alone = map(Latency, TARGETS)
    with logs.standing("kafka", remarks) as on_kafka:
        for number in range(rounds):
            print(f"latency, round {number + 1} of {rounds}", file=sys.stderr)
            log = {"kind": "embedded", "path": str(folder / f"log-{number}")}
            embedded.add(through(folder / f"embedded-{number}", log, seconds))
            if on_kafka:
                log = on_kafka.broker(folder)
                kafka.add(through(folder / f"kafka-{number}", log, seconds))
            (port,) = free_ports(1)
            alone.add(ends(port, port, seconds))
    found = [each for each in (embedded, kafka, alone) if each.half.measured]
    rows = [row for each in found for row in (each.half, each.most)]
    return rows, remarks + [each.remark() for each in found]
