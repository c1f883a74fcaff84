"""What a service costs that has little to do: 100 subscriptions without an event, 200 events a second to three webhooks."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from typing import Any

import capacity
import capacity_page
import lab
import logs
import many
import table

from free_ports import free_ports

SUBSCRIPTIONS = 100
RESTING = 0.5  # % of a core
STARTED = 0.3  # seconds of CPU a second: a start takes all of it

PREFACE = f"""## With little to do

{SUBSCRIPTIONS} subscriptions, each with a webhook and a filter, on a log without events; and {capacity_page.EVENTS} events of 1 kB a
second into the embedded log, each to {capacity_page.WEBHOOKS} webhooks. CPU is that of the service's process, as a share of one core.
"""


def at_rest(folder: Path, broker: dict[str, Any], seconds: float) -> float:
    """Per cent of a core, once what the start left to do is done."""
    (port,) = free_ports(1)
    service = lab.Service(folder, broker)
    try:
        many.begin(service, SUBSCRIPTIONS, 0, port)
        many.come_to_rest(service.pid, STARTED)
        return 100 * many.cpu_at_rest(service.pid, seconds)
    finally:
        service.stop()


def measure(folder: Path, rounds: int, seconds: float) -> tuple[list[table.Plain], list[str]]:
    embedded = table.Plain(f"embedded log, {SUBSCRIPTIONS} at rest", "", RESTING, unit="%")
    kafka = table.Plain(f"Kafka, {SUBSCRIPTIONS} at rest", "", RESTING, unit="%")
    busy = f"{capacity_page.EVENTS} events/s, {capacity_page.WEBHOOKS} webhooks"
    steady = table.Plain(busy, "", inf, unit="% of a core")
    highest = table.Plain(f"{busy}, memory", "", inf, unit="MB")
    rows, remarks = [embedded, steady, highest], [f"{rounds} rounds of {seconds:g} s each."]
    with logs.standing("kafka", remarks) as on_kafka:
        if on_kafka:
            rows.insert(1, kafka)
        for number in range(rounds):
            print(f"little to do, round {number + 1} of {rounds}", file=sys.stderr)
            log = {"kind": "embedded", "path": str(folder / f"log-{number}")}
            embedded.measured.append(at_rest(folder / f"embedded-{number}", log, seconds))
            if on_kafka:
                log = on_kafka.broker(folder)
                kafka.measured.append(at_rest(folder / f"kafka-{number}", log, seconds))
            found = capacity.steady(folder / f"steady-{number}", seconds)
            steady.measured.append(100 * found.cores)
            highest.measured.append(found.memory)
    return rows, remarks
