"""What a process takes before it does anything, and while it works: memory by role, the time until it is ready."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

import lab
import logs
import many
import table
from bench_events import BATCH
from cost import forget_peak, memory

from forked import SKYBRIDGE
from waiting import wait_until

READY, HELP = 1.0, 0.25  # seconds (issue 21)
RESTING = {"gateway": 60.0, "worker": 80.0, "all": inf}  # MB
LOADED = {"gateway": inf, "worker": inf, "all": 120.0}
DEEP = 2  # batches in flight on each of 64 connections
STARTED = 0.3  # seconds of CPU a second: a start takes all of it

PREFACE = f"""## Memory, start and help

Resident memory in MB of one process by its role, on Kafka, with one webhook subscription where it has one: at rest, and at
its highest while it works. A gateway takes single events, then batches of {BATCH} with {DEEP} in flight on each of 64 connections
(over 10,000 events in flight); a worker drains a backlog to a webhook; `all` does both at once. Nobody has asked the admin
listener for more than `/readyz`: the application behind it, which the first other request makes, takes about 15 MB more.
Start-up is the time from the start of the process until `/readyz` answers 200.
"""


def started_after(folder: Path, broker: dict[str, Any]) -> float:
    """Seconds until it is ready."""
    service, begun = lab.Service(folder, broker), time.monotonic()
    service.begin()
    wait_until(service.ready, "ready service", lab.UP_WITHIN, turn=0.002)
    took = time.monotonic() - begun
    service.stop()
    return took


def helped() -> float:
    begun = time.monotonic()
    subprocess.run([SKYBRIDGE, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def hook(name: str, port: int) -> dict[str, Any]:
    return {
        "id": name,
        "source": {"broker": "target", "topics": [lab.TOPIC]},
        "start": "latest",
        "sink": f"http://127.0.0.1:{port}/",
        "concurrency": 64,
    }


class Footprint:
    """A process by its role; ``feeder`` is another one, a gateway, where it takes in nothing itself."""

    def __init__(self, role: str, broker: dict[str, Any], feeder: lab.Service) -> None:
        self.role, self._broker, self._feeder = role, broker, feeder
        self._delivers, self._takes = role != "gateway", role != "worker"
        name = {"all": "both roles"}.get(role, role)
        self.resting = table.Plain(f"{name}, at rest", "", RESTING[role], unit="MB")
        self.loaded = table.Plain(f"{name}, under load, highest", "", LOADED[role], unit="MB")

    def round(self, folder: Path, events: int, batches: int) -> None:
        folder.mkdir()
        sink = lab.Sink(folder)
        roles = () if self.role == "all" else (self.role,)
        service = lab.Service(folder / "service", self._broker, roles=roles)
        with lab.stopping([sink]):
            service.start((hook(folder.name, sink.port),) if self._delivers else ())
            with lab.stopping([service]):
                many.come_to_rest(service.pid, STARTED)
                self.resting.measured.append(memory(service.pid).now)
                forget_peak(service.pid)  # what the start took does not count
                self._work(service, sink, events, batches)
                self.loaded.measured.append(memory(service.pid).peak)

    def _work(self, service: lab.Service, sink: lab.Sink, events: int, batches: int) -> None:
        lab.load((service if self._takes else self._feeder).port, "single", events)
        if self._takes:
            lab.load(service.port, "batch", batches, f"--deep={DEEP}")
        if self._delivers:
            total = events + (batches * BATCH if self._takes else 0)
            wait_until(lambda: sink.count() >= total, "all deliveries", lab.LOAD_WITHIN, turn=0.2)


def measure(
    folder: Path, rounds: int, events: int, batches: int
) -> tuple[Sequence[table.Line], list[str]]:
    ready = table.Plain("/readyz, embedded log", "", READY, unit="s", digits=2)
    on_kafka = table.Plain("/readyz, Kafka", "", inf, unit="s", digits=2)
    helping = table.Plain("skybridge --help", "", HELP, unit="s", digits=2)
    remarks = [f"{rounds} rounds of {events:,} events and {batches:,} batches."]
    roles: list[Footprint] = []
    with logs.standing("kafka", remarks) as kafka, contextlib.ExitStack() as stack:
        if kafka:
            broker = kafka.broker(folder)
            feeder = lab.Service(folder / "feeder", broker, roles=["gateway"])
            feeder.start()
            stack.callback(feeder.stop)
            roles = [Footprint(role, broker, feeder) for role in RESTING]
        helped()  # warm: files in memory, and bytecode written
        warm = {"kind": "embedded", "path": str(folder / "log-warm")}
        started_after(folder / "ready-warm", warm)
        for number in range(rounds):
            print(f"memory and start, round {number + 1} of {rounds}", file=sys.stderr)
            log = {"kind": "embedded", "path": str(folder / f"log-{number}")}
            ready.measured.append(started_after(folder / f"ready-{number}", log))
            helping.measured.append(helped())
            if kafka:
                on_kafka.measured.append(started_after(folder / f"ready-kafka-{number}", broker))
            for each in roles:
                each.round(folder / f"{each.role}-{number}", events, batches)
    rows = [row for each in roles for row in (each.resting, each.loaded)]
    return [*rows, ready, *([on_kafka] if kafka else []), helping], remarks
