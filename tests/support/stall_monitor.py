"""A service process that reports how long its event loop was blocked.

A line on standard input asks for the longest block since the last answer, in ms; ``end`` stops the service.
While the thread of the loop waits for a processor that other programs have, the loop does not count as blocked.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from app.runtime.heap import settle_heap
from service import Service

BEAT = 0.001  # seconds
QUEUE = Path("/proc/thread-self/schedstat")
"""The kernel writes here, as the second number, the ns that the thread has waited for a processor."""


class StallMonitor:
    """The client by which a test talks to the process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        _, self.admin, self.events = self._line().split()

    def worst(self) -> float:
        """Return the longest time for which the loop was blocked since the last call, in ms."""
        self._say("worst")
        return float(self._line())

    def end(self) -> None:
        self._say("end")
        self._process.communicate(timeout=120)

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def service_with_stall_monitor(config: Path) -> Iterator[StallMonitor]:
    """Run the service of a configuration until the block ends."""
    with (config.parent / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            service = StallMonitor(process)
            yield service
            service.end()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


async def _serve(config: Path) -> None:
    service = Service(config)
    await service.start()
    settle_heap()
    print("ready", service.admin_url, service.events_url, flush=True)
    await _beat()
    await service.stop()


async def _beat() -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    asked = asyncio.ensure_future(lines.readline())
    worst, last = 0.0, _own_time()
    while True:
        await asyncio.sleep(BEAT)
        now = _own_time()
        worst, last = max(worst, now - last - BEAT), now
        if asked.done():
            if asked.result().strip() != b"worst":
                return
            print(f"{worst * 1000:.1f}", flush=True)
            worst = 0.0
            asked = asyncio.ensure_future(lines.readline())


def _own_time() -> float:
    """Return the time in seconds, without that in which this thread waited for a processor."""
    waited = int(QUEUE.read_text().split()[1]) if QUEUE.exists() else 0
    return time.perf_counter() - waited / 1e9


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))
