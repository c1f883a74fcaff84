"""A process that writes to a store until it is killed, and prints each acknowledged write.

::

    python -m store_writer <file or DSN>

It prints a line when a write has returned: ``letter N``, ``parked N`` or ``offset N``.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

from app.interfaces import Commit, Store
from app.store import open_shared_store, open_store
from store_samples import BROKER, ORDERS, PATIENT, a_letter, a_row

GROUP = "skybridge.shop.billing"


def open_store_at(place: str) -> Store:
    if "://" in place:
        return open_shared_store(place, timeout=PATIENT)
    return open_store(Path(place), timeout=PATIENT)


async def write(place: str) -> None:
    store = open_store_at(place)
    await store.start()
    for n in count():
        await asyncio.gather(
            print_after(f"letter {2 * n}", store.letters.add(a_letter(2 * n))),
            print_after(f"parked {2 * n + 1}", store.parked.park([a_row(2 * n + 1)])),
            print_after(
                f"offset {n}", store.offsets.save_offsets(BROKER, GROUP, 5, {ORDERS: Commit(n)})
            ),
        )


async def print_after(what, work) -> None:  # type: ignore[no-untyped-def]
    await work
    print(what, flush=True)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1]))
