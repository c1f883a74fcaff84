"""What ``run.py`` can measure by itself, each a part of the page of figures, and how much of everything it measures."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import access_alone
import at_rest
import codecs_alone
import console_page
import curve
import curves
import curves_picture
import delivery
import doors
import filters_alone
import footprint
import gateways
import half
import ingress
import kafka_beside
import latency
import many
import pull
import shapes
import spool
import table


@dataclass(frozen=True)
class Size:
    rounds: int
    events: int
    batches: int
    deliveries: int
    codecs: int  # events of one round
    growth: int  # rounds of one beside many subscriptions, of curves and of memory
    many: int  # deliveries of one of them
    beside: int  # rounds of the Kafka listener beside Kafka
    kafka: int  # events of each of their loads
    pulled: int  # events of one round
    seconds: float  # of one round at a steady rate, or at rest
    curves: Mapping[str, Sequence[int]]  # sizes, by name


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
    curves=curves.SIZES,
)
SHORT = Size(
    rounds=1,
    events=1_000,
    batches=20,
    deliveries=1_000,
    codecs=1_000,
    growth=1,
    many=1_000,
    beside=1,
    kafka=2_000,
    pulled=1_000,
    seconds=2.0,
    curves=curves.SHORT,
)


Found = tuple[Sequence[table.Line], list[str]]


@dataclass(frozen=True)
class Part:
    """A part of the page that is measured by itself: rows and remarks. ``name``: of its place in the page.
    ``draw``: its drawing, of the rows, which ``picture`` names beside the page."""

    option: str
    name: str
    help: str
    preface: str
    headings: Sequence[str]
    measure: Callable[[Path, Size], Found]
    picture: str = ""
    draw: Callable[[Sequence[curve.Curve]], str] = curves_picture.picture


PARTS = (
    Part(
        "http",
        "HTTP in",
        "HTTP → four logs, each beside its floor",
        ingress.PREFACE,
        ingress.HEADINGS,
        lambda folder, size: ingress.measure(folder, size.rounds, size.events, size.batches),
    ),
    Part(
        "codecs",
        "codecs",
        "the codecs alone, in seconds",
        codecs_alone.PREFACE,
        codecs_alone.HEADINGS,
        lambda _, size: (codecs_alone.measure(size.rounds, size.codecs), []),
    ),
    Part(
        "filters",
        "filters",
        "filters alone, in seconds",
        filters_alone.PREFACE,
        filters_alone.HEADINGS,
        lambda _, size: (filters_alone.measure(size.rounds, size.codecs), []),
    ),
    Part(
        "half",
        "answers at half",
        "p50 and p99 of answers at half of the capacity",
        half.PREFACE,
        table.PLAIN,
        lambda folder, size: half.measure(folder, size.growth, size.events, size.seconds),
    ),
    Part(
        "footprint",
        "memory and start",
        "memory by role, start-up, help",
        footprint.PREFACE,
        table.PLAIN,
        lambda folder, size: footprint.measure(folder, size.growth, size.events, size.batches),
    ),
    Part(
        "shapes",
        "bodies, connections, TLS",
        "bodies of 0.6, 8 and 60 kB; 16, 64 and 256 connections; TLS",
        shapes.PREFACE,
        ingress.HEADINGS,
        lambda folder, size: shapes.measure(folder, size.growth, size.events),
    ),
    Part(
        "curves",
        "curves",
        "does the cost grow with bodies, connections, routes, subscriptions, topics, a backlog?",
        curves.PREFACE,
        curve.HEADINGS,
        lambda folder, size: curves.measure(folder, size.curves, size.growth, size.many),
        picture=curves.PICTURE,
    ),
    Part(
        "mirror",
        "mirror",
        "embedded log → Kafka",
        ingress.MIRROR_PREFACE,
        table.HEADINGS,
        lambda folder, size: ingress.mirror(folder, size.growth, size.deliveries),
    ),
    Part(
        "spool",
        "spool",
        "an outage of Kafka: how fast the spool drains, and answers before and after",
        spool.PREFACE,
        spool.HEADINGS,
        lambda folder, size: spool.measure(folder, size.growth, size.kafka, size.seconds),
    ),
    Part(
        "subscriptions",
        "many subscriptions",
        "one subscription beside many, in minutes",
        many.PREFACE,
        table.HEADINGS,
        lambda folder, size: many.beside_one(folder, size.growth, size.many),
    ),
    Part(
        "gateways",
        "gateways",
        "two gateways on one port beside one",
        gateways.PREFACE,
        gateways.HEADINGS,
        lambda folder, size: gateways.measure(folder, size.growth, size.events),
    ),
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
    Part(
        "console",
        "the console",
        "bundle, first paint, and what an open overview costs the service",
        console_page.PREFACE,
        table.PLAIN,
        lambda folder, size: console_page.measure(folder, size.growth, size.seconds),
    ),
)


def measured(part: Part, size: Size, command: str, page: Path | None) -> None:
    """Printed, and written in its place of the page, if there is one."""
    others = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="skybridge-bench-") as folder:
        rows, remarks = part.measure(Path(folder), size)
    beside = f"Load average of the machine just before: {others:.1f}; what is above 0 was others"
    remarks.append(f"{beside}, and slows all that is measured.")
    print("", part.name, table.text(rows, part.headings), *remarks, sep="\n")
    if page is None:
        return
    if part.picture:
        page.with_name(part.picture).write_text(part.draw(rows))
    text = table.part(part.preface, rows, part.headings, command, remarks)
    order = [each.name for each in PARTS]
    page.write_text(
        table.with_part(
            page.read_text() if page.exists() else table.PREFACE, part.name, text, order
        )
    )
