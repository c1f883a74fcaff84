"""Questions that any node of the cluster may answer."""

from __future__ import annotations

import asyncio
from random import shuffle
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError

ASK_AGAIN = 0.1  # seconds


async def ask_any(client: Any, request: Any) -> Any:
    """The answer of whichever node can be reached: the client itself would draw one of those that it
    knows, also a dead one, and leave it at that. Raises KafkaError when none can be reached.
    """
    nodes = [broker.nodeId for broker in client.cluster.brokers()]
    shuffle(nodes)
    failure: KafkaError = KafkaConnectionError("no node of the cluster is known")
    for node in nodes:
        try:
            return await client.send(node, request)
        except (NodeNotReadyError, KafkaConnectionError) as error:
            failure = error
    raise failure


class AdminClient(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka has no types
    """One node of several that is down is no reason to have no answer."""

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        if node_id is None:
            return await ask_any(self._client, request)
        return await super()._send_request(request, node_id)

    async def _send_to_controller(self, request: Any) -> Any:
        """What the cluster names as its controller may be the node that has just died; the client would
        wait for it alone."""
        async with asyncio.timeout(self._request_timeout_ms / 1000):
            while True:
                controller = self._client.cluster.controller
                if controller is not None and await self._client.ready(controller.nodeId):
                    return await super()._send_to_controller(request)
                await asyncio.sleep(ASK_AGAIN)
                await self._client.force_metadata_update()
