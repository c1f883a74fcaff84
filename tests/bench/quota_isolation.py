"""What a producer that sends far more than its quota costs another: the p99 of the answers to the other one.

The other sends half of what the service can take. Rounds alone and beside alternate. Both producers are one process
of little cost (``open_loop``): what is measured is the service.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

import half
import lab
import table

GOOD, GREEDY = "the-key-of-the-good-one", "the-key-of-the-greedy-one"
QUOTA, TIMES = 100, 10  # events a second, and how many times as many it sends
PRODUCERS: list[dict[str, Any]] = [
    {"name": "good", "keys": [GOOD]},
    {"name": "greedy", "keys": [GREEDY], "quota": {"events": f"{QUOTA}/s", "burst": 1000}},
]
ROUNDS = 3
EARLY = (
    3.0  # seconds that both begin before what counts, and the greedy one has its burst behind it
)


class Moved(table.Row):
    """The target bounds the ratio of the medians."""

    @property
    def value(self) -> float:
        return median(self.measured) / median(self.floor)


def measure(folder: Path, events: int, seconds: float) -> tuple[table.Row, list[str]]:
    folder.mkdir()
    log = {"kind": "embedded", "path": str(folder / "log")}
    service = lab.Service(folder / "service", log, producers=PRODUCERS)
    row = Moved(
        "p99 of a producer, beside one that sends ten times its quota", "ms, alone", 1.2, unit="ms"
    )
    found: list[dict[str, Any]] = []
    service.start()
    with lab.stopping([service]):
        rate = half.capacity(service, events, f"--key={GOOD}") * half.HALF
        beside = (f"--greedy-key={GREEDY}", f"--greedy-rate={QUOTA * TIMES}")
        for number in range(ROUNDS):
            print(f"isolation of quotas, round {number + 1} of {ROUNDS}", file=sys.stderr)
            for p99s, more in ((row.floor, ()), (row.measured, beside)):
                found.append(half.steadily(service, rate, seconds, EARLY, f"--key={GOOD}", *more))
                p99s.append(found[-1]["p99"])
    refused = sum(each.get("greedy", {}).get("429", 0) for each in found)
    remark = (
        f"Isolation: the good one sends {rate:,.0f} events a second, half of the capacity; of the other one's "
        f"{QUOTA * TIMES:,} a second, in bundles of ten, {refused:,} were refused in all. {half.sender(found)}, for both "
        "producers."
    )
    return row, [remark]
