"""What a producer that sends far more than its quota costs another: the p99 of the answers to the other one.

The other sends half of what the service can take. Rounds alone and beside alternate.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import Any

import lab
import table

GOOD, GREEDY = "the-key-of-the-good-one", "the-key-of-the-greedy-one"
QUOTA, TIMES = 100, 10  # events a second, and how many times as many it sends
PRODUCERS: list[dict[str, Any]] = [
    {"name": "good", "keys": [GOOD]},
    {"name": "greedy", "keys": [GREEDY], "quota": {"events": f"{QUOTA}/s", "burst": 1000}},
]
ROUNDS = 3
EARLY = 3.0  # seconds that the greedy one begins before what counts, and has its burst behind it


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
    service.start()
    try:
        rate = _capacity(service, events) / 2
        late, refused = [], 0
        for number in range(ROUNDS):
            print(f"isolation of quotas, round {number + 1} of {ROUNDS}", file=sys.stderr)
            alone = _ends(service, GOOD, rate, seconds)
            good, greedy = _beside(service, rate, seconds)
            row.floor.append(_all_taken(alone)["p99"])
            row.measured.append(_all_taken(good)["p99"])
            late += [alone["late"], good["late"]]
            refused += greedy["statuses"].get("429", 0)
    finally:
        service.stop()
    remark = (
        f"Isolation: the good one sends {rate:,.0f} events a second, half of the capacity; of the other one's "
        f"{QUOTA * TIMES:,} a second {refused:,} were refused in all. 99 of 100 posts were at most {max(late):.2f} ms "
        "late for want of a CPU."
    )
    return row, [remark]


def _capacity(service: lab.Service, events: int) -> float:
    """Events a second that it takes; the first load warms it."""
    for _ in range(2):
        found = lab.load(service.port, "single", events, f"--key={GOOD}")
    return float(found["events"] / found["seconds"])


def _beside(service: lab.Service, rate: float, seconds: float) -> tuple[dict[str, Any], ...]:
    words = _words(service, GREEDY, QUOTA * TIMES, seconds + 2 * EARLY)
    greedy = lab.start("steady.py", *words, f"--warm={EARLY}")
    good = _ends(service, GOOD, rate, seconds)
    return good, lab.result_of(greedy)


def _ends(service: lab.Service, key: str, rate: float, seconds: float) -> dict[str, Any]:
    words = _words(service, key, rate, seconds)
    return lab.result_of(lab.start("steady.py", *words, f"--warm={EARLY}"))


def _words(service: lab.Service, key: str, rate: float, seconds: float) -> tuple[str, ...]:
    return f"--port={service.port}", f"--key={key}", f"--rate={rate}", f"--seconds={seconds}"


def _all_taken(found: dict[str, Any]) -> dict[str, Any]:
    if set(found["statuses"]) != {"202"}:
        raise RuntimeError(f"the good one was answered {found['statuses']}")
    return found
