"""Heartbeats of all members that a process has in a cluster: one connection a node, and a write for many.

A hundred members send a hundred heartbeats in six seconds. Each in a write on a connection of its own was most of
what they cost at rest. Here those that are due at about the same time leave together, on one connection. A group does
not mind which connection a heartbeat comes from; one that fails there goes on the member's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

TOGETHER = 1.0  # seconds that a heartbeat may wait for others

Send = Callable[[int, Any], Awaitable[Any]]
"""A request to a node, by its number, and its answer."""


class Heartbeats:
    """Sends what the clients of all members would send."""

    def __init__(self, interval: float, send: Send) -> None:
        """``interval``: seconds between the heartbeats of a member. ``send``: on the connection that all share."""
        self._send = send
        self._together = min(TOGETHER, interval / 4)
        self._departure: asyncio.Future[None] | None = None

    async def send(self, node: int, request: Any) -> Any:
        """Return the answer, within ``TOGETHER`` seconds and the time of the request."""
        await asyncio.shield(self._next_departure())
        return await self._send(node, request)

    def _next_departure(self) -> asyncio.Future[None]:
        if self._departure is None:
            loop = asyncio.get_running_loop()
            self._departure = loop.create_future()
            loop.call_later(self._together, self._depart)
        return self._departure

    def _depart(self) -> None:
        departure, self._departure = self._departure, None
        if departure is not None and not departure.done():
            departure.set_result(None)
