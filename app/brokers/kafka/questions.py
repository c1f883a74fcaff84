"""Single requests to a cluster, through the client inside an admin client.

The admin client's own ``describe_topics`` lets the broker make the topics that it asks about, where the
broker is set so: a look must not make anything. And it cannot list offsets.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import shuffle
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

Offsets = Mapping[TopicPartition, int]
Leaders = Mapping[TopicPartition, int]

EARLIEST, LATEST = -2, -1  # the guide's times with a meaning of their own
_NOWHERE = -1
_ANY_REPLICA = -1
_READ_COMMITTED = 1  # the end is where our own readers end, below open transactions
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


async def describe(
    client: AIOKafkaAdminClient, topics: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Metadata: topics that are there, in the order of their names; an unknown one is left out. None:
    all. Raises TopicAuthorizationFailedError for one that was named and may not be seen."""
    if topics is not None and not topics:
        return []
    wire = client._client  # noqa: SLF001 - ``test_internals`` guards that it stays there
    request = MetadataRequest(
        None if topics is None else list(topics), allow_auto_topic_creation=False
    )
    answer = await ask_any(wire, request)
    described: list[dict[str, Any]] = answer.to_object()["topics"]
    for each in described if topics is not None else ():
        if for_code(each["error_code"]) is TopicAuthorizationFailedError:
            raise TopicAuthorizationFailedError(each["topic"])
    return sorted(
        (each for each in described if not each["error_code"] and not each.get("is_internal")),
        key=lambda each: str(each["topic"]),
    )


async def offsets(client: AIOKafkaAdminClient, leaders: Leaders, time_ms: int) -> Offsets:
    """Offset: of the first record stored at ``time_ms`` or later, or EARLIEST or LATEST. A partition
    is left out where there is no such record, and where its leader does not tell: it may have died
    and still be named, and the rest of the answer is worth having all the same."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for place, leader in leaders.items():
        by_leader[leader].append(place)
    answers = await asyncio.gather(
        *(_of_leader(client, leader, places, time_ms) for leader, places in by_leader.items())
    )
    return {place: offset for each in answers for place, offset in each.items()}


async def _of_leader(
    client: AIOKafkaAdminClient, leader: int, places: Sequence[TopicPartition], time_ms: int
) -> Offsets:
    asked: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place in places:
        asked[place.topic].append((place.partition, time_ms))
    request = OffsetRequest(_ANY_REPLICA, _READ_COMMITTED, list(asked.items()))
    try:
        answer = await client._client.send(leader, request)  # noqa: SLF001
    except (KafkaError, OSError, TimeoutError):
        return {}
    return {
        TopicPartition(topic, number): offset
        for topic, partitions in answer.topics
        for number, code, _, offset in partitions
        if not code and offset != _NOWHERE
    }
