"""A fake Kafka node for fetches, which answers when the test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, NodeNotReadyError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest

from app.bindings.record import Record
from app.brokers.kafka.questions import EARLIEST
from kafka_batches import batch as made


def batch(first: int, *records: Record, codec: int = 0) -> bytes:
    """Return a record batch as a node sends it, with its first record at offset ``first``."""
    return first.to_bytes(8, "big") + made(records, codec)[8:]


def values(first: int, *bodies: bytes) -> bytes:
    return batch(first, *(Record(None, (), body) for body in bodies))


class PendingFetch(NamedTuple):
    group: str
    wait: int  # milliseconds
    positions: dict[TopicPartition, int]
    answer: asyncio.Future[Any]

    def tell(self, found: dict[TopicPartition, bytes | int]) -> None:
        """Answer the fetch with bytes or an error code by partition. Other partitions get no
        records.
        """
        topics = [
            (
                place.topic,
                [
                    (place.partition, told, 0, 0, 0, None, -1, b"")
                    if isinstance(told := found.get(place, b""), int)
                    else (place.partition, 0, 0, 0, 0, None, -1, told)
                ],
            )
            for place in self.positions
        ]
        self.answer.set_result(SimpleNamespace(API_VERSION=11, topics=topics))


class FakeKafkaClient:
    """A fake client whose cluster has a single node.

    Attributes:
        asked: The fetch requests in order.
        ends: The first offset of each partition and the offset after its last record, as its leader states them.
        views: By node: the leader that it names, and the replicas that it names as in sync. Other nodes are cut off.
        stated: The ends that a node states, if they are not ``ends``.
    """

    def __init__(self) -> None:
        self.asked: list[PendingFetch] = []
        self.came = asyncio.Event()
        self.updates = 0
        self.ends = (0, 0)
        self.views: dict[int, tuple[int, list[int]]] = {1: (1, [1])}
        self.stated: dict[int, tuple[int, int]] = {}
        self.cluster = SimpleNamespace(leader_for_partition=lambda _: 1)
        self.closed = False
        self.away = False
        self.topics: set[str] | None = None

    async def add_topic(self, _topic: str) -> None: ...

    def force_metadata_update(self) -> asyncio.Future[bool]:
        self.updates += 1
        updated: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        updated.set_result(True)
        return updated

    async def send(
        self, node: int, request: FetchRequest | OffsetRequest | MetadataRequest, *, group: str = ""
    ) -> Any:
        if isinstance(request, MetadataRequest):
            return self._view(node, request)
        if isinstance(request, OffsetRequest):
            return self._ends(node, request)
        positions = {
            TopicPartition(topic, number): position
            for topic, partitions in request.topics
            for number, position, _ in partitions
        }
        assert sum(len(partitions) for _, partitions in request.topics) == len(positions)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append(PendingFetch(group, request._max_wait_ms, positions, answer))
        self.came.set()
        return await answer

    def _view(self, node: int, request: MetadataRequest) -> Any:
        if node not in self.views:
            raise NodeNotReadyError(str(node))
        leader, in_sync = self.views[node]
        partition = {"partition": 0, "leader": leader, "isr": in_sync}
        [topic] = request._topics or []
        told = {"topics": [{"topic": topic, "partitions": [partition]}]}
        return SimpleNamespace(to_object=lambda: told)

    def _ends(self, node: int, request: OffsetRequest) -> Any:
        [(topic, [(number, time)])] = request._topics
        ends = self.stated.get(node, self.ends)
        offset = ends[0] if time == EARLIEST else ends[1]
        return SimpleNamespace(topics=[(topic, [(number, 0, 0, offset)])])

    async def next(self, number: int) -> PendingFetch:
        async with asyncio.timeout(60):
            while len(self.asked) <= number:
                self.came.clear()
                await self.came.wait()
        return self.asked[number]

    async def ready(self, _node: int, *, group: str) -> bool:
        return bool(group) and not self.away

    def set_topics(self, topics: Collection[str]) -> None:
        self.topics = set(topics)

    async def close(self) -> None:
        """Fail all unanswered requests, as the real client does."""
        self.closed = True
        for asked in self.asked:
            if not asked.answer.done():
                asked.answer.set_exception(KafkaConnectionError("closed"))
