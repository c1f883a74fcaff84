"""Producers at a steady rate in one cheap process, and how long each answer to the first of them took.

Open loop: an event is posted when it is due, whatever became of those before it, on a connection that waits for
nothing, or, where all 64 wait, behind another event. A delay begins when the event is handed to the kernel and ends
when the kernel has the answer (SO_TIMESTAMPNS, socket(7)): time that this process waited for a CPU is in neither.
How late the posts were for that reason is told apart (``late``), and what the p99 is with it (``p99_due``).

A second producer, ``--greedy-rate`` events a second, sends bundles of pipelined requests, and is only counted. Requests
are encoded beforehand. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import select
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import cycle
from statistics import quantiles
from typing import Any, NamedTuple

import bench_events
from load import length_of_answer

CONNECTIONS, GREEDY_CONNECTIONS = 64, 4
BUNDLES = 100  # of the greedy one, a second
WITHIN = 60.0  # seconds that the last answer may take
SHORTEST = 1e-4  # seconds between two looks at the clock
_TIMESTAMPNS = 35  # SO_TIMESTAMPNS, and the kind of the message that brings it
_STAMP = struct.Struct("qq")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Timer:
    """A descriptor that becomes readable each ``every`` seconds (timerfd_create(2)); epoll's own time-outs know
    milliseconds only."""

    def __init__(self, every: float) -> None:
        self.descriptor = _LIBC.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        seconds, rest = divmod(int(every * 1e9), 10**9)
        spec = struct.pack("4q", seconds, rest, seconds, rest)
        _LIBC.timerfd_settime(self.descriptor, 0, spec, None)

    def passed(self) -> None:
        os.read(self.descriptor, 8)

    def close(self) -> None:
        os.close(self.descriptor)


class Answer(NamedTuple):
    """When its request was due, when it was posted, and when the answer came: nanoseconds of the clock of the
    kernel's stamps."""

    due: int
    posted: int
    came: int
    status: int


class Connection:
    """Answers come in the order of the posts; ``status_endpoint`` has the times of those that are awaited."""

    def __init__(self, port: int, answered: Callable[[Connection, Answer], None]) -> None:
        self._answered = answered
        self.posted: deque[tuple[int, int]] = deque()
        self._received = b""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)

    def send(self, requests: bytes, count: int, due: int) -> None:
        """``due``: when it was to be sent, by the clock of the kernel's stamps."""
        self.posted.extend([(due, time.time_ns())] * count)
        if self.socket.send(requests) < len(requests):
            raise BlockingIOError("the service does not read what is posted")

    def read(self) -> None:
        data, told, _, _ = self.socket.recvmsg(1 << 16, 64)
        if not data:
            raise ConnectionError("the service has closed a connection")
        came = _stamp(told)
        self._received += data
        while (size := length_of_answer(self._received)) <= len(self._received):
            status, self._received = int(self._received[9:12]), self._received[int(size) :]
            due, posted = self.posted.popleft()
            self._answered(self, Answer(due, posted, came, status))


def _stamp(told: Sequence[tuple[int, int, bytes]]) -> int:
    """When the kernel had it, in nanoseconds; now, where it does not say."""
    for _, kind, data in told:
        if kind == _TIMESTAMPNS:
            seconds, rest = _STAMP.unpack_from(data)
            return int(seconds * 10**9 + rest)
    return time.time_ns()


class Measured:
    """The producer whose answers are timed; what is posted in the first ``warm`` seconds does not count."""

    def __init__(self, port: int, key: str, rate: float, seconds: float, warm: float) -> None:
        host = f"127.0.0.1:{port}"
        keys = range(bench_events.KEYS)
        self._requests = cycle([bench_events.with_key(number, host, key) for number in keys])
        self._rate, self._count, self._warm = rate, int(rate * (warm + seconds)), int(warm * 1e9)
        self.connections = [Connection(port, self._answered) for _ in range(CONNECTIONS)]
        self._idle, self._turn = deque(self.connections), cycle(self.connections)
        self._sent = self._came = 0
        self.delays: list[int] = []
        self.due: list[int] = []
        self.lateness: list[int] = []
        self.statuses: Counter[int] = Counter()
        self.timer = Timer(max(SHORTEST, 1 / rate))

    def begin(self, now: int) -> None:
        self._begun, self._since = now, now + self._warm

    @property
    def done(self) -> bool:
        return self._came == self._count

    @property
    def sent_all(self) -> bool:
        return self._sent == self._count

    def turn(self) -> None:
        self.timer.passed()
        now = time.time_ns()
        until = min(self._count, 1 + int((now - self._begun) * self._rate / 1e9))
        while self._sent < until:
            due = self._begun + int(self._sent * 1e9 / self._rate)
            connection = self._idle.popleft() if self._idle else next(self._turn)
            connection.send(next(self._requests), 1, due)
            self._sent += 1

    def _answered(self, connection: Connection, answer: Answer) -> None:
        self._came += 1
        if not connection.posted:
            self._idle.append(connection)
        if answer.due >= self._since:
            self.delays.append(answer.came - answer.posted)
            self.due.append(answer.came - answer.due)
            self.lateness.append(answer.posted - answer.due)
            self.statuses[answer.status] += 1

    def told(self) -> dict[str, Any]:
        cuts = _percentiles(self.delays)
        return {
            "p50": cuts[49],
            "p99": cuts[98],
            "most": max(self.delays) / 1e6,
            "p99_due": _percentiles(self.due)[98],
            "late": _percentiles(self.lateness)[98],
            "statuses": dict(self.statuses),
        }


def _percentiles(nanoseconds: Sequence[int]) -> list[float]:
    """Milliseconds."""
    return [each / 1e6 for each in quantiles(nanoseconds, n=100, method="inclusive")]


class Greedy:
    """Sends bundles without a look at the answers, and counts these."""

    def __init__(self, port: int, key: str, rate: float) -> None:
        host, size = f"127.0.0.1:{port}", max(1, round(rate / BUNDLES))
        firsts = range(0, bench_events.KEYS, size)
        self._size = size
        self._bundles = cycle(
            [
                b"".join(bench_events.with_key(n, host, key) for n in range(first, first + size))
                for first in firsts
            ]
        )
        self.connections = [Connection(port, self._answered) for _ in range(GREEDY_CONNECTIONS)]
        self._turn = cycle(self.connections)
        self.statuses: Counter[int] = Counter()
        self.timer = Timer(size / rate)

    def turn(self) -> None:
        self.timer.passed()
        next(self._turn).send(next(self._bundles), self._size, 0)

    def _answered(self, connection: Connection, answer: Answer) -> None:
        self.statuses[answer.status] += 1


def measure(
    port: int,
    key: str,
    rate: float,
    seconds: float,
    warm: float,
    greedy_key: str = "",
    greedy_rate: float = 0.0,
) -> dict[str, Any]:
    """``key``: of the producer, empty for none. Raises TimeoutError where answers are missing."""
    measured = Measured(port, key, rate, seconds, warm)
    greedy = Greedy(port, greedy_key, greedy_rate) if greedy_rate else None
    posting: list[Measured | Greedy] = [measured, *([greedy] if greedy else [])]
    gc.disable()
    begun, used = time.monotonic(), time.process_time()
    try:
        with select.epoll() as poll:
            turns = dict[int, Callable[[], None]]()
            for each in posting:
                turns[each.timer.descriptor] = each.turn
                turns |= {one.socket.fileno(): one.read for one in each.connections}
            for descriptor in turns:
                poll.register(descriptor, select.EPOLLIN)
            measured.begin(time.time_ns())
            _run(poll, turns, measured, begun + warm + seconds + WITHIN)
    finally:
        gc.enable()
        for each in posting:
            each.timer.close()
            for one in each.connections:
                one.socket.close()
    own = (time.process_time() - used) / (time.monotonic() - begun)
    told = {**measured.told(), "cpu": own}
    return {**told, "greedy": dict(greedy.statuses)} if greedy else told


def _run(
    poll: select.epoll, turns: dict[int, Callable[[], None]], measured: Measured, until: float
) -> None:
    while not measured.done:
        for descriptor, _ in poll.poll(1.0):
            turns[descriptor]()
        if measured.sent_all and time.monotonic() > until:
            raise TimeoutError(f"answers are missing {WITHIN} s after the last post")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", default="", help="of the producer")
    parser.add_argument("--rate", type=float, required=True, help="events a second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm", type=float, default=2.0, help="seconds before, not counted")
    parser.add_argument("--greedy-key", default="", help="of a second producer")
    parser.add_argument("--greedy-rate", type=float, default=0.0, help="0: there is none")
    print(json.dumps(measure(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
