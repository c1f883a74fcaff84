"""The page docs/soak.md and its drawing, of what was sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import soak_judge
import table
from soak_house import KEPT, Sample, Sunk
from soak_judge import HOUR, Trend
from soak_picture import picture

LIMIT = 1024.0  # MB of a pod, as the chart has it by default
HEADINGS = ["log", "what", "first", "last", "growth in an hour", "called flat below", ""]
COUNTS = ("tasks", "sockets", "descriptors", "threads")


@dataclass(frozen=True)
class Soaked:
    """One log: the load that was put on it, what became of it, and the samples while it ran.

    ``load``: as ``soak_load.py`` tells it. ``exit``: the code that the service left with on SIGTERM.
    """

    log: str
    rate: float
    carried: float
    load: dict[str, Any]
    sunk: Sunk
    samples: list[Sample]
    cores: float
    exit: int

    @property
    def length(self) -> float:
        return self.samples[-1].at

    @property
    def steady(self) -> list[Sample]:
        times = [each.at for each in self.samples]
        return self.samples[soak_judge.warm(times, self.length) :]

    @property
    def repeats(self) -> float:
        """Attempts made again, an hour."""
        return self.sunk.refused * HOUR / self.load["seconds"]

    def trends(self) -> list[Trend]:
        steady = self.steady
        times = [each.at for each in steady]
        bounds = {
            "memory, MB": ("memory", soak_judge.memory_bound(self.repeats)),
            "blocks of Python": ("blocks", self.repeats),
        }
        count = soak_judge.count_bound(times[-1] - times[0])
        bounds |= {name: (name, count) for name in COUNTS}
        return [
            soak_judge.trend(name, times, [getattr(each, of) for each in steady], bound)
            for name, (of, bound) in bounds.items()
        ]

    def faults(self) -> list[str]:
        """What is not as it has to be; none is a soak that holds."""
        found = [f"{each.name} grows" for each in self.trends() if not each.flat]
        if lost := self.load["acknowledged"] - self.sunk.delivered:
            found.append(f"{lost} events are lost")
        if self.sunk.again:
            found.append(f"{self.sunk.again} events came again")
        if self.exit:
            found.append(f"left with {self.exit}")
        return [f"{self.log}: {each}" for each in found]

    def sentence(self) -> str:
        memory = self.trends()[0]
        return (
            f"{self.load['acknowledged']:,} events in {self.length / 60:.0f} minutes: "
            f"{memory.last:.0f} MB, {memory.hourly:+.2f} MB an hour behind the warm-up"
        )


@dataclass(frozen=True)
class Line:
    """One row of the table of trends."""

    log: str
    trend: Trend

    def cells(self) -> list[str]:
        of = self.trend
        digits = 1 if of.name.startswith("memory") else 0
        return [
            self.log,
            of.name,
            f"{of.first:,.{digits}f}",
            f"{of.last:,.{digits}f}",
            f"{of.hourly:+,.2f}",
            f"{of.bound:,.1f}",
            "flat" if of.flat else "**grows**",
        ]


@dataclass(frozen=True)
class Account:
    of: Soaked

    def cells(self) -> list[str]:
        it, sunk = self.of, self.of.sunk
        lags = [each.lag for each in it.steady]
        return [
            it.log,
            f"{it.rate:,.0f} of {it.carried:,.0f}" if it.carried else f"{it.rate:,.0f}",
            f"{it.load['acknowledged']:,}",
            f"{sunk.delivered:,}",
            f"{sunk.refused:,} ({sunk.refused / max(1, sunk.delivered):.1%})",
            f"{it.load['acknowledged'] - sunk.delivered:,}",
            f"{sunk.again:,}",
            f"{sorted(lags)[len(lags) // 2]:,} / {max(lags):,}",
            f"{it.steady[0].disk:,.0f} / {it.steady[-1].disk:,.0f}",
            f"{it.cores:.2f}",
        ]


ACCOUNT = [
    "log", "events/s", "answered 202", "delivered", "attempts refused and made again", "lost", "came twice",
    "lag, median / most", "MB on the disk, behind the warm-up / at the end", "cores",
]  # fmt: skip


def kept(found: Sequence[Soaked], command: str) -> dict[str, Any]:
    """Everything, for JSON: ``again`` makes the same of it."""
    logs = [{**vars(each), "samples": [s._asdict() for s in each.samples]} for each in found]
    return {"command": command, "machine": table.machine(), "logs": logs}


def again(kept: dict[str, Any]) -> list[Soaked]:
    return [
        Soaked(
            **{
                **each,
                "sunk": Sunk(*each["sunk"]),
                "samples": [Sample(**sample) for sample in each["samples"]],
            }
        )
        for each in kept["logs"]
    ]


def lines(found: Sequence[Soaked]) -> list[Line]:
    return [Line(each.log, trend) for each in found for trend in each.trends()]


def drawing(found: Sequence[Soaked]) -> str:
    return picture(
        [
            (f"on {each.log}", each.sentence(), each.samples, each.length * soak_judge.WARM_UP)
            for each in found
        ]
    )


def page(found: Sequence[Soaked], command: str, picture_name: str, machine: Sequence[str]) -> str:
    faults = [fault for each in found for fault in each.faults()]
    verdict = (
        "**It holds**: nothing grows, every event that was answered 202 was delivered, once."
        if not faults
        else f"**It does not hold**: {'; '.join(faults)}."
    )
    return PAGE.format(
        command=command,
        picture=picture_name,
        verdict=verdict,
        rate=_MEASURED if all(each.carried for each in found) else _GIVEN,
        kept=KEPT,
        trends=table.table(lines(found), HEADINGS),
        accounts=table.table([Account(each) for each in found], ACCOUNT),
        rooms="\n".join(_room(each) for each in found),
        notes="\n".join(f"- {line}" for line in machine),
    )


def _room(it: Soaked) -> str:
    memory = it.trends()[0]
    days = (LIMIT - memory.last) / memory.hourly / 24 if memory.hourly > 0 else math.inf
    when = "never" if days > 3650 else f"after {days:,.0f} days"
    return (
        f"- {it.log}: at this slope a pod of {LIMIT:,.0f} MB, the chart's limit, would be full {when}; "
        f"the slope is {1e6 * memory.hourly / (HOUR * it.rate):.2f} bytes an event."
    )


_GIVEN = "The rate is given by the command."
_MEASURED = """\
The rate is half of what this machine can handle, with its two processors shared by load, webhook and Kafka; if two logs are
tested at the same time, each gets a quarter."""

PAGE = """# Soak: does it stay as it is?

Written by the command below and by nothing else. A service like in a pod, gateway and worker in one process, accepts
events over HTTP, stores them and delivers them to a webhook that refuses the first attempt of three percent of them.

<!-- not run: it runs for half an hour and writes this page -->
```bash
{command}
```

{verdict}

![Memory and counts over time]({picture})

## What grows

First and last are medians of a fifth of the time after the warm-up. The warm-up is the first half, because the heap needs
that long to reach its ceiling, with a log that begins to drop segments after some ten minutes. The growth is the slope of
Theil and Sen: the median of the slopes between all pairs of points. Each point is the lowest of a thirtieth of the samples,
so memory that a burst uses and releases does not count.

{trends}

- **Memory** is what the system counts as resident. It is flat if it grows by less than the smallest object of
  Python (16 bytes) for each retried attempt: then nothing is kept per event, and nothing per failed
  event.
- **Blocks** are allocated by Python's allocator: less than one more for each retried attempt.
- **The others**: less than one more by the end.
{rooms}

## Results of the events

{rate} The log keeps {kept} of each partition and the store 5,000 attempts, so that both delete their oldest entries all the time.

{accounts}

{notes}
"""
