"""One service under soak with its webhook and its load, each a process, and looked at from outside."""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import lab
from cost import cpu_seconds, memory

from configuration import Settings, configuration, route, subscription
from free_ports import free_ports
from service_process import ServiceProcess
from waiting import wait_until

WATCHED = Path(__file__).with_name("soak_watched.py")
WITHIN = 300.0
KEPT = "8MiB"  # of a partition: small, so that the log drops segments within minutes
ATTEMPTS = 5_000  # rows kept of the attempts, likewise


class Sample(NamedTuple):
    """``at``: seconds since the load began. Memory and disk in MB; ``lag``: events stored and not delivered."""

    at: float
    memory: float
    blocks: int
    tasks: int
    sockets: int
    descriptors: int
    threads: int
    lag: int
    disk: float


class Sunk(NamedTuple):
    delivered: int
    refused: int
    again: int
    requests: int


def _settings(folder: Path, sink: int, broker: dict[str, Any]) -> Settings:
    """Both roles in one process, as a pod of the chart has it."""
    soak = subscription(
        "soak", f"http://127.0.0.1:{sink}/", lab.TOPIC, broker="target", concurrency=64
    )
    return configuration(
        folder,
        installation="soak",
        store={"attempts": {"max_rows": ATTEMPTS}},
        brokers={"log": None, "target": broker},
        routes=[
            route(lab.TOPIC, name="everything", broker="target", key={"mapper": "partitionkey"})
        ],
        subscriptions=[soak],
        timeouts={"drain": None},
        log={"format": "json", "level": "warning"},
    )


class House:
    """``name``: the log. ``start`` returns when the subscription has its partitions."""

    def __init__(self, name: str, folder: Path, broker: dict[str, Any]) -> None:
        folder.mkdir()
        self.name, self._folder = name, folder
        self._counts, self._sunk = folder / "counts", folder / "sunk"
        self._sunk.write_bytes(bytes(struct.calcsize("<4Q")))
        (self._port,) = free_ports(1)
        self.service = ServiceProcess(_settings(folder, self._port, broker), folder)
        self.service.program = (sys.executable, str(WATCHED))

    def start(self) -> None:
        self._sink = lab.start("soak_sink.py", f"--port={self._port}", f"--counts={self._sunk}")
        wait_until(lambda: lab.listens(self._port), "webhook", lab.UP_WITHIN)
        path = os.pathsep.join(str(WATCHED.parents[at]) for at in (0, 2))
        self.service.start({"SKYBRIDGE_COUNTS": str(self._counts), "PYTHONPATH": path})
        wait_until(lambda: bool(self._subscription()["partitions"]), "partitions", WITHIN, turn=0.2)
        self._began = time.monotonic()
        self._cpu = cpu_seconds(self.service.pid)

    def stop(self) -> None:
        if self.service.running:
            self.service.stop()
        lab.end(self._sink)

    def load(self, rate: float, seconds: float) -> Any:
        """The process that posts."""
        words = (f"--port={self.service.events_port}", f"--rate={rate}", f"--seconds={seconds}")
        return lab.start("soak_load.py", *words)

    def sunk(self) -> Sunk:
        return Sunk(*struct.unpack("<4Q", self._sunk.read_bytes()))

    def core(self) -> float:
        """Processor time a second since the start, in cores."""
        return (cpu_seconds(self.service.pid) - self._cpu) / (time.monotonic() - self._began)

    def sample(self) -> Sample:
        """Asks as Prometheus does, too: metrics that grow with each scrape would be a leak."""
        self.service.ask("GET", "/metrics")
        subscription = self._subscription()
        counts = json.loads(self._counts.read_text())
        pid = self.service.pid
        links = [_link(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
        return Sample(
            at=time.monotonic() - self._began,
            memory=memory(pid).now,
            blocks=counts["blocks"],
            tasks=counts["tasks"],
            sockets=sum(link.startswith("socket:") for link in links),
            descriptors=len(links),
            threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
            lag=(subscription["lag"] or 0)
            + subscription["held"],  # None: the broker did not answer
            disk=sum(map(_size, self._files())) / 1e6,
        )

    def _files(self) -> list[Path]:
        own = (self._folder / "log", self._folder)
        return [f for folder in own if folder.is_dir() for f in folder.iterdir() if f.is_file()]

    def _subscription(self) -> dict[str, Any]:
        found: dict[str, Any]
        (found,) = self.service.get("/status")["subscriptions"]
        return found


def _link(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""  # closed meanwhile


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0  # deleted meanwhile, as a journal of SQLite is
