"""What ``run.py`` can measure by itself, each a part of the page of figures, and how much of everything it measures."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import access_alone
import at_rest
import delivery
import doors
import kafka_beside
import latency
import pull
import table


@dataclass(frozen=True)
class Size:
    rounds: int
    events: int
    batches: int
    deliveries: int
    codecs: int  # events of one round
    growth: int  # rounds of one beside many subscriptions
    many: int  # deliveries of one of them
    beside: int  # rounds of the Kafka listener beside Kafka
    kafka: int  # events of each of their loads
    pulled: int  # events of one round
    seconds: float  # of one round at a steady rate, or at rest


FULL = Size(
    rounds=5,
    events=40_000,
    batches=1_000,
    deliveries=30_000,
    codecs=10_000,
    growth=3,
    many=20_000,
    beside=3,
    kafka=60_000,
    pulled=20_000,
    seconds=30.0,
)
SHORT = Size(
    rounds=2,
    events=6_000,
    batches=100,
    deliveries=5_000,
    codecs=2_000,
    growth=1,
    many=5_000,
    beside=1,
    kafka=10_000,
    pulled=4_000,
    seconds=5.0,
)


Found = tuple[Sequence[table.Line], list[str]]


@dataclass(frozen=True)
class Part:
    """A part of the page that is measured by itself: rows and remarks. ``name``: of its place in the page."""

    option: str
    name: str
    help: str
    preface: str
    headings: Sequence[str]
    measure: Callable[[Path, Size], Found]


PARTS = (
    Part(
        "delivery",
        "delivery",
        "log → webhook, three logs, in minutes",
        delivery.PREFACE,
        table.HEADINGS,
        lambda folder, size: delivery.measure(folder, size.rounds, size.deliveries),
    ),
    Part(
        "pull",
        "pulled events",
        "log → pull queue → acknowledged",
        pull.PREFACE,
        table.HEADINGS,
        lambda folder, size: pull.measure(folder, size.rounds, size.pulled),
    ),
    Part(
        "latency",
        "latency",
        "POST to delivery at 1,000 events a second",
        latency.PREFACE,
        table.PLAIN,
        lambda folder, size: latency.measure(folder, size.rounds, size.seconds),
    ),
    Part(
        "idle",
        "little to do",
        "with little to do",
        at_rest.PREFACE,
        table.PLAIN,
        lambda folder, size: at_rest.measure(folder, size.growth, size.seconds),
    ),
    Part(
        "doors",
        "doors",
        "producers, quotas, deduplicate, schema, intakes: each beside none",
        doors.PREFACE,
        table.HEADINGS,
        lambda folder, size: doors.measure(folder, size.rounds, size.events, size.seconds),
    ),
    Part(
        "access",
        "the door alone",
        "the door of the events listener alone, in seconds",
        access_alone.PREFACE,
        table.PLAIN,
        lambda folder, size: (access_alone.measure(folder, size.rounds, size.codecs), []),
    ),
    Part(
        "kafka-listener",
        "the Kafka listener",
        "it beside Kafka itself, in minutes",
        kafka_beside.PREFACE,
        kafka_beside.HEADINGS,
        lambda folder, size: kafka_beside.measure(folder, size.beside, size.kafka),
    ),
)


def measured(part: Part, size: Size, command: str) -> str:
    """Printed, and returned as a part of the page."""
    others = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="skybridge-bench-") as folder:
        rows, remarks = part.measure(Path(folder), size)
    beside = f"Load average of the machine just before: {others:.1f}; what is above 0 was others"
    remarks.append(f"{beside}, and slows all that is measured.")
    print(table.text(rows, part.headings), *remarks, sep="\n")
    return table.part(part.preface, rows, part.headings, command, remarks)
