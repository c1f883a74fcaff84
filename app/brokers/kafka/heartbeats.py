"""Heartbeats of all members that a process has in a cluster: one timer, and one connection a node.

A hundred members send a hundred heartbeats in six seconds. Each with a timer and a connection of its own was most of
what they cost at rest. Here they leave together: the client of each member would send its next heartbeat at once, and
waits for the departure of all. A group does not mind which connection a heartbeat comes from; one that fails there
goes on the member's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

AT_ONCE_MS = 1  # between the heartbeats of a client that departs with others

Send = Callable[[int, Any], Awaitable[Any]]
"""A request to a node, by its number, and its answer."""


class Heartbeats:
    """Paces the heartbeats of all members. ``send``: on the connection that they share."""

    def __init__(self, interval: float, send: Send) -> None:
        """``interval``: seconds between two departures."""
        self.send = send
        self._interval = interval
        self._waiting: list[asyncio.Future[None]] = []

    async def depart(self) -> None:
        """Wait for the next departure. No timer runs while no member waits."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_later(self._interval, self._leave)
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():  # as of a member that was cancelled
                each.set_result(None)
