"""How long a sender waits for its 202 at half of what the service can take."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import lab
import logs
import table

MOST = {"embedded": 5.0, "kafka": 10.0}  # ms, the 99th percentile (issue 21)
HALF = 0.5

PREFACE = """## Answers at half of the capacity

Milliseconds from the POST to its answer, single events of 0.6 kB at a steady rate: half of what the same service took
just before from 64 connections in a closed loop. The rate is kept whatever the answers take (open loop). A delay ends
when the kernel of the sender has the answer, so it has no time in it that the sender waited for a CPU.
"""


def capacity(service: lab.Service, events: int, *more: str) -> float:
    """Events a second that it takes; the first load warms it."""
    rates = [lab.under_load(service.pid, service.port, "single", events, *more) for _ in range(3)]
    return median(each.rate for each in rates[1:])


def steadily(
    service: lab.Service, rate: float, seconds: float, warm: float, *more: str
) -> dict[str, Any]:
    """What ``open_loop.py`` tells. Raises RuntimeError for an answer that is not 202."""
    words = (f"--port={service.port}", f"--rate={rate}", f"--seconds={seconds}", f"--warm={warm}")
    found = lab.result_of(lab.start("open_loop.py", *words, *more))
    if set(found["statuses"]) != {"202"}:
        raise RuntimeError(f"answered {found['statuses']}")
    return found


def sender(found: Sequence[dict[str, Any]]) -> str:
    """What the sender itself had to do with the figures."""
    late, cpu = (max(each[name] for each in found) for name in ("late", "cpu"))
    with_it = max(each["p99_due"] for each in found)
    return (
        f"99 of 100 posts were at most {late:.2f} ms late, which is not in the delays (the highest p99 with it: "
        f"{with_it:.1f} ms); the sender used at most {cpu:.0%} of a core"
    )


def measure(
    folder: Path, rounds: int, events: int, seconds: float
) -> tuple[list[table.Plain], list[str]]:
    remarks = [f"{rounds} rounds of {seconds:g} s each, behind 2 s that do not count."]
    rows: list[table.Plain] = []
    for kind, most in MOST.items():
        with logs.standing(kind, remarks) as log:
            if log:
                service = lab.Service(folder / kind, log.broker(folder / f"{kind}-log"))
                service.start()
                with lab.stopping([service]):
                    found, remark = _at_half(service, log.name, rounds, events, seconds)
                half = table.Plain(f"{log.name}, p50", "", float("inf"), unit="ms")
                top = table.Plain(f"{log.name}, p99", "", most, unit="ms")
                half.measured += [each["p50"] for each in found]
                top.measured += [each["p99"] for each in found]
                rows += [half, top]
                remarks.append(remark)
    return rows, remarks


def _at_half(
    service: lab.Service, name: str, rounds: int, events: int, seconds: float
) -> tuple[list[dict[str, Any]], str]:
    most = capacity(service, events)
    found = []
    for number in range(rounds):
        print(f"{name} at half, round {number + 1} of {rounds}", file=sys.stderr)
        found.append(steadily(service, most * HALF, seconds, 2.0))
    highest = max(each["most"] for each in found)
    return found, (
        f"{name}: {most * HALF:,.0f} events a second, half of {most:,.0f}; the slowest answer took {highest:.1f} ms; "
        f"{sender(found)}."
    )
