"""HTTP → four logs, each beside a plain floor under the same load; the listener alone; the embedded log to Kafka."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import lab
import logs
import table
from aiokafka import AIOKafkaProducer
from bench_events import BATCH, KEYS, attributes, body
from cost import memory

PREFACE = f"""## HTTP in

Single events, and batches of {BATCH} where a target is set for them, from 64 keep-alive connections, one request in flight on
each: 0.6 kB of JSON in seven header fields, {KEYS:,} keys, {lab.PARTITIONS} partitions, key from the Partitioning extension. RabbitMQ has quorum
queues, persistent messages and confirms. The floors are bare ASGI callables under uvicorn that await the client's ordinary
send, and neither validate nor route. A batch is compared with the floor's single event, for one event of it.
"""
MIRROR_PREFACE = """## Mirror

Events of 10,000 keys from the embedded log to a topic of Kafka, 256 in flight. Microseconds of CPU a copy, from one tenth of
the way to the end. The floor sends as many records of the same size by aiokafka, 256 in flight, and reads and checks
nothing.
"""
HEADINGS = [*table.HEADINGS, "events/s"]
SINGLE = {"embedded": 1.5, "kafka": 0.5, "rabbitmq": 0.35, "pulsar": 1.0}
"""The most that a single event may cost beside the floor of its log (issue 21)."""
BATCHED = {"embedded": 0.35, "kafka": 0.2}
"""The most that an event of a batch may cost beside a single event of the floor."""
LISTENER = 0.9
MIRRORED = 1.5  # the most that a copy may cost beside a plain send
IN_FLIGHT = 256


@dataclass
class Row(table.Row):
    """``rates``: events a second, by the clock."""

    rates: list[float] = field(default_factory=list)

    def add(self, found: lab.Loaded, floor: float, pid: int) -> None:
        self.measured.append(found.cost)
        self.floor.append(floor)
        self.rates.append(found.rate)
        self.memory = str(memory(pid))

    def cells(self) -> list[str]:
        return [*super().cells(), f"{median(self.rates):,.0f}"]


def measure(
    folder: Path, rounds: int, events: int, batches: int
) -> tuple[Sequence[table.Line], list[str]]:
    remarks = [f"{rounds} rounds of {events:,} single events and {batches:,} batches of {BATCH}."]
    rows: list[Row] = []
    for kind in logs.NAMES:
        with logs.standing(kind, remarks) as log:
            if log:
                rows += into(log, folder / kind, rounds, events, batches)
    return rows, remarks


def into(log: logs.Log, folder: Path, rounds: int, events: int, batches: int) -> list[Row]:
    folder.mkdir()
    service = lab.Service(folder / "service", log.broker(folder / "log"))
    single = Row(f"HTTP → {log.name}, single", log.floor_name, SINGLE[log.kind])
    rows, started = [single], list[Any]()
    batch = listener = None
    with lab.stopping(started):
        service.start()
        started.append(service)
        floor = log.floor()
        started.append(floor)
        if log.kind in BATCHED:
            name = f"HTTP → {log.name}, batches of {BATCH}"
            batch = Row(name, "the floor's single event", BATCHED[log.kind])
            rows.append(batch)
        if log.kind == "embedded":
            listener = lab.Server("listener.py")
            started.append(listener)
            alone = Row("HTTP, the listener alone", log.floor_name, LISTENER)
            rows.append(alone)
        for each in started:
            lab.load(each.port, "single", KEYS)  # warm: imports, caches, topics
        for number in range(rounds):
            print(f"HTTP → {log.name}, round {number + 1} of {rounds}", file=sys.stderr)
            found = lab.under_load(service.pid, service.port, "single", events)
            beside = lab.cpu_of_load(floor.pid, floor.port, "single", events)
            single.add(found, beside, service.pid)
            if batch:
                found = lab.under_load(service.pid, service.port, "batch", batches)
                batch.add(found, beside, service.pid)
            if listener:
                found = lab.under_load(listener.pid, listener.port, "single", events)
                alone.add(found, beside, listener.pid)
            log.forget()
    return rows


def mirror(folder: Path, rounds: int, events: int) -> tuple[Sequence[table.Line], list[str]]:
    """A log full of events, copied into the same topic of Kafka each round."""
    remarks = [f"{rounds} rounds of {events:,} copies."]
    row, rates = table.Row("embedded log → Kafka", "bare aiokafka, send alone", MIRRORED), []
    with logs.standing("kafka", remarks) as kafka:
        if kafka is None:
            return [], remarks
        log = {"kind": "embedded", "path": str(folder / "log")}
        service = lab.Service(folder / "service", log, kafka=kafka.broker(folder))
        service.start()
        lab.load(service.port, "single", events)
        service.stop()
        for number in range(rounds):
            print(f"mirror, round {number + 1} of {rounds}", file=sys.stderr)
            there = logs.stored(kafka.address, lab.MIRROR_TOPIC)
            subscription = {
                "id": f"mirror-{number}",
                "source": {"broker": "target", "topics": [lab.TOPIC]},
                "start": "earliest",
                "sink": {"broker": "kafka", "topic": lab.MIRROR_TOPIC},
                "concurrency": IN_FLIGHT,
            }

            def copied(there: int = there) -> int:
                return logs.stored(kafka.address, lab.MIRROR_TOPIC) - there

            found = lab.drain(service, subscription, copied, events, events // 10)
            row.measured.append(found.cost)
            row.floor.append(asyncio.run(plain_send(kafka.address, events)))
            row.memory = str(found.memory)
            rates.append(found.rate)
    return [row], [*remarks, f"Copies a second: {table.spread(rates, 0)}."]


async def plain_send(bootstrap_servers: str, events: int) -> float:
    """Send records of the size of the events, and return the microseconds of CPU of each."""
    records = [(body(number), f"customer-{number:05}".encode()) for number in range(KEYS)]
    headers = [(f"ce_{name}", text.encode()) for name, text in attributes(0).items()]
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True
    )
    await producer.start()
    numbers = iter(range(events))

    async def send_in_turn() -> None:
        for number in numbers:
            content, key = records[number % KEYS]
            await producer.send_and_wait(lab.FLOOR_TOPIC, content, key=key, headers=headers)

    before = process_time()
    await asyncio.gather(*(send_in_turn() for _ in range(IN_FLIGHT)))
    cost = 1e6 * (process_time() - before) / events
    await producer.stop()
    return cost
