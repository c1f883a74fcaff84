"""A base class for logs that wrap another log and change only how records are published."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence

from app.interfaces import Consumer, ConsumerFilter, Log
from app.model.message import Message, Partition
from app.model.metadata import NO_GROUPS, LogHealth, LogMetadata, ReadTopics
from app.model.start import StartAt


class DelegatingLog(Log):
    """A ``Log`` that forwards every call except publishing to ``target``.

    Args:
        name: The name of this log.
        target: The log that receives the calls. Its owner starts and stops it; this class does not.
    """

    def __init__(self, name: str, target: Log) -> None:
        self.name = name
        self.target = target
        self.capabilities = target.capabilities

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        start: StartAt,
        *,
        client_id: str = "",
        wanted: ConsumerFilter | None = None,
        shared: str = "",
    ) -> Consumer:
        return await self.target.subscribe(
            group, topics, start, client_id=client_id, wanted=wanted, shared=shared
        )

    def read(
        self, partition: Partition, start: str, until: str | None = None
    ) -> AsyncGenerator[Message, None]:
        return self.target.read(partition, start, until)

    async def position_at(self, partition: Partition, time_ms: int) -> str:
        return await self.target.position_at(partition, time_ms)

    async def position_back(self, partition: Partition, count: int) -> str:
        return await self.target.position_back(partition, count)

    async def metadata(
        self, topics: Sequence[str] | None = None, groups: ReadTopics = NO_GROUPS
    ) -> LogMetadata:
        return await self.target.metadata(topics, groups)

    async def create_topic(self, topic: str, partitions: int) -> None:
        await self.target.create_topic(topic, partitions)

    async def check_targets(self, topics: Collection[str]) -> Mapping[str, str]:
        return await self.target.check_targets(topics)

    async def health(self) -> LogHealth:
        return await self.target.health()
