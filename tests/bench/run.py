"""``make bench``: what one event costs, beside plain floors measured in the same run.

CPU time of the service process, not wall time. Rounds of the service and of its floor alternate, so
that a busy machine disturbs both alike. Nothing here is a test: a missed target is printed.

::

    python tests/bench/run.py                            five rounds
    python tests/bench/run.py --short                    does it work? under a minute
    python tests/bench/run.py --codecs                   the codecs alone, in seconds
    python tests/bench/run.py --filters                  filters alone, in seconds
    python tests/bench/run.py --subscriptions            one beside many, in minutes
    python tests/bench/run.py --gateways                 two on one port beside one
    python tests/bench/run.py --delivery                 log → webhook, three logs, in minutes
    python tests/bench/run.py --pull                     log → pull queue → acknowledged
    python tests/bench/run.py --idle                     with little to do
    python tests/bench/run.py --latency                  POST to delivery at 1,000 events a second
    python tests/bench/run.py --doors                    producers, quotas, deduplicate, schema, intakes
    python tests/bench/run.py --access                   the door of the events listener alone, in seconds
    python tests/bench/run.py --kafka-listener           it beside Kafka itself, in minutes
    python tests/bench/run.py --write docs/figures.md    also as a page; with one of the last seven its part
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import codecs_alone
import filters_alone
import gateways
import lab
import many
import table
from bench_events import BATCH, KEYS
from cost import cpu_seconds, memory
from parts import FULL, PARTS, SHORT, Size, measured

from kafka_install import Missing
from kafka_server import KafkaServer
from service_process import until

DELIVERED_WITHIN = 120.0


class Bench:
    """Everything that was started, and the rows measured so far."""

    def __init__(self, size: Size, folder: Path) -> None:
        self.size = size
        self.folder = folder
        self.started: list[Any] = []
        self.remarks: list[str] = []
        self._rounds: list[Callable[[], None]] = []
        self.rows: list[table.Row] = []

    def keep(self, part: Any) -> Any:
        self.started.append(part)
        return part

    def prepare_embedded(self) -> None:
        service = self._service("embedded", {"kind": "embedded", "path": str(self.folder / "log")})
        floor = self.keep(lab.Server("floors.py", "nothing"))
        single = self._row("HTTP → embedded log, single", "bare ASGI, stores nothing", 1.2)
        batch = self._row("HTTP → embedded log, batches of 100", "", 15)
        self._ingress(service, floor, single, batch)
        self._listener_alone(floor)

    def prepare_kafka(self) -> None:
        server = KafkaServer(brief=False)
        try:
            server.start()
        except Missing as missing:
            self.remarks.append(f"Kafka was not measured: {missing}")
            return
        self.keep(server)
        lab.create_topics(server.bootstrap_servers)
        broker = {"kind": "kafka", "bootstrap_servers": server.bootstrap_servers}
        service = self._service("kafka", broker)
        arguments = (
            f"--bootstrap-servers={server.bootstrap_servers}",
            f"--topic={lab.FLOOR_TOPIC}",
        )
        floor = self.keep(lab.Server("floors.py", "kafka", *arguments))
        single = self._row("HTTP → Kafka, single", "bare ASGI, await producer.send", 0.8)
        batch = self._row("HTTP → Kafka, batches of 100", "", 15)
        self._ingress(service, floor, single, batch)
        self._prepare_mirror(broker)

    def measure_growth(self) -> None:
        """One subscription beside many: rounds of its own, for each takes a minute."""
        log = {"kind": "embedded"}
        growths = [many.Growth("embedded log", log, self.folder, many.EMBEDDED)]
        server = KafkaServer(brief=False)
        try:
            server.start()
        except Missing as missing:
            self.remarks.append(f"Many subscriptions were not measured on Kafka: {missing}")
        else:
            self.keep(server)
            lab.create_topics(server.bootstrap_servers)
            kafka = {"kind": "kafka", "bootstrap_servers": server.bootstrap_servers}
            growths.append(many.Growth("Kafka", kafka, self.folder, many.KAFKA))
        for number in range(self.size.growth):
            print(f"many subscriptions, {number + 1} of {self.size.growth}", file=sys.stderr)
            for growth in growths:
                growth.round(self.size.many)
        for growth in growths:
            self.rows += growth.rows
            self.remarks += growth.remarks[-len(growth.rows) :]

    def _prepare_mirror(self, broker: dict[str, Any]) -> None:
        """A log full of events of 10,000 keys, copied into the same topic of Kafka each round."""
        path = {"kind": "embedded", "path": str(self.folder / "mirrored")}
        service = lab.Service(self.folder / "mirror", path, kafka=broker)
        service.start()
        lab.load(service.port, "single", self.size.deliveries)
        service.stop()
        row = self._row("embedded log → Kafka, a mirror", "", 60)
        address = str(broker["bootstrap_servers"])
        self._rounds.append(lambda: self._mirror_round(service, address, row))

    def run(self) -> None:
        for number in range(self.size.rounds):
            print(f"round {number + 1} of {self.size.rounds}", file=sys.stderr)
            for measure in self._rounds:
                measure()

    def _service(self, name: str, broker: dict[str, Any]) -> lab.Service:
        service = lab.Service(self.folder / name, broker)
        service.start()
        return self.keep(service)

    def _row(self, name: str, floor: str, most: float) -> table.Row:
        self.rows.append(table.Row(name, floor, most))
        return self.rows[-1]

    def _listener_alone(self, floor: lab.Server) -> None:
        listener = self.keep(lab.Server("listener.py"))
        row = self._row("HTTP, the listener alone", "bare ASGI, stores nothing", 0.9)
        lab.load(listener.port, "single", KEYS)  # warm

        def measure() -> None:
            events = self.size.events
            row.measured.append(lab.cpu_of_load(listener.pid, listener.port, "single", events))
            row.floor.append(lab.cpu_of_load(floor.pid, floor.port, "single", events))
            row.memory = memory_of(listener.pid)

        self._rounds.append(measure)

    def _ingress(
        self, service: lab.Service, floor: lab.Server, single: table.Row, batch: table.Row
    ) -> None:
        lab.load(service.port, "single", KEYS)  # warm: imports, caches, topics
        lab.load(floor.port, "single", KEYS)

        def measure() -> None:
            events, batches = self.size.events, self.size.batches
            single.measured.append(lab.cpu_of_load(service.pid, service.port, "single", events))
            single.floor.append(lab.cpu_of_load(floor.pid, floor.port, "single", events))
            single.memory = memory_of(service.pid)
            batch.measured.append(lab.cpu_of_load(service.pid, service.port, "batch", batches))
            batch.memory = memory_of(service.pid)

        self._rounds.append(measure)

    def _mirror_round(self, service: lab.Service, address: str, row: table.Row) -> None:
        """Microseconds a copy, counted from one tenth of the way to the end, and how many a second."""
        subscription = {
            "id": f"mirror-{len(row.measured)}",
            "source": {"broker": "target", "topics": [lab.TOPIC]},
            "start": "earliest",
            "sink": {"broker": "kafka", "topic": lab.MIRROR_TOPIC},
            "concurrency": 256,
        }

        def copied() -> int:
            return lab.stored(address, lab.MIRROR_TOPIC) - there

        total, there = self.size.deliveries, lab.stored(address, lab.MIRROR_TOPIC)
        service.start((subscription,))
        try:
            until(lambda: copied() >= total // 10, DELIVERED_WITHIN, "first copies")
            begun, first, before = time.monotonic(), copied(), cpu_seconds(service.pid)
            until(lambda: copied() >= total, DELIVERED_WITHIN, "all copies")
            row.memory = memory_of(service.pid)
            row.measured.append(1e6 * (cpu_seconds(service.pid) - before) / (total - first))
            rate = (total - first) / (time.monotonic() - begun)
            self.remarks.append(f"A mirror of 256 in flight: {rate:,.0f} events a second.")
        finally:
            service.stop()


def memory_of(pid: int) -> str:
    used = memory(pid)
    return f"{used.now:.0f}/{used.peak:.0f}"


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--codecs", action="store_true", help="the codecs alone, in seconds")
    parser.add_argument("--filters", action="store_true", help="filters alone, in seconds")
    parser.add_argument("--subscriptions", action="store_true", help="one beside many, in minutes")
    parser.add_argument("--gateways", action="store_true", help="two on one port beside one")
    for part in PARTS:
        parser.add_argument(f"--{part.option}", action="store_true", help=part.help)
    parser.add_argument("--short", action="store_true", help="does it work? under a minute")
    parser.add_argument("--write", type=Path, help="write the page of figures here")
    parser.add_argument("--json", type=Path, help="write every round here")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    options = options_of(arguments)
    size = SHORT if options.short else FULL
    if options.codecs:
        print(table.text(codecs_alone.measure(size.rounds, size.codecs), codecs_alone.HEADINGS))
        return
    if options.gateways:
        with tempfile.TemporaryDirectory(prefix="skybridge-bench-") as folder:
            rows = gateways.measure(Path(folder), (1, 2), size.rounds, size.events)
        print(table.text(rows, gateways.HEADINGS))
        return
    if options.filters:
        print(table.text(filters_alone.measure(size.rounds, size.codecs), filters_alone.HEADINGS))
        return
    command = 'make bench ARGS="' + " ".join(arguments) + '"'
    if chosen := [part for part in PARTS if vars(options)[part.option.replace("-", "_")]]:
        for part in chosen:
            text = measured(part, size, command)
            if options.write:
                page = table.with_part(options.write.read_text(), part.name, text)
                options.write.write_text(page)
        return
    with tempfile.TemporaryDirectory(prefix="skybridge-bench-") as folder:
        bench = Bench(size, Path(folder))
        if options.subscriptions:
            with lab.stopping(bench.started):
                bench.measure_growth()
            print(table.text(bench.rows), *bench.remarks, sep="\n")
            return
        with lab.stopping(bench.started):
            bench.prepare_embedded()
            bench.prepare_kafka()
            bench.run()
        with lab.stopping(bench.started):
            bench.measure_growth()
    bench.remarks.append(
        f"{size.rounds} rounds of {size.events:,} single events, {size.batches:,} batches of "
        f"{BATCH} and {size.deliveries:,} copies."
    )
    codecs = codecs_alone.measure(size.rounds, size.codecs)
    print(table.text(bench.rows), "", "codecs", sep="\n")
    print(table.text(codecs, codecs_alone.HEADINGS), *bench.remarks, sep="\n")
    if options.json:
        options.json.write_text(
            json.dumps([asdict(row) for row in (*bench.rows, *codecs)], indent=2)
        )
    if options.write:
        page = table.markdown(bench.rows, codecs, codecs_alone.HEADINGS, command, bench.remarks)
        for part in PARTS:
            page = table.with_part(page, part.name, measured(part, size, command))
        options.write.write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
