"""Single requests to a cluster, through the client inside an admin client.

The admin client's own ``describe_topics`` lets the broker make the topics that it asks about, where the
broker is set so: a look must not make anything. And it cannot list offsets. One node of several that is down is no
reason to have no answer, and the admin client asks one that it draws.
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

EARLIEST, LATEST = -2, -1  # the guide's times with a meaning of their own
_NOWHERE = -1
ASK_AGAIN = 0.1  # seconds
DRAWS = 8  # nodes that are drawn for a question to any of them

Answer = TypeVar("Answer")


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


async def drawing(question: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask again where the admin client has drawn a node that is down. Raises KafkaError."""
    for _ in range(DRAWS - 1):
        try:
            return await question()
        except (NodeNotReadyError, KafkaConnectionError):
            await asyncio.sleep(0)
    return await question()


async def controller_ready(client: AIOKafkaAdminClient, within: float) -> None:
    """Wait for a controller that answers: the one that the cluster names may be the node that has just died, and the
    admin client would wait for it alone. Raises TimeoutError after ``within`` seconds."""
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
    """Metadata: topics that are there, in the order of their names; an unknown one is left out. None:
    all. Raises TopicAuthorizationFailedError for one that was named and may not be seen."""
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
    try:
        answer = await client_of(client).send(leader, offsets_request(asked))
    except (KafkaError, OSError, TimeoutError):
        return {}
    return {
        TopicPartition(topic, number): offset
        for topic, partitions in answer.topics
        for number, code, _, offset in partitions
        if not code and offset != _NOWHERE
    }
