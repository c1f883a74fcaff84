"""``skybridge``, which writes each second how many tasks its loop has and how many blocks Python has given out.

Run instead of ``skybridge``; ``SKYBRIDGE_COUNTS`` names the file. Nobody sees these from outside the process. A
block is what Python's allocator gives out (sys.getallocatedblocks): their number grows by what is kept, and not by
how the heap is cut up.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import in_service

TURN = 1.0


class Counts:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._tell()

    def _tell(self) -> None:
        tasks, blocks = len(asyncio.all_tasks(self._loop)), sys.getallocatedblocks()
        in_service.tell(self._file, {"tasks": tasks, "blocks": blocks})
        self._loop.call_later(TURN, self._tell)


if __name__ == "__main__":
    in_service.serve_with(lambda: Counts(Path(os.environ["SKYBRIDGE_COUNTS"])))
