"""Both ends of the journey in one process, by one clock: events are posted on schedule, and their deliveries received.

Open loop: an event is posted when it is due, whatever became of those before it, on the next of 64 connections; a
connection that would make it wait is an error. Its id is the moment it was posted, in nanoseconds of the monotonic
clock, and its delay ends with the first byte of the delivery. Prints one line of JSON: milliseconds at some
percentiles, and how late the posts were for want of a CPU (``late``, the 99th percentile).

``--port`` and ``--sink`` may be the same: then it posts to itself, which is what the clock adds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Sequence
from itertools import cycle
from statistics import quantiles
from typing import Protocol

import bench_events
import httptools
import receiving
import uvloop

CONNECTIONS = 64
WITHIN = 60.0  # seconds that the last delivery may take
SWITCH = 1e-4  # seconds that the loop may keep the interpreter from the thread that posts
Around = tuple[bytes, bytes]  # a request, before and behind its id
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"


class Ends:
    """``delays``: nanoseconds, of events posted from ``since`` on. ``all``: every one has come."""

    def __init__(self, count: int, since: int) -> None:
        self._count, self._since = count, since
        self.delays: list[int] = []
        self.lateness: list[int] = []
        self.all: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def came(self, posted: int, at: int) -> None:
        if posted >= self._since:
            self.delays.append(at - posted)
        self._count -= 1
        if self._count == 0:
            self.all.set_result(None)

    def told(self) -> dict[str, float]:
        cuts = [each / 1e6 for each in quantiles(self.delays, n=100, method="inclusive")]
        late = quantiles(self.lateness, n=100, method="inclusive")[98] / 1e6
        most = max(self.delays) / 1e6
        return {"p50": cuts[49], "p99": cuts[98], "most": most, "late": late}

    def fail(self, why: str) -> None:
        if not self.all.done():
            self.all.set_exception(RuntimeError(why))


class Delivered(receiving.Receiver):
    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._came = self._begun = self._posted = 0

    def data_received(self, data: bytes) -> None:
        self._came = time.monotonic_ns()
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._begun = self._came

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"ce-id":
            self._posted = int(value)

    def on_message_complete(self) -> None:
        self._transport.write(TAKEN)
        self._ends.came(self._posted, self._begun)


class Answers:
    """What comes back on one connection that events are posted on: nothing but success."""

    def __init__(self, ends: Ends, posting: socket.socket) -> None:
        self._ends, self._posting = ends, posting
        self._parser = httptools.HttpResponseParser(self)

    def read(self) -> None:
        data = self._posting.recv(1 << 16)
        if data:
            self._parser.feed_data(data)
        else:
            self._ends.fail("a connection was closed")

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() not in {202, 204}:
            self._ends.fail(f"answered {self._parser.get_status_code()}")


def answers_to(posting: socket.socket, ends: Ends) -> None:
    posting.setblocking(False)
    posting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    read = Answers(ends, posting).read
    asyncio.get_running_loop().add_reader(posting.fileno(), read)


class Sending(Protocol):
    """A socket, or what notes what goes through it."""

    def send(self, request: bytes, /) -> int: ...


def post_all(
    lateness: list[int],
    connections: Sequence[Sending],
    parts: Sequence[Around],
    rate: float,
    count: int,
) -> None:
    """In a thread of its own, for the loop's timers know milliseconds only. ``lateness``: nanoseconds, is filled."""
    begun, turn = time.monotonic_ns(), cycle(connections)
    for number in range(count):
        due = begun + int(number * 1e9 / rate)
        before, after = parts[number % len(parts)]
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        now = time.monotonic_ns()
        request = b"%b%d%b" % (before, now, after)
        if next(turn).send(request) < len(request):
            raise BlockingIOError("the service does not read what is posted")
        lateness.append(now - due)


async def measure(
    port: int, sink: int, rate: float, seconds: float, warm: float
) -> dict[str, float]:
    """The first ``warm`` seconds do not count."""
    count, keys = int(rate * (warm + seconds)), range(bench_events.KEYS)
    parts = [bench_events.around_id(number, f"127.0.0.1:{port}") for number in keys]
    ends = Ends(count, time.monotonic_ns() + int(warm * 1e9))
    receiver = await receiving.listen(sink, lambda: Delivered(ends))
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        for each in connections:
            answers_to(each, ends)
        words = (ends.lateness, connections, parts, rate, count)
        threading.Thread(target=post_all, args=words, daemon=True).start()
        async with asyncio.timeout(warm + seconds + WITHIN):
            await ends.all
    finally:
        receiver.close()
        for each in connections:
            asyncio.get_running_loop().remove_reader(each.fileno())
            each.close()
    return ends.told()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True, help="where events are posted")
    parser.add_argument("--sink", type=int, required=True, help="where deliveries come")
    parser.add_argument("--rate", type=float, required=True, help="events a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm", type=float, default=2.0, help="seconds before, not counted")
    given = parser.parse_args()
    sys.setswitchinterval(SWITCH)
    found = measure(given.port, given.sink, given.rate, given.seconds, given.warm)
    print(json.dumps(uvloop.run(found)))


if __name__ == "__main__":
    main()
