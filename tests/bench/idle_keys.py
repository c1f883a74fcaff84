"""What keys cost that wait: ``python tests/bench/idle_keys.py [100000]`` prints the memory of this process
before and after so many parked keys are loaded from a real store, and after as many more lanes hold.

Bound (issue 6): 100,000 idle keys cost no more than 100 MB.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tempfile
import time
from pathlib import Path

from app.bindings.record import Record
from app.delivery.lane_id import lane_id
from app.delivery.parked_lanes import ParkedLanes
from app.interfaces import Parked
from app.model.message import Message, Partition
from app.store import open_store

PARTITIONS = 8
AT_ONCE = 1_000
BOUND_MB = 100.0


def resident_mb() -> float:
    """Now, not at its highest."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def a_row(number: int) -> Parked:
    partition = Partition("orders", number % PARTITIONS)
    key = b"customer-%012d" % number
    record = Record(key, (("ce_id", b"%d" % number),), b"x" * 100)
    message = Message(record, partition, str(number), number, 0, 1)
    lane = lane_id(key, None, partition, str(number))
    return Parked(
        subscription="billing", broker="log", message=message, lane=lane, due_ms=10**15, at_ms=1
    )


async def measure(keys: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "store.db")
        await store.start()
        for first in range(0, keys, AT_ONCE):
            await store.parked.park([a_row(n) for n in range(first, first + AT_ONCE)])
        gc.collect()
        before, began = resident_mb(), time.perf_counter()
        lanes = ParkedLanes()
        partitions = [Partition("orders", number) for number in range(PARTITIONS)]
        found = await store.parked.lanes("billing", "log", partitions)
        for partition, kept in found.items():
            for key, lane in kept.items():
                lanes.count(lanes.park(key, partition, float(lane.due_ms)), lane.rows)
        took = time.perf_counter() - began
        del found
        gc.collect()
        after = resident_mb()
        assert len(lanes) == keys, "not all were loaded"
        await store.stop()
    print(f"{keys} parked keys: {after - before:.1f} MB ({before:.0f} to {after:.0f}), "
          f"loaded in {took:.2f} s, {(after - before) * 1e6 / keys:.0f} bytes a key")  # fmt: skip
    return after - before


def main() -> int:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    cost = asyncio.run(measure(keys))
    return 0 if cost <= BOUND_MB * keys / 100_000 else 1


if __name__ == "__main__":
    sys.exit(main())
