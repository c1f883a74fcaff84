"""Quotas of a cluster: for how long its nodes read nothing more from this client."""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger(__name__)

LONG = 1_000  # ms; longer stops are logged


class Throttles:
    """The nodes to which nothing is sent at the moment.

    A node that applies a quota answers at once, and then reads nothing for the throttle time (KIP-219). A request that is
    sent in this time waits in the socket. It would time out there, and the node might store it after its callers have got
    an error.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._until: dict[int, float] = {}  # by node, by the clock of the event loop, in seconds

    def add(self, node: int, throttle_ms: int) -> None:
        """Note the throttle time of an answer, in ms."""
        if throttle_ms >= LONG:
            log.warning(
                "Kafka %s: a quota stops node %s for %s ms", self._broker, node, throttle_ms
            )
        until = asyncio.get_running_loop().time() + throttle_ms / 1000
        self._until[node] = max(until, self._until.get(node, until))

    def stop(self, node: int) -> bool:
        """Return True if nothing may be sent to the node yet."""
        until = self._until.get(node)
        if until is None:
            return False
        if until > asyncio.get_running_loop().time():
            return True
        del self._until[node]
        return False
