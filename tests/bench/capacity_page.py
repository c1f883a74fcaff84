"""The page docs/capacity.md, of what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import table

INWARD = ["to", "data of an event", "CPU µs/event", "events/s of one core", "bytes in the log"]
DAY = 86_400
EVENTS, WEBHOOKS = 200, 3  # of the example: a second, and who wants each of them


@dataclass(frozen=True)
class In:
    """``stored``: bytes of the log's file an event, NaN where the log is not ours."""

    broker: str
    body: int
    cost: float
    stored: float

    def cells(self) -> list[str]:
        stored = "" if math.isnan(self.stored) else f"{self.stored:,.0f}"
        return [
            self.broker, f"{self.body:,} B", f"{self.cost:.0f}", f"{1e6 / self.cost:,.0f}", stored,
        ]  # fmt: skip


@dataclass(frozen=True)
class Out:
    """Microseconds of CPU a delivery; deliveries a second; MB of the process, at most; MB for 1,000 in flight."""

    cost: float
    rate: float
    process: float
    held: float


@dataclass(frozen=True)
class Rows:
    """Bytes of the store's file for one row of each kind, beside the event's own."""

    parked: float
    letter: float
    attempt: float


@dataclass(frozen=True)
class Steady:
    """The example, run: cores, events a second that were taken, MB at the most."""

    cores: float
    rate: float
    memory: float


def page(inward: list[In], out: Out, rows: Rows, steady: Steady) -> str:
    example = next(each for each in inward if each.body == 1_000 and not math.isnan(each.stored))
    notes = "\n".join(f"- {line}" for line in table.machine())
    return PAGE.format(
        inward=table.table(inward, INWARD),
        cost=out.cost,
        rate=out.rate,
        per_core=1e6 / out.cost,
        process=out.process,
        held=out.held,
        parked=rows.parked,
        letter=rows.letter,
        attempt=rows.attempt,
        example=worked(example, out, rows, steady),
        events=EVENTS,
        webhooks=WEBHOOKS,
        steady=steady,
        notes=notes,
    )


def worked(accept: In, out: Out, rows: Rows, steady: Steady) -> str:
    """``EVENTS`` of 1 kB a second to ``WEBHOOKS``, three days of log, one webhook away for an hour."""
    events, webhooks, days, outage = EVENTS, WEBHOOKS, 3, 3_600
    stream = events * (accept.cost + webhooks * out.cost) / 1e6
    disk = events * accept.stored * DAY * days / 1e9
    behind = events * outage
    spare = 1e6 / out.cost - events * webhooks
    drained = (
        f"a core of its own drains it in {behind / spare:,.0f} s"
        if spare > 0
        else "it is never caught up on one core: give the subscription more processes"
    )
    return "\n".join(
        [
            f"| CPU, measured at this rate | **{steady.cores:.2f} cores**; in a full stream, whose events are stored and sent in groups, {events:,} x ({accept.cost:.0f} + {webhooks} x {out.cost:.0f}) µs = {stream:.2f} |",
            f"| disk of the log | {events:,} x {accept.stored:,.0f} B x {days} days = **{disk:,.0f} GB** |",
            f"| memory, measured at this rate | **{steady.memory:.0f} MB** |",
            f"| a webhook that is away for an hour | {behind:,} events wait in the log, none in memory; {drained} |",
            f"| if instead 1 % of its keys are stuck | {behind // 100:,} parked rows = **{behind / 100 * (rows.parked + accept.body) / 1e6:,.0f} MB** of the store |",
        ]
    )


PAGE = """# Capacity: the CPU, memory and disk that an installation needs

The command below writes this page. CPU is that of the service's process; a core is a core of the machine named at the end.
One event is one request, or one delivery; in batches it costs a third ([figures](figures.md)).

<!-- not run: it measures for minutes and writes this page -->
```bash
make capacity ARGS="--write docs/capacity.md"
```

## Accepting events

JSON of the given size in binary mode, six attributes, one event per request, 64 connections.

{inward}

## Delivering

| what | measured |
| --- | --- |
| CPU of one delivery to a webhook that answers at once | {cost:.0f} µs: {per_core:,.0f} a second of one core |
| draining a backlog, 64 at once, the webhook on the same machine | {rate:,.0f} deliveries a second |
| memory of the process meanwhile, at most | {process:.0f} MB |
| memory for 1,000 unanswered deliveries, 0.6 kB each | {held:.1f} MB |

## The store

One row, beside the event itself:

| row | bytes |
| --- | --- |
| a parked event | {parked:,.0f} |
| a dead letter | {letter:,.0f} |
| an attempt (failures only, by default) | {attempt:,.0f} |

## A worked example

{events:,} events of 1 kB a second into the embedded log, {webhooks} webhooks that get all of them, three days of retention. The measured
rate was {steady.rate:,.0f} a second.

| what | needs |
| --- | --- |
{example}

<!-- the example needs: {steady.cores:.2f} cores, {steady.memory:.0f} MB -->
The chart requests at least this for each pod with both roles (`single`), and for gateways and workers together. Its memory
limit leaves room for the bounds of `limits.in_flight_bytes`. Add 50 % for peaks.

{notes}
"""
