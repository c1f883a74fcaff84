"""Find the leader of a partition and its offsets, without trusting a single broker.

A broker that is cut off from the others still names itself as the leader, and its log ends too early. Its answer must not
stop a subscription. It also names the replicas that were in sync when it was cut off, and the next leader is one of these. So
a leader is confirmed if all replicas in sync name it, and all replicas that these name as in sync.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from app.brokers.aiokafka_adapter import metadata_request
from app.brokers.kafka.questions import EARLIEST, LATEST, offsets_of_leader

_NO_LEADER = -1


class LeaderView(NamedTuple):
    """The knowledge of one broker about a partition: its leader, and the replicas in sync."""

    leader: int
    in_sync: frozenset[int]


async def confirmed_leader(client: Any, place: TopicPartition, first: int) -> int | None:
    """Return the leader of a partition, or None if a replica in sync does not answer or names another leader.

    Args:
        client: An AIOKafkaClient.
        place: The partition.
        first: The broker that is asked first.
    """
    views: dict[int, LeaderView] = {}
    named = {first}
    while asked := named - views.keys():
        for node, view in zip(
            asked,
            await asyncio.gather(*(_view(client, node, place) for node in asked)),
            strict=True,
        ):
            if view is None:
                return None
            views[node] = view
            named |= view.in_sync
    leaders = {view.leader for view in views.values()}
    return leaders.pop() if len(leaders) == 1 and _NO_LEADER not in leaders else None


async def confirmed_ends(client: Any, place: TopicPartition, first: int) -> tuple[int, int] | None:
    """Return the first offset of a partition, and the offset after its last record, as the confirmed leader states them.

    Return None if there is no confirmed leader, or if it does not answer.
    """
    leader = await confirmed_leader(client, place, first)
    if leader is None:
        return None
    earliest, latest = [
        (await offsets_of_leader(client, leader, [place], time)).get(place)
        for time in (EARLIEST, LATEST)
    ]
    return None if earliest is None or latest is None else (earliest, latest)


async def _view(client: Any, node: int, place: TopicPartition) -> LeaderView | None:
    """Return what a broker knows of a partition, or None if it does not answer or does not know the partition."""
    try:
        answer = await client.send(node, metadata_request([place.topic]))
    except (KafkaError, OSError, TimeoutError):
        return None
    for topic in answer.to_object()["topics"]:
        for each in topic["partitions"]:
            if each["partition"] == place.partition:
                return LeaderView(each["leader"], frozenset(each["isr"]))
    return None
