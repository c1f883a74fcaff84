"""A report without a lake, for tests of its page. Its names contain hostile text."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import msgspec

from app.pipeline.report import tables
from app.pipeline.report.measures import DELIVERIES, OTHER, SIZES
from app.pipeline.report.run import LakeReport, Totals
from app.pipeline.report.spans import Span

BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
HOSTILE = '<img src="http://example.com/x.png" onerror=alert(1)>'
LONG = "com.example." + "averylongnamewithoutanyblankinit" * 6


def report_made(*, hostile: bool = True) -> LakeReport:
    chance = random.Random(3)
    span = Span(BEGIN, BEGIN + timedelta(hours=24))
    begins = span.bins()
    types = [f"com.example.order.{name}" for name in ("placed", "paid", "sent", "returned")]
    types += (
        [HOSTILE, LONG] if hostile else ["com.example.customer.changed", "org.example.till.opened"]
    )
    sources = [
        f"/shops/{name}/tills/{n}" for n, name in enumerate(("berlin", "oslo", "lima", "pune"))
    ]
    flow, arrivals, by_type, by_source = [], [], [], []
    for at, begin in enumerate(begins):
        day = 600 + 500 * math.sin(at / 8)
        counts = [round(day * chance.uniform(0.8, 1.2) / (n + 1)) for n in range(len(types))]
        by_type += [
            (begin, name, n) for name, n in zip([*types, OTHER], [*counts, 90], strict=True)
        ]
        by_source += [(begin, name, n // 2) for name, n in zip(sources, counts, strict=False)]
        events, twice, bad = sum(counts) + 90, chance.randrange(30), chance.randrange(9) // 3
        flow.append((begin, "main", "orders", events + twice + bad, events, twice, bad))
        if at not in {7, 8, 20}:
            p50 = 0.05 * chance.uniform(0.7, 1.4)
            arrivals.append((begin, events, events - 2, 1, p50, p50 * chance.uniform(5, 60)))
    total = sum(row[4] for row in flow)
    last = begins[-1]
    type_rows = [
        (name, total // (n + 2), 4, BEGIN, last, 0.05, 1.2, 740, 1900 + n)
        for n, name in enumerate(types)
    ]
    made = {
        "types": tables.of("type events sources first last delay_p50 delay_p99 size_p50 size_p99", type_rows),
        "sources": tables.of("source events types", [(name, total // (n + 3), 3) for n, name in enumerate(sources)]),
        "volume_by_type": tables.of("begin type events", by_type),
        "volume_by_source": tables.of("begin source events", by_source),
        "arrivals": tables.of("begin events timed ahead delay_p50 delay_p99", arrivals),
        "flow": tables.of("begin broker topic records events duplicates invalid", flow),
        "invalid": tables.of(
            "verdict rule records first last detail example",
            [
                ("invalid", "missing-attribute", 41, BEGIN, last, "source: is required", "orders/0/17"),
                ("foreign", "no-event", 12, BEGIN, last, "no specversion " + "x" * 200, "orders/1/99"),
            ],
        ),
        "sizes": tables.of(
            "at_least below records",
            [
                (at, below, round(20000 * math.exp(-((n - 6) ** 2) / 3)))
                for n, (at, below) in enumerate(zip(SIZES, [*SIZES[1:], None], strict=True))
            ],
        ),
        "keys": tables.of("key records", [("customer-0", total // 4), *((f"customer-{n}", 900 - n * 30) for n in range(1, 20))]),
        "partitions": tables.of("broker topic partition records", [("main", "orders", n, total // 4 - n * 999) for n in range(4)]),
        "drift": tables.of(
            "type path change before after",
            [
                (types[0], "$.amount", "type changed", "number", "string"),
                (types[0], "$.lines[].gift", "added", "0%", "98%"),
                (types[1], "$.coupon", "nulls", "2%", "61%"),
            ],
        ),
        "schemas": tables.of("type documents path counts"),
        "deliveries": tables.of(
            DELIVERIES,
            [
                ("billing", types[0], 20_000, 19_990, 19_400, 6, 4, 20_950, 0.21, 41.0),
                ("warehouse", types[0], 20_000, 20_000, 19_999, 0, 0, 20_001, 0.08, 0.4),
            ],
        ),
    }  # fmt: skip
    totals = Totals(
        records=sum(row[3] for row in flow), events=total, duplicates=sum(row[5] for row in flow),
        invalid=sum(row[6] for row in flow), waiting=150, keys=4_000, untimed=96, ahead=44,
        delay_p50=0.051, delay_p99=1.31, size_p50=1_020, size_p99=9_100, size_most=700_000,
        size_total=61_000_000,
    )  # fmt: skip
    made["totals"] = tables.of("measure value", msgspec.structs.asdict(totals).items())
    return LakeReport(
        lake="file:///data/lake (skybridge)", made=BEGIN + timedelta(days=2), span=span, totals=totals,
        tables=made, fresh=(types[-1],), successes=True, against=False,
    )  # fmt: skip
