"""One producer at a steady rate, and how long each of its answers took: an open loop as in ``latency_ends``.

Prints one line of JSON: milliseconds from a post to the first byte of its answer at two percentiles, how late the
posts were for want of a CPU (``late``, the 99th percentile), and how many answers had which status.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import threading
import time
from collections import Counter, deque
from statistics import quantiles
from typing import Any

import bench_events
import httptools
import latency_ends
import uvloop


class Asked:
    """``left``: answers that are still to come. What was posted before ``since`` does not count."""

    def __init__(self, count: int, since: int) -> None:
        self._left, self._since = count, since
        self.delays: list[int] = []
        self.lateness: list[int] = []
        self.statuses: Counter[int] = Counter()
        self.all: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def came(self, posted: int, at: int, status: int) -> None:
        if posted >= self._since:
            self.delays.append(at - posted)
            self.statuses[status] += 1
        self._left -= 1
        if self._left == 0:
            self.all.set_result(None)

    def told(self) -> dict[str, Any]:
        cuts = [each / 1e6 for each in quantiles(self.delays, n=100, method="inclusive")]
        late = quantiles(self.lateness, n=100, method="inclusive")[98] / 1e6
        return {"p50": cuts[49], "p99": cuts[98], "late": late, "statuses": dict(self.statuses)}


class Connection:
    """Answers come in the order of the posts."""

    def __init__(self, port: int, asked: Asked) -> None:
        self._asked = asked
        self._posted: deque[int] = deque()
        self._parser = httptools.HttpResponseParser(self)
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)

    def send(self, request: bytes, /) -> int:
        """From the thread that posts."""
        self._posted.append(time.monotonic_ns())
        return self._socket.send(request)

    def _read(self) -> None:
        self._came = time.monotonic_ns()
        data = self._socket.recv(1 << 16)
        if data:
            self._parser.feed_data(data)
        elif not self._asked.all.done():
            self._asked.all.set_exception(RuntimeError("a connection was closed"))

    def on_message_complete(self) -> None:
        self._asked.came(self._posted.popleft(), self._came, self._parser.get_status_code())

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()


async def measure(port: int, key: str, rate: float, seconds: float, warm: float) -> dict[str, Any]:
    """The first ``warm`` seconds do not count."""
    host, count = f"127.0.0.1:{port}", int(rate * (warm + seconds))
    parts = [bench_events.around_id_with(n, host, key) for n in range(bench_events.KEYS)]
    asked = Asked(count, time.monotonic_ns() + int(warm * 1e9))
    connections = [Connection(port, asked) for _ in range(latency_ends.CONNECTIONS)]
    words = (asked.lateness, connections, parts, rate, count)
    try:
        threading.Thread(target=latency_ends.post_all, args=words, daemon=True).start()
        async with asyncio.timeout(warm + seconds + latency_ends.WITHIN):
            await asked.all
    finally:
        for each in connections:
            each.close()
    return asked.told()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", required=True, help="of the producer")
    parser.add_argument("--rate", type=float, required=True, help="events a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm", type=float, default=2.0, help="seconds before, not counted")
    given = parser.parse_args()
    sys.setswitchinterval(latency_ends.SWITCH)
    print(
        json.dumps(
            uvloop.run(measure(given.port, given.key, given.rate, given.seconds, given.warm))
        )
    )


if __name__ == "__main__":
    main()
