"""``skybridge``, with its event loop watched: how long nothing else could run.

Run instead of ``skybridge``; ``SKYBRIDGE_HOLDS`` names a file. A timer asks to be called each millisecond.
At SIGUSR1 what was seen since the last one is written there, as one object of JSON: ``wall_ms`` and
``cpu_ms``, the longest hold by the clock and by the CPU time of the loop's own thread, and how many there
were of each beyond ``MOST_MS``. The clock also counts what other threads and other processes took.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import in_service

TURN = 0.001
MOST_MS = 5.0


class Watch:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGUSR1, self._tell)
        self._forget()
        self._wait()

    def _forget(self) -> None:
        self._worst = {"wall_ms": 0.0, "cpu_ms": 0.0}
        self._over = {"wall_over": 0, "cpu_over": 0}

    def _wait(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.thread_time()
        self._loop.call_later(TURN, self._tick)

    def _tick(self) -> None:
        self._note("wall", 1e3 * (time.monotonic() - self._wall - TURN))
        self._note("cpu", 1e3 * (time.thread_time() - self._cpu))
        self._wait()

    def _note(self, kind: str, held: float) -> None:
        self._worst[f"{kind}_ms"] = max(held, self._worst[f"{kind}_ms"])
        self._over[f"{kind}_over"] += held > MOST_MS

    def _tell(self) -> None:
        in_service.tell(self._file, {**self._worst, **self._over})
        self._forget()


if __name__ == "__main__":
    in_service.serve_with(lambda: Watch(Path(os.environ["SKYBRIDGE_HOLDS"])))
