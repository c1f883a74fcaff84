"""Single requests to a cluster, sent through the client inside an admin client.

The admin client's own describe_topics may create the topics that it asks about, and it cannot list offsets.
It also sends a request to one random node and fails if that node is down, although other nodes could answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import shuffle
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    TopicAuthorizationFailedError,
    for_code,
)

from app.brokers.aiokafka_adapter import client_of, metadata_request, offsets_request

Offsets = Mapping[TopicPartition, int]
Leaders = Mapping[TopicPartition, int]

EARLIEST, LATEST = -2, -1  # special times of Kafka's ListOffsets request
_NOWHERE = -1
ASK_AGAIN = 0.1  # seconds
DRAWS = 8  # most attempts of a request for which the admin client picks a random node

Answer = TypeVar("Answer")


async def ask_any(client: Any, request: Any) -> Any:
    """Send a request to the nodes in random order until one can be reached, and return its answer.

    The client itself would try one random node only. Raises KafkaError if no node can be reached.
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


async def retry_other_nodes(question: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat a request while the admin client picks nodes that are down. Raises KafkaError."""
    for _ in range(DRAWS - 1):
        try:
            return await question()
        except (NodeNotReadyError, KafkaConnectionError):
            await asyncio.sleep(0)
    return await question()


async def controller_ready(client: AIOKafkaAdminClient, within: float) -> None:
    """Wait until the controller of the cluster can be reached. Raise TimeoutError after ``within`` seconds.

    The wait is needed because the cluster may name a node that has just died. The admin client would then
    wait for this node alone.
    """
    wire = client_of(client)
    async with asyncio.timeout(within):
        while True:
            controller = wire.cluster.controller
            if controller is not None and await wire.ready(controller.nodeId):
                return
            await asyncio.sleep(ASK_AGAIN)
            await wire.force_metadata_update()


async def describe(
    client: AIOKafkaAdminClient, topics: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return the metadata of existing topics, sorted by name. None means all topics.

    Raises TopicAuthorizationFailedError for a named topic that Skybridge may not describe.
    """
    if topics is not None and not topics:
        return []
    answer = await ask_any(client_of(client), metadata_request(topics))
    described: list[dict[str, Any]] = answer.to_object()["topics"]
    for each in described if topics is not None else ():
        if for_code(each["error_code"]) is TopicAuthorizationFailedError:
            raise TopicAuthorizationFailedError(each["topic"])
    return sorted(
        (each for each in described if not each["error_code"] and not each.get("is_internal")),
        key=lambda each: str(each["topic"]),
    )


async def offsets(client: AIOKafkaAdminClient, leaders: Leaders, time_ms: int) -> Offsets:
    """Return, for each partition, the offset of the first record stored at ``time_ms`` or later.

    A partition without such a record is left out. A partition whose leader does not answer is also left out,
    because the other answers are still useful.

    Args:
        client: The admin client.
        leaders: The leader of each partition.
        time_ms: A time in ms, or EARLIEST or LATEST.
    """
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for place, leader in leaders.items():
        by_leader[leader].append(place)
    answers = await asyncio.gather(
        *(
            offsets_of_leader(client_of(client), leader, places, time_ms)
            for leader, places in by_leader.items()
        )
    )
    return {place: offset for each in answers for place, offset in each.items()}


async def offsets_of_leader(
    client: Any, leader: int, places: Sequence[TopicPartition], time_ms: int
) -> Offsets:
    """Return the same as ``offsets`` for the partitions of one leader. ``client`` is an AIOKafkaClient."""
    asked: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place in places:
        asked[place.topic].append((place.partition, time_ms))
    try:
        answer = await client.send(leader, offsets_request(asked))
    except (KafkaError, OSError, TimeoutError):
        return {}
    return {
        TopicPartition(topic, number): offset
        for topic, partitions in answer.topics
        for number, code, _, offset in partitions
        if not code and offset != _NOWHERE
    }
