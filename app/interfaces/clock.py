"""The clocks of a process: that of its machine, and that of a server which it shares with other processes.

Some times are written by one process and compared with the present by another one. In a store these are the next
attempt of a parked key, the end of a pull lock and the age of a command. In Kubernetes it is the deletion of an object.
The wall clocks of two machines may be an hour apart. So for such times a process uses the time of day of the server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple, Protocol

MEASURE_EVERY = 10.0  # seconds between two measurements
STEP = 1.0  # seconds by which the clock of the machine has to jump for a measurement at once
NOTEWORTHY = 60.0  # seconds between the clocks of the server and of the machine that are logged
_DRIFT = 1e-4  # seconds by which two clocks may diverge in a second

_log = logging.getLogger("skybridge.clock")


class Clock(Protocol):
    """The only source of time in packages that do I/O, so that tests can control it."""

    def now(self) -> float:
        """Return the wall-clock time in seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards, for timers and leases."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""


class SystemClock:
    """The clock of the machine, as ``Clock``."""

    now = staticmethod(time.time)  # noqa: TID251 - all other code uses this Clock
    """Return the wall clock in seconds since the epoch."""

    monotonic = staticmethod(time.monotonic)
    """Return the monotonic clock in seconds."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


class _Bounds(NamedTuple):
    """The bounds of the server's time minus the monotonic clock, in seconds, as they were at a monotonic time."""

    low: float
    high: float
    at: float

    def narrowed(self, by: _Bounds) -> _Bounds:
        """Return what both allow, or only the later bounds if the server's clock has jumped between them."""
        drift = _DRIFT * (by.at - self.at)
        low, high = max(self.low - drift, by.low), min(self.high + drift, by.high)
        return _Bounds(low, high, by.at) if low <= high else by


class TimeQuestion(NamedTuple):
    """The moment at which a server is asked for its time, in monotonic seconds.

    ``machine_ahead`` is how far the wall clock of the machine was ahead of them."""

    at: float
    machine_ahead: float


class ServerClock:
    """The time of day of a server, as ``Clock``.

    Before the first measurement it is the time of day of the machine. While the server is away, the last measurement is
    valid. ``measured`` may be called on any thread.

    Args:
        machine: the clock of the machine.
        server: the server in messages.
    """

    def __init__(self, machine: Clock, server: str) -> None:
        self.monotonic = machine.monotonic
        self.sleep = machine.sleep
        self._machine = machine
        self._server = server
        self._bounds: _Bounds | None = None
        self._ahead = 0.0  # of the monotonic clock
        self._machine_ahead = 0.0  # of the monotonic clock, at the last measurement
        self._logged = False

    def now(self) -> float:
        """Return the time of day in seconds since 1970."""
        return self._machine.now() if self._bounds is None else self.monotonic() + self._ahead

    def is_due(self) -> bool:
        """Return True if it is time for a measurement. Before a machine is resumed, its monotonic clock does not run. Its wall
        clock jumps then."""
        if self._bounds is None:
            return True
        jump = self._machine.now() - self.monotonic() - self._machine_ahead
        return self.monotonic() - self._bounds.at >= MEASURE_EVERY or abs(jump) >= STEP

    def ask(self) -> TimeQuestion:
        """Return the moment at which the server is asked, for ``measured``."""
        at = self.monotonic()
        return TimeQuestion(at, self._machine.now() - at)

    def measured(self, earliest: float, latest: float, question: TimeQuestion) -> None:
        """Note what the server's clock showed at a moment between the question and now.

        Args:
            earliest: the lowest time that it may have shown, in seconds since 1970.
            latest: the highest such time.
            question: when the server was asked.
        """
        ended = self.monotonic()
        found = _Bounds(earliest - ended, latest - question.at, ended)
        bounds = found if self._bounds is None else self._bounds.narrowed(found)
        self._ahead = (bounds.low + bounds.high) / 2
        self._bounds = bounds
        self._machine_ahead = question.machine_ahead  # so that a jump since then is noticed
        self._log_difference()

    def _log_difference(self) -> None:
        """Warn once that the clocks differ, because one of them is wrong."""
        off = self._ahead - self._machine_ahead
        differs = abs(off) >= (NOTEWORTHY / 2 if self._logged else NOTEWORTHY)
        if differs and not self._logged:
            side = "ahead of" if off > 0 else "behind"
            _log.warning(
                "the clock of %s is %.0f s %s the clock of this machine. Times that the server keeps are by its clock."
                " Correct the clock that is wrong, for example by NTP",
                self._server,
                abs(off),
                side,
            )
        self._logged = differs
