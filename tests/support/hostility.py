"""Hostile requests, many at once: each is refused or cut off, and memory stays flat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from wounded import LIMITS, sent

AT_ONCE = 250
GROWTH = 16 << 20  # bytes: what an allocator may keep; 90,000 kept requests would be 90 MB and more
BOUNDS: dict[str, Any] = {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}
"""For the listener that is attacked: short deadlines."""


async def refused(
    port: int, cases: int, make: Callable[[], bytes], also: Collection[int] = ()
) -> set[int]:
    """The statuses of so many requests, all of them 4xx or in ``also``. The first tenth may take memory, the rest may not."""
    statuses: set[int] = set()
    early, rounds = 0, cases // AT_ONCE
    for number in range(rounds):
        sendings = [make() for _ in range(AT_ONCE)]
        answers = await asyncio.gather(*(sent(port, each, ends=True) for each in sendings))
        for case, found in zip(sendings, answers, strict=True):
            assert all(400 <= status < 500 or status in also for status in found), (case, found)
            statuses.update(found)
        if number == rounds // 10:
            early = _resident()
    assert _resident() - early < GROWTH
    return statuses


def _resident() -> int:
    """Bytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [each for each in lines if each.startswith("VmRSS")]
    return int(line.split()[1]) << 10
