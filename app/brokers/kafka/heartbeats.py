"""Send the heartbeats of all group members of a process together: one timer, and one connection to each
node.

A hundred members send a hundred heartbeats in six seconds. With a timer and a connection for each member,
heartbeats were most of the cost of idle members. Each member's client is set to send heartbeats without
pause. This module makes each heartbeat wait for the next common send time (departure). Kafka accepts a
heartbeat on any connection. If a heartbeat fails on the shared connection, it is sent on the member's own
connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

TRIES = 3  # attempts, one after another, for which a session leaves time
AT_ONCE_MS = 1  # heartbeat interval of a client whose heartbeats wait for the common departure

Send = Callable[[int, Any], Awaitable[Any]]
"""A function that sends a request to a node, given by its number, and returns the answer."""


def patience_of(session_timeout: float) -> float:
    """Return the seconds in which a node must answer a heartbeat, or a connection. Another node may then be the
    coordinator before the session ends."""
    return session_timeout / TRIES


class Heartbeats:
    """The common timer for the heartbeats of all members. ``send`` is a function that uses the shared
    connection."""

    def __init__(self, interval: float, send: Send) -> None:
        """Create the timer. ``interval`` is the time between two common send times, in seconds."""
        self.send = send
        self._interval = interval
        self._waiting: list[asyncio.Future[None]] = []

    async def depart(self) -> None:
        """Wait for the next common send time. No timer runs while no member waits."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(self._interval, self._leave)
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():  # a cancelled member's future is done
                each.set_result(None)
