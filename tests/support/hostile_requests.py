"""Send many hostile requests at once, and check that each is refused or cut off while memory stays
constant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from corrupted_requests import LIMITS, statuses_after

AT_ONCE = 250
GROWTH = (
    16 << 20
)  # bytes: what an allocator may retain; 90,000 retained requests would be at least 90 MB
BOUNDS: dict[str, Any] = {name: getattr(LIMITS, name) for name in LIMITS.__struct_fields__}
"""The listener's settings under attack: its bounds, with short deadlines."""


async def refuse_all(
    port: int, cases: int, make: Callable[[], bytes], also: Collection[int] = ()
) -> set[int]:
    """Send hostile requests and return their statuses, each of which must be 4xx or in ``also``.

    After the first tenth of the requests the memory of the process must not grow by more than
    ``GROWTH``.

    Args:
        port: The port of the listener.
        cases: The count of requests.
        make: A function that makes one request.
        also: Statuses that are allowed besides 4xx.
    """
    statuses: set[int] = set()
    numbers = iter(range(cases))
    early = 0

    async def send_in_turn() -> None:
        nonlocal early
        for number in numbers:
            case = make()
            found = await statuses_after(port, case, ends=True)
            assert all(400 <= status < 500 or status in also for status in found), (case, found)
            statuses.update(found)
            if number == cases // 10:
                early = _resident()

    await asyncio.gather(*(send_in_turn() for _ in range(AT_ONCE)))
    assert _resident() - early < GROWTH
    return statuses


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [each for each in lines if each.startswith("VmRSS")]
    return int(line.split()[1]) << 10
