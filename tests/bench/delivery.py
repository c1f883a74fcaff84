"""What a delivery to a webhook costs: from the embedded log, from Kafka, from RabbitMQ, beside plain floors.

10,000 keys in order, 64 in flight, a filter, attempts kept for failures. A backlog is drained by a service
that has just started; CPU is counted from the first delivery to the last, memory is the process's highest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import lab
import logs
import sinks_alone
import table
from cost import Memory

from kafka_install import Missing
from kafka_server import KafkaServer
from rabbitmq_server import RabbitServer
from waiting import wait_until

WITHIN = 240.0
FILTERS = [{"all": [{"prefix": {"type": "com."}}, {"sql": "EXISTS id"}]}]
MEMORY = 150.0  # MB, while a backlog drains
MISSING = "{} was not measured: {}"

PREFACE = """## Delivery

A backlog of 0.6 kB events of 10,000 keys to one webhook: in order per key, 64 in flight, a filter, attempts kept for
failures. CPU is that of the service's process from the first delivery to the last; the floors do the same work in
the same round, and neither filter, nor sign, nor keep order (but for the lanes), nor repeat what failed. The signed
and the shaped request are those of the sink alone, without a service, in turns of 256 with their floors: two drains of a
whole service differ by more than a signature costs.
"""


class Signed(table.Row):
    """Bounded by what it costs above its floor."""

    @property
    def value(self) -> float:
        return median(own - floor for own, floor in zip(self.measured, self.floor, strict=True))

    def cells(self) -> list[str]:
        name, measured, floor, _, _, verdict, _ = super().cells()
        told = f"{self.value:.1f} above"
        return [name, measured, floor, told, f"≤ {self.most:g} µs above", verdict, ""]


class Way:
    """One log with a backlog, drained in each round. A floor is a row of its own, of the same deliveries."""

    name = ""

    def __init__(self, folder: Path, broker: dict[str, Any], total: int) -> None:
        self.service = lab.Service(folder / self.name.split()[0], broker)
        self.folder = folder / f"{self.name.split()[0]}-rounds"
        self.folder.mkdir()
        self.total = total
        self.rows: list[table.Row] = []
        self._peaks: list[float] = []
        self._sinks = 0

    def fill(self) -> None:
        self.service.start()
        lab.load(self.service.port, "single", self.total)
        self.service.stop()

    def row(self, floor: str, most: float) -> table.Row:
        self.rows.append(table.Row(f"{self.name} → webhook", floor, most))
        return self.rows[-1]

    def memory(self) -> table.Row:
        name = f"{self.name} → webhook, memory while {self.total:,} drain"
        return table.Row(name, "", MEMORY, self._peaks, unit="MB")

    def round(self, number: int) -> None:
        raise NotImplementedError

    def sink(self) -> lab.Sink:
        self._sinks += 1
        folder = self.folder / str(self._sinks)
        folder.mkdir()
        return lab.Sink(folder)

    def drain(self, sink: lab.Sink, name: str) -> float:
        """Microseconds a delivery. ``sink`` has received nothing yet."""
        hook = subscription(name, sink.port)
        found = lab.drain(self.service, hook, sink.count, self.total)
        self._note(found.memory)
        return found.cost

    def _note(self, used: Memory) -> None:
        self._peaks.append(used.peak)
        for row in self.rows:
            row.memory = str(used)

    def bare(self, sink: lab.Sink, kind: str, address: str, source: str) -> float:
        words = (f"--address={address}", f"--source={source}", f"--port={sink.port}")
        loop = lab.start("bare_loops.py", kind, *words, f"--requests={self.total}")
        return float(lab.result_of(loop)["microseconds"])


class FromEmbedded(Way):
    """Beside a bare client and a bare receiver; and what signatures add to a request."""

    name = "embedded log"

    def __init__(self, folder: Path, total: int) -> None:
        super().__init__(folder, {"kind": "embedded", "path": str(folder / "full")}, total)
        self.fill()
        self._beside = self.row("bare aiohttp client, same bytes", 0.7)
        self._receiving = self.row("bare ASGI, receives one request", 2.2)
        self._signed = Signed("a request of the sink alone, signed (v1)", "unsigned", 8)
        self._shaped = table.Row(
            "a request of the sink alone, shaped by a template", "structured", 1.25
        )
        self.rows += [self._signed, self._shaped]

    def round(self, number: int) -> None:
        sink, floor = self.sink(), lab.Server("floors.py", "nothing")
        with lab.stopping([sink, floor]):
            cost = self.drain(sink, f"bench-{number}")
            words = (f"--port={sink.port}", f"--first={sink.first}", f"--requests={self.total}")
            posted = lab.result_of(lab.start("bare_client.py", *words))["microseconds"]
            lab.load(floor.port, "single", self.total // 10)  # warm
            received = lab.cpu_of_load(floor.pid, floor.port, "single", self.total)
        for row, beside in ((self._beside, posted), (self._receiving, received)):
            row.measured.append(cost)
            row.floor.append(beside)
        self._alone(self._signed, sinks_alone.signed)
        self._alone(self._shaped, sinks_alone.shaped)

    def _alone(self, row: table.Row, measure: Callable[[int], sinks_alone.Costs]) -> None:
        """Measure two kinds of requests of a sink without a service."""
        sink = self.sink()
        with lab.stopping([sink]):
            measured, floor = measure(sink.port)
        row.measured += measured
        row.floor += floor


class FromKafka(Way):
    """Beside a bare loop, and beside lanes that are nothing but lanes. Raises Missing."""

    name = "Kafka"

    def __init__(self, folder: Path, total: int, started: list[Any]) -> None:
        server = KafkaServer(brief=False)
        server.start()
        started.append(server)
        self._address = server.bootstrap_servers
        logs.create_topics(self._address)
        super().__init__(folder, {"kind": "kafka", "bootstrap_servers": self._address}, total)
        self.fill()
        self._loop = self.row("bare loop of aiokafka and aiohttp", 0.6)
        self._lanes = self.row("bare lanes per key on transports", 2.0)

    def round(self, number: int) -> None:
        sink = self.sink()
        with lab.stopping([sink]):
            cost = self.drain(sink, f"bench-{number}")
            for row, kind in ((self._loop, "kafka"), (self._lanes, "lanes")):
                row.measured.append(cost)
                row.floor.append(self.bare(sink, kind, self._address, lab.TOPIC))


class FromRabbit(Way):
    """Beside a bare loop, which drains the queues of a subscription of its own. Raises Missing."""

    name = "RabbitMQ"

    def __init__(self, folder: Path, total: int, started: list[Any]) -> None:
        server = RabbitServer()
        server.start()
        started.append(server)
        self._address = server.address
        broker = {
            "kind": "rabbitmq",
            "addresses": self._address,
            "queue": "{topic}.{group}.{partition}",
            "topics": {"create": True, "partitions": lab.PARTITIONS},
        }
        super().__init__(folder, broker, total)
        self._loop = self.row("bare loop of aio-pika and aiohttp", 0.6)

    def round(self, number: int) -> None:
        self._declare()
        self.fill()
        sink = self.sink()
        with lab.stopping([sink]):
            self._loop.measured.append(self.drain(sink, "bench"))
            group = f"{lab.TOPIC}.skybridge.bench.floor"
            queues = ",".join(f"{group}.{number}" for number in range(lab.PARTITIONS))
            self._loop.floor.append(self.bare(sink, "rabbitmq", self._address, queues))

    def _declare(self) -> None:
        """A queue has no past: those of both are there before the events are."""
        sink = self.sink()
        with lab.stopping([sink]):
            self.service.start(tuple(subscription(each, sink.port) for each in ("bench", "floor")))
            wait_until(lambda: self.service.running() == 2, "queues", WITHIN, turn=0.2)
            self.service.stop()


def subscription(name: str, port: int) -> dict[str, Any]:
    return {
        "id": name,
        "source": {"broker": "target", "topics": [lab.TOPIC]},
        "start": "earliest",
        "sink": f"http://127.0.0.1:{port}/",
        "concurrency": 64,
        "filters": FILTERS,
    }


def measure(folder: Path, rounds: int, deliveries: int) -> tuple[Sequence[table.Row], list[str]]:
    remarks = [f"{rounds} rounds of {deliveries:,} deliveries."]
    started: list[Any] = []
    makers: dict[str, Callable[..., Way]] = {"Kafka": FromKafka, "RabbitMQ": FromRabbit}
    with lab.stopping(started):
        ways: list[Way] = [FromEmbedded(folder, deliveries)]
        for name, make in makers.items():
            try:
                ways.append(make(folder, deliveries, started))
            except Missing as missing:
                remarks.append(MISSING.format(name, missing))
        for number in range(rounds):
            print(f"delivery, round {number + 1} of {rounds}", file=sys.stderr)
            for way in ways:
                way.round(number)
    return [row for way in ways for row in (*way.rows, way.memory())], remarks
