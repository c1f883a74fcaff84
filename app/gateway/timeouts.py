"""How long a connection may stay as it is: one timer a connection, no clock on the hot path.

The timer looks a few times within the shortest time-out whether anything has changed since it
looked last; what has not changed for its time-out has expired. A deadline is therefore never met
early, and late by at most two looks: an eighth of the shortest time-out each, at most a second. An idle
connection is looked at by its own, longer time-out: a listener has hundreds of them, and looks are wake-ups.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Hashable
from typing import Protocol

from app.gateway.limits import Limits

_LOOKS = 8  # a time-out
_LONGEST_LOOK = 1.0
_STEPS = 4  # that the time between two looks is rounded down by


class Phase(enum.IntEnum):
    """What a connection is waiting for."""

    IDLE = 0  # the next request
    HEAD = 1  # the rest of a head
    BODY = 2  # the rest of a body
    BUSY = 3  # us: no time-out here, publishing has its own
    UNREAD = 4  # the peer to read its answers
    CLOSING = 5  # the peer to read its last answer


class Watched(Protocol):
    def standing(self) -> tuple[Phase, Hashable]:
        """The phase, and what changes with every step forward within it."""

    def expired(self, phase: Phase) -> None: ...


class Watch:
    def __init__(self, watched: Watched, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self._watched = watched
        self._loop = loop
        self._timeouts = {
            Phase.IDLE: limits.keep_alive,
            Phase.HEAD: limits.head_timeout,
            Phase.BODY: limits.body_timeout,
            Phase.UNREAD: limits.body_timeout,
            Phase.CLOSING: limits.linger,
        }
        self._every = _look_for(min(self._timeouts.values()))
        self._every_idle = _look_for(limits.keep_alive)
        self._standing: tuple[Phase, Hashable] | None = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        standing = self._watched.standing()
        self._standing, self._since = standing, self._loop.time()
        self._again(standing[0])

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _again(self, phase: Phase) -> None:
        """A little sooner than due, so that the looks of many connections are one wake-up."""
        every = self._every_idle if phase is Phase.IDLE else self._every
        step, now = every / _STEPS, self._loop.time()
        self._timer = self._loop.call_later((now + every) // step * step - now, self._look)

    def _look(self) -> None:
        now, standing = self._loop.time(), self._watched.standing()
        self._again(standing[0])
        timeout = self._timeouts.get(standing[0])
        if standing != self._standing or timeout is None:
            self._standing, self._since = standing, now
        elif now - self._since >= timeout:
            self._watched.expired(standing[0])


def _look_for(timeout: float) -> float:
    return min(_LONGEST_LOOK, timeout / _LOOKS)
