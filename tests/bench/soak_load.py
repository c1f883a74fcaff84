"""Load at a steady rate for a time: numbered events, each posted until it is answered 202.

``--rate 0``: as fast as they are taken. Prints one line of JSON: how many were acknowledged, how many times a 503
had to be repeated, how far the service was behind at its worst (events that were due and found no connection).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import deque

import bench_events
import uvloop
from load import content_length

TURN = 0.01
CONNECTIONS = 32


class Load:
    def __init__(self, host: str, rate: float, seconds: float, body: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._host = host
        self._rate, self._seconds = rate, seconds
        self._began = self._loop.time()
        keys = range(bench_events.KEYS)
        self._parts = [bench_events.around_id(number, host, body) for number in keys]
        self._begun = 0
        self._idle: deque[Connection] = deque()
        self._opening: set[asyncio.Task[None]] = set()
        self.acknowledged = self.repeated = self.behind = 0
        self.done: asyncio.Future[float] = self._loop.create_future()

    @property
    def _due(self) -> int:
        passed = self._loop.time() - self._began
        if self._rate:
            return int(self._rate * min(passed, self._seconds))
        return sys.maxsize if passed < self._seconds else self._begun

    def turn(self) -> None:
        due = self._due
        while self._idle and self._begun < due:
            self._idle.popleft().send(self._next())
        if self._rate:
            self.behind = max(self.behind, due - self._begun)
        passed = self._loop.time() - self._began
        if passed < self._seconds or self.acknowledged < due:
            self._loop.call_later(TURN, self.turn)
        elif not self.done.done():
            self.done.set_result(passed)

    def _next(self) -> bytes:
        number = self._begun
        self._begun += 1
        before, after = self._parts[number % len(self._parts)]
        return b"%b%d%b" % (before, number, after)

    def free(self, connection: Connection) -> None:
        if self._begun < self._due:
            connection.send(self._next())
        else:
            self._idle.append(connection)

    async def open(self, request: bytes = b"") -> None:
        """Open a connection. It begins with ``request``, if there is one."""
        host, _, port = self._host.rpartition(":")
        await self._loop.create_connection(lambda: Connection(self, request), host, int(port))

    def replace(self, request: bytes = b"") -> None:
        """Open a connection in place of one that the service has ended."""
        opening = self._loop.create_task(self.open(request))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    def lost(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


class Connection(asyncio.Protocol):
    def __init__(self, load: Load, request: bytes = b"") -> None:
        self._load = load
        self._request = request
        self._received = b""
        self._is_over = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvloop
        self._transport = transport
        if self._request:
            self.send(self._request)
        else:
            self._load.free(self)

    def send(self, request: bytes) -> None:
        self._request = request
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end or len(rest) < content_length(head):
            return
        self._received = b""
        if b"connection: close" in head:
            self._is_over = True
            self._transport.close()
        if head.startswith(b"HTTP/1.1 202"):
            self._load.acknowledged += 1
            self._load.replace() if self._is_over else self._load.free(self)
        elif head.startswith(b"HTTP/1.1 503"):
            self._load.repeated += 1
            again = self._load.replace if self._is_over else self.send
            again(self._request)
        else:
            self._load.lost(f"unexpected answer {head!r}")

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_over:
            self._load.lost(f"connection lost: {error}")


async def drive(port: int, rate: float, seconds: float, body: int) -> dict[str, float]:
    load = Load(f"127.0.0.1:{port}", rate, seconds, body)
    for _ in range(CONNECTIONS):
        await load.open()
    load.turn()
    took = await load.done
    return {
        "acknowledged": load.acknowledged,
        "repeated": load.repeated,
        "behind": load.behind,
        "seconds": took,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="events a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--body", type=int, default=bench_events.BODY_SIZE, help="bytes")
    given = parser.parse_args()
    print(json.dumps(uvloop.run(drive(given.port, given.rate, given.seconds, given.body))))


if __name__ == "__main__":
    main()
