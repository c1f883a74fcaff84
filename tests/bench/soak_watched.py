"""``skybridge``, which writes each second how many tasks its loop has and how many blocks Python has given out.

Run instead of ``skybridge``; ``SKYBRIDGE_COUNTS`` names the file. Nobody sees these from outside the process. A
block is what Python's allocator gives out (sys.getallocatedblocks): their number grows by what is kept, and not by
how the heap is cut up.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import app.runtime.run as running
from app.cli import main

TURN = 1.0


class Counts:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._tell()

    def _tell(self) -> None:
        tasks, blocks = len(asyncio.all_tasks(self._loop)), sys.getallocatedblocks()
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps({"tasks": tasks, "blocks": blocks}))
        fresh.replace(self._file)
        self._loop.call_later(TURN, self._tell)


settle_heap = running.settle_heap


def settle_and_count() -> None:
    settle_heap()
    Counts(Path(os.environ["SKYBRIDGE_COUNTS"]))


running.settle_heap = settle_and_count

if __name__ == "__main__":
    main()
