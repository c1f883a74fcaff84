"""The Kafka listener beside Kafka itself: the same clients, the same load, in turns.

Events of 1 kB, ten thousand keys, eight partitions. librdkafka produces with acks of all, idempotent, in
batches as it makes them by default, and reads all of it in a group, twice; Java's own tool produces what
has neither key nor headers.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import lab
import table
from confluent_kafka.admin import AdminClient, NewTopic
from cost import cpu_seconds, forget_peak, memory
from kafka_load import SIZE

from free_ports import free_ports
from kafka_install import Missing, install
from kafka_server import KafkaServer, run_tool
from waiting import wait_until

CODECS = ("none", "lz4")
TARGET = 50_000  # events a second
TOLD_WITHIN = 30.0
LARGEST_FETCH = 50 << 20
HEADINGS = [
    "what",
    "events/s",
    "CPU µs/event",
    "Kafka: events/s",
    "Kafka: CPU µs/event",
    "target",
    "",
]

PREFACE = """## The Kafka listener beside Kafka

The same clients with the same load against the embedded log's [Kafka listener](embedded-log.md), in a
`skybridge serve` of its own, and against a real Kafka, in turns: events of 1 kB with the headers of a
CloudEvent, 10,000 keys, 8 partitions, acks of all, idempotent, batches as librdkafka makes them by default.
Events a second are by the clock and end where the slower of client and server ends; CPU is that of the
server's process. Skybridge is one process of Python, answers once a batch is fsynced, and shares the machine's
two CPUs with the client; Kafka is one node, answers before it is fsynced, and uses all CPUs there are.
"""


class Measured(NamedTuple):
    rate: float  # events a second
    cost: float  # microseconds of CPU of the server an event


class Broker(Protocol):
    """What is measured: its process, and where it listens."""

    @property
    def pid(self) -> int: ...

    servers: str


class Ours:
    """Skybridge with its embedded log and the listener. ``program``: instead of ``skybridge``."""

    def __init__(self, folder: Path, *program: str) -> None:
        (port,) = free_ports(1)
        self.servers = f"127.0.0.1:{port}"
        log = {"kind": "embedded", "path": str(folder / "log"), "kafka_listener": self.servers}
        folder.mkdir()
        self._service = lab.Service(folder / "service", log, program=program)
        self._service.start()

    @property
    def pid(self) -> int:
        return self._service.pid

    def stop(self) -> None:
        self._service.stop()


class Kafka:
    """Raises Missing."""

    def __init__(self) -> None:
        self._server = KafkaServer(brief=False)
        self._server.start()
        self.servers = self._server.bootstrap_servers

    @property
    def pid(self) -> int:
        return self._server.pid

    def stop(self) -> None:
        self._server.stop()


@dataclass
class Row:
    name: str
    ours: list[Measured] = field(default_factory=list)
    kafka: list[Measured] = field(default_factory=list)

    def cells(self) -> list[str]:
        ours, beside = _cells(self.ours), _cells(self.kafka)
        missing = 1 - table.median(each.rate for each in self.ours) / TARGET
        verdict = "met" if missing <= 0 else f"missed by {missing:.0%}"
        return [self.name, *ours, *beside, f"≥ {TARGET:,}/s", verdict]


def _cells(measured: list[Measured]) -> tuple[str, str]:
    if not measured:
        return "", ""
    rates = [each.rate for each in measured]
    middle = f"{table.median(rates):,.0f} [{min(rates):,.0f}-{max(rates):,.0f}]"
    return middle, table.spread([each.cost for each in measured])


def measure(folder: Path, rounds: int, events: int) -> tuple[list[Row], list[str]]:
    """Rows and remarks. Alone, where there is no Kafka."""
    try:
        install()
    except Missing as missing:
        rows, remarks = _measure(folder, rounds, events, kafka=False)
        return rows, [*remarks, f"Kafka was not measured: {missing}"]
    return _measure(folder, rounds, events, kafka=True)


def _measure(folder: Path, rounds: int, events: int, *, kafka: bool) -> tuple[list[Row], list[str]]:
    started: list[Any] = []
    with lab.stopping(started):
        started.append(ours := Ours(folder / "ours"))
        brokers: dict[str, Broker] = {"ours": ours}
        if kafka:
            started.append(beside := Kafka())
            brokers["kafka"] = beside
        for broker in brokers.values():
            forget_peak(broker.pid)
        rows = _rounds(brokers, rounds, events)
        remarks = [
            f"{rounds} rounds of {events:,} events of {SIZE:,} bytes (key, headers and value).",
            f"Memory of Skybridge in MB, now and at its highest: {memory(ours.pid)}."
            + (f" Of Kafka: {memory(brokers['kafka'].pid)}." if kafka else ""),
        ]
    return rows, remarks + _holds(folder, events)


def _rounds(brokers: dict[str, Broker], rounds: int, events: int) -> list[Row]:
    """The first round, in which a JVM is cold and classes are made, does not count."""
    rows: dict[str, Row] = {}
    for number in range(-1, rounds):
        print(f"Kafka listener, {number + 1} of {rounds}", file=sys.stderr)
        for name, broker in brokers.items():
            for what, load in _loads(broker, number, events if number >= 0 else events // 4):
                found = load()
                if number >= 0:
                    row = rows.setdefault(what, Row(what))
                    (row.ours if name == "ours" else row.kafka).append(found)
    return list(rows.values())


def _loads(broker: Broker, number: int, events: int) -> list[tuple[str, Callable[[], Measured]]]:
    found: list[tuple[str, Callable[[], Measured]]] = []
    for codec in CODECS:
        topic = f"{codec}-{number + 1}"
        _create(broker.servers, topic)
        words = (f"--topic={topic}", f"--events={events}")

        def produce(codec: str = codec, words: tuple[str, ...] = words) -> Measured:
            return _load(broker, "produce", f"--codec={codec}", *words)

        def read(words: tuple[str, ...] = words) -> Measured:
            return _load(broker, "read", *words)

        title = {"none": "not compressed"}.get(codec, codec)
        found += [
            (f"librdkafka produces, {title}", produce),
            (f"librdkafka reads all in a group, {title}", read),
            (f"and a second time, {title}", read),
        ]
    return [*found, ("Java's producer, neither keys nor headers", _java(broker, number, events))]


def _load(broker: Broker, verb: str, *words: str) -> Measured:
    before = cpu_seconds(broker.pid)
    command = (verb, f"--servers={broker.servers}", *words)
    said = lab.result_of(lab.start("kafka_load.py", *command))
    cost = 1e6 * (cpu_seconds(broker.pid) - before) / said["events"]
    return Measured(said["events"] / said["seconds"], cost)


def _java(broker: Broker, number: int, events: int) -> Callable[[], Measured]:
    topic = f"java-{number + 1}"
    _create(broker.servers, topic)
    words = f"--topic {topic} --num-records {events} --record-size {SIZE} --throughput -1"
    settings = f"--command-property acks=all --bootstrap-server {broker.servers}"

    def produce() -> Measured:
        before = cpu_seconds(broker.pid)
        said = run_tool("ProducerPerformance", f"{words} {settings}".split())
        cost = 1e6 * (cpu_seconds(broker.pid) - before) / events
        (rate,) = re.findall(rf"{events} records sent, ([0-9.]+) records/sec", said)
        return Measured(float(rate), cost)

    return produce


def _create(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, lab.PARTITIONS, 1)])[topic].result(TOLD_WITHIN)


def _holds(folder: Path, events: int) -> list[str]:
    """How long the event loop was held, in a service of its own that is watched (``watched.py``)."""
    file = folder / "holds"
    os.environ["SKYBRIDGE_HOLDS"] = str(file)
    started: list[Any] = []
    remarks: list[str] = []
    with lab.stopping(started):
        program = (sys.executable, str(lab.HERE / "watched.py"))
        started.append(broker := Ours(folder / "watched", *program))
        _create(broker.servers, "held")
        for title, verb, more in (
            ("under the producer", "produce", ()),
            ("under fetches of 50 MB", "read", (f"--fetch={LARGEST_FETCH}",)),
        ):
            _told(broker.pid, file)
            found = _load(broker, verb, "--topic=held", f"--events={events}", *more)
            held = _told(broker.pid, file)
            remarks.append(
                f"The event loop was held for at most {held['cpu_ms']:.1f} ms of CPU "
                f"({held['wall_ms']:.1f} by the clock) {title}, at {found.rate:,.0f} events/s."
            )
    return remarks


def _told(pid: int, file: Path) -> dict[str, float]:
    file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    wait_until(file.exists, "what the watch saw", TOLD_WITHIN)
    held: dict[str, float] = json.loads(file.read_text())
    return held
