"""Time-outs of a connection, with one timer for each connection and no clock on the fast path.

The timer checks several times within the shortest time-out whether the state has changed since the last
check. A state that has not changed for its time-out has expired. So a time-out never comes early. It comes
late by at most two checks, and the time between checks is an eighth of the shortest time-out, at most a
second. A listener may have hundreds of idle connections, so they are checked less often, by their own longer
time-out.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Hashable
from typing import Protocol

from app.gateway.limits import ListenerLimits

_CHECKS_PER_TIMEOUT = 8
_MAX_CHECK_INTERVAL = 1.0  # seconds
_STEPS = 4  # a check is moved to a multiple of this fraction of the interval


class Phase(enum.IntEnum):
    """The phases of a connection. A phase is named after the thing for which the connection waits."""

    IDLE = 0  # the next request
    HEAD = 1  # the rest of a head
    BODY = 2  # the rest of a body
    BUSY = 3  # the answer: publishing has its own time-out
    UNREAD = 4  # the client, which must read its answers
    CLOSING = 5  # the client, which must read its last answer


class WatchedConnection(Protocol):
    """A connection whose time-outs are watched."""

    def current_state(self) -> tuple[Phase, Hashable]:
        """Return the phase, and a value that changes with any progress in that phase."""

    def expired(self, phase: Phase) -> None:
        """React to the end of the time-out of a phase."""


class TimeoutWatch:
    """The timer that watches the time-outs of one connection."""

    def __init__(
        self, watched: WatchedConnection, limits: ListenerLimits, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._watched = watched
        self._loop = loop
        self._timeouts = {
            Phase.IDLE: limits.keep_alive,
            Phase.HEAD: limits.head_timeout,
            Phase.BODY: limits.body_timeout,
            Phase.UNREAD: limits.body_timeout,
            Phase.CLOSING: limits.linger,
        }
        self._every = _check_interval(min(self._timeouts.values()))
        self._every_idle = _check_interval(limits.keep_alive)
        self._last_state: tuple[Phase, Hashable] | None = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        state = self._watched.current_state()
        self._last_state, self._since = state, self._loop.time()
        self._schedule(state[0])

    def stop(self) -> None:
        """Stop for good, and let go of the connection, which then needs no garbage collector."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        del self._watched

    def _schedule(self, phase: Phase) -> None:
        """Schedule the next check, slightly early, so that the checks of many connections share one
        wake-up.
        """
        every = self._every_idle if phase is Phase.IDLE else self._every
        step, now = every / _STEPS, self._loop.time()
        self._timer = self._loop.call_later((now + every) // step * step - now, self._check)

    def _check(self) -> None:
        now, state = self._loop.time(), self._watched.current_state()
        self._schedule(state[0])
        timeout = self._timeouts.get(state[0])
        if state != self._last_state or timeout is None:
            self._last_state, self._since = state, now
        elif now - self._since >= timeout:
            self._watched.expired(state[0])


def _check_interval(timeout: float) -> float:
    return min(_MAX_CHECK_INTERVAL, timeout / _CHECKS_PER_TIMEOUT)
