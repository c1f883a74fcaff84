"""Ports of loopback for servers of tests, which no other process of a test run chooses."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

FIRST_PORT, ENOUGH_PORTS = 12_000, 5_000
BLOCK = 50  # ports that a process claims at once
MOST_BLOCKS = 40  # of one process, which then uses its ports again


class Ports:
    """Ports below the ephemeral range of the system, endlessly.

    The system could give an ephemeral port to another connection before the service starts, or while it is
    down. A process claims blocks of ports, because a server often binds a port long after it was chosen. A
    claim is the name of a Unix socket in the abstract namespace of Linux, so it ends with its process. A
    forked process makes its own claims.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def __next__(self) -> int:
        with self._lock:
            return next(self._numbers)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._claims: list[socket.socket] = []
        self._numbers = self._endless()

    def _endless(self) -> Iterator[int]:
        beyond = first_of_the_system()
        if beyond - FIRST_PORT < ENOUGH_PORTS:
            while True:
                yield 0  # because the system has too few others
        firsts = list(range(FIRST_PORT, beyond - BLOCK + 1, BLOCK))
        random.SystemRandom().shuffle(firsts)
        mine: list[int] = []
        for first in firsts:
            if len(mine) == MOST_BLOCKS:
                break
            if self._claims_block(first):
                mine.append(first)
                yield from range(first, first + BLOCK)
        while True:
            for first in mine or firsts:  # without Linux nothing can be claimed
                yield from range(first, first + BLOCK)

    def _claims_block(self, first: int) -> bool:
        """Claim a block, and return False if another process has it."""
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0skybridge-test-ports-{first}")
        except OSError:
            claim.close()
            return False
        self._claims.append(claim)
        return True


def first_of_the_system() -> int:
    """Return the first ephemeral port of the system."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:  # not Linux: the first ephemeral port of IANA
        return 49_152


_PORTS = Ports()


def free_ports(count: int) -> list[int]:
    """Return different free ports of loopback. All are held until all are chosen."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            held.append(each := socket.socket())
            try:
                each.bind(("127.0.0.1", next(_PORTS)))
            except OSError:  # another process uses the port
                held.pop().close()
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
