"""Any peer beside Skybridge: a command that serves HTTP, driven by the same load.

The peer is started, asked with an event until it answers 2xx, loaded in turns with Skybridge and the plain floor, and
stopped. What it costs is the CPU of its process and of all below it; its memory likewise.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import bench_events
import lab
import logs
import table
from cost import memory_of_tree

from waiting import wait_until

ANSWERS_WITHIN = 120.0  # seconds: a JVM, or what a script prepares
STOPS_WITHIN = 20.0
HEADINGS = ["what", "CPU µs/event", "events/s", "times Skybridge's CPU", "memory MB now/peak"]
PREFACE = """## {name} beside Skybridge

The same load on both in turns, HTTP → {log}, {shape}, in one run on one machine. CPU and memory are those of the whole tree of
processes. The first load of each, which warms it, does not count. [How to run it](guides/bench.md#a-peer-beside-skybridge).
"""


class Asked(NamedTuple):
    """``command``: words, in which ``{address}`` is that of the log's server,
    ``{topic}`` a topic of eight partitions and ``{folder}`` an empty folder."""

    name: str
    url: str
    command: Sequence[str]
    log: str
    shape: str
    words: Sequence[str]


class Peer:
    """A process of its own session, so that whatever it starts is stopped with it."""

    def __init__(self, url: str, command: Sequence[str], folder: Path) -> None:
        parts = urlsplit(url)
        if (
            parts.scheme != "http"
            or parts.hostname not in {"127.0.0.1", "localhost"}
            or not parts.port
        ):
            raise ValueError(f"--url {url}: write http://127.0.0.1:PORT/PATH")
        self.port = parts.port
        self.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._command, self._folder = command, folder
        self._said = folder / "peer.log"

    def start(self) -> None:
        if lab.listens(self.port):
            raise RuntimeError(
                f"port {self.port} is taken: stop its process, or choose another --url"
            )
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(self._answers, "2xx from the peer", ANSWERS_WITHIN, turn=0.1)
        except Exception as error:
            self.stop()
            raise RuntimeError(f"{error}; the peer said: {self._tail()}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def _answers(self) -> bool:
        """Raises RuntimeError for one that has ended by itself."""
        if (code := self._process.poll()) is not None:
            raise RuntimeError(f"the peer ended with {code}")
        told = bench_events.attributes(0).items()
        headers = {"content-type": "application/json"} | {f"ce-{name}": text for name, text in told}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", self.path, bench_events.body(0), headers)
            return 200 <= connection.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _tail(self) -> str:
        return self._said.read_text(errors="replace")[-2_000:]

    def stop(self) -> None:
        """All that it started too, some of which may outlive what started it."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            wait_until(self._stopped, "end of the peer", STOPS_WITHIN, turn=0.05)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, sign: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, sign)

    def _stopped(self) -> bool:
        return self._process.poll() is not None and not lab.listens(self.port)


@dataclass
class Contender:
    name: str
    costs: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    memory: str = ""
    ours: Contender | None = None  # what it is compared with

    def add(self, found: lab.Loaded) -> None:
        self.costs.append(found.cost)
        self.rates.append(found.rate)

    def cells(self) -> list[str]:
        rates = f"{median(self.rates):,.0f} [{min(self.rates):,.0f}-{max(self.rates):,.0f}]"
        ratio = ""
        if self.ours:
            pairs = zip(self.costs, self.ours.costs, strict=True)
            ratio = f"{median(own / other for own, other in pairs):.2f}"
        return [self.name, table.spread(self.costs), rates, ratio, self.memory]


def measure(
    folder: Path, asked: Asked, rounds: int, requests: int
) -> tuple[Sequence[Contender], list[str]]:
    remarks = [f"{rounds} rounds of {requests:,} requests. The peer: `{' '.join(asked.command)}`."]
    with logs.standing(asked.log, remarks) as log:
        if log is None:
            raise RuntimeError(remarks[-1])
        own = folder / "peer"
        own.mkdir()
        places = {"{address}": log.address, "{topic}": lab.FLOOR_TOPIC, "{folder}": str(own)}
        command = [_filled(word, places) for word in asked.command]
        return _measure(
            folder, asked, log, Peer(asked.url, command, folder), rounds, requests
        ), remarks


def _filled(word: str, places: dict[str, str]) -> str:
    for place, text in places.items():
        word = word.replace(place, text)
    return word


def _measure(
    folder: Path, asked: Asked, log: logs.Log, peer: Peer, rounds: int, requests: int
) -> list[Contender]:
    service = lab.Service(folder / "service", log.broker(folder / "log"))
    started: list[Any] = []
    with lab.stopping(started):
        for each in (peer, service):
            each.start()
            started.append(each)
        ours, other = Contender("Skybridge"), (*asked.words, f"--path={peer.path}", "--expect=2")
        loads: list[tuple[Contender, Any, Sequence[str]]] = [
            (ours, service, asked.words),
            (Contender(asked.name, ours=ours), peer, other),
        ]
        if asked.shape == "single":  # the floor knows no batches
            started.append(floor := log.floor())
            name = f"the floor: {log.floor_name}"
            loads.append((Contender(name, ours=ours), floor, asked.words))
        for number in range(-1, rounds):
            print(f"{asked.name}, round {number + 1} of {rounds}", file=sys.stderr)
            for contender, of, words in loads:
                found = lab.under_load(of.pid, of.port, asked.shape, requests, *words)
                contender.memory = str(memory_of_tree(of.pid))
                if number >= 0:
                    contender.add(found)
        return [contender for contender, *_ in loads]
