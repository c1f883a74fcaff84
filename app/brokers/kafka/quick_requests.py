"""Bound how long a group member waits for a node that is cut off silently: no connection breaks, and none answers.

aiokafka has one time limit for all requests of a client. For a group member it is that of a join, which is answered when
every member has joined. If the coordinator of the group is cut off, the member would notice after its lease has expired,
and deliver nothing until then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

from aiokafka.errors import KafkaError, RequestTimedOutError

from app.brokers.aiokafka_adapter import HEARTBEAT

DEFAULT = 0  # aiokafka's name of a connection for everything but the group


class QuickRequests:
    """The requests of one client, of which some have a shorter limit than the client has.

    Args:
        client: The AIOKafkaClient, whose methods ``ready`` and ``send`` may be replaced afterwards.
        patience: Seconds to connect, and for the answer to a heartbeat and to the search for a coordinator.
    """

    def __init__(self, client: Any, patience: float) -> None:
        self._client = client
        self._patience = patience
        self._send = client.send
        self._connect = client.ready
        self._silent: Counter[tuple[int, Any]] = Counter()  # by node and connection

    async def ready(self, node: int, *, group: Any = DEFAULT) -> bool:
        """Connect to a node. Return False if that fails, also for want of an answer: the client opens one connection
        at a time, so all others wait for it."""
        try:
            async with asyncio.timeout(self._patience):
                connected: bool = await self._connect(node, group=self._connection(node, group))
        except TimeoutError:
            return False
        return connected

    async def send(self, node: int, request: Any, *, group: Any = DEFAULT) -> Any:
        """Send a request and return the answer. Raises KafkaError."""
        if request.API_KEY == HEARTBEAT:
            return await self._send_quickly(node, request, group)
        return await self._send(node, request, group=self._connection(node, group))

    def _connection(self, node: int, group: Any) -> Any:
        """Return the name of the connection. After a silence it is a new one: a join on the silent connection would
        wait for the limit of a join."""
        silent = self._silent[node, group]
        return f"{group} {silent}" if silent else group

    async def ask_each(self, first: int, request: Any) -> Any:
        """Ask one node after another, until one answers. Raises the KafkaError of the last one."""
        others = [each.nodeId for each in self._client.cluster.brokers() if each.nodeId != first]
        *nodes, last = first, *others
        for node in nodes:
            with contextlib.suppress(KafkaError):
                return await self._send_quickly(node, request)
        return await self._send_quickly(last, request)

    async def _send_quickly(self, node: int, request: Any, group: Any = DEFAULT) -> Any:
        try:
            async with asyncio.timeout(self._patience):
                return await self._send(node, request, group=self._connection(node, group))
        except TimeoutError:
            self._silent[node, group] += 1
            raise RequestTimedOutError from None
