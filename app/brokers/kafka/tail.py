"""Partitions of a Kafka cluster that many groups of one process read together.

Each record is fetched and decoded once for all groups at the same position.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException

from app.brokers.cursor import SharedCursor
from app.brokers.kafka.fetching import Fetcher
from app.brokers.kafka.heartbeats import patience_of
from app.brokers.kafka.reader import message_of
from app.brokers.kafka.records import FetchedRecords
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.tail import PartitionTail
from app.model.message import Message, MessagePage, Partition

MOST_BYTES = 1 << 20
KEPT_FETCHES = 4  # most partly read fetches that are kept for a partition
_NO_EPOCH = 0


class FetchedTail(PartitionTail):
    """The shared reader of one Kafka partition. A cursor at the end of the partition always has a fetch
    waiting at the cluster, because only a fetch finds new records."""

    end = 2**63

    def __init__(
        self, fetching: Fetcher, place: Partition, most: int, moved: Callable[[], None]
    ) -> None:
        super().__init__(place, most, MOST_BYTES, moved, by_headers=True)
        self._fetching = fetching
        self._kafka_place = TopicPartition(place.topic, place.number)
        self._kept: dict[int, FetchedRecords] = {}  # partly read fetches, by their next offset

    async def page(self, position: int, until: int, most: int) -> MessagePage:
        page = self._page(await self._records(position), until, most)
        if page.next_offset > position:
            return page
        page = self._page(
            await self._fetched(position), until, most
        )  # the kept fetch had no more records
        if page.next_offset > position:
            return page
        raise CorruptRecordException(f"{self.place} has records at {position} that cannot be read")

    def _page(self, records: FetchedRecords, until: int, most: int) -> MessagePage:
        messages: list[Message] = []
        place, last, size = self.place, until - 1, 0
        try:
            for raw in records:
                message = message_of(raw, place, _NO_EPOCH)
                messages.append(message)
                body = message.record.body
                if body is not None:
                    size += len(body)
                if message.offset >= last or size >= MOST_BYTES or len(messages) >= most:
                    # a compressed answer can be larger than it was on the wire
                    self._keep(records)
                    break
        except CorruptRecordException:
            if not messages:  # records before the damage are valid
                raise
        return MessagePage(tuple(messages), records.next_fetch_offset, size)

    async def _records(self, position: int) -> FetchedRecords:
        rest = self._kept.pop(position, None)
        return await self._fetched(position) if rest is None else rest

    def _keep(self, records: FetchedRecords) -> None:
        if len(self._kept) >= KEPT_FETCHES:
            del self._kept[next(iter(self._kept))]
        self._kept[records.next_fetch_offset] = records

    async def _fetched(self, position: int) -> FetchedRecords:
        return await self._fetching.records(self._kafka_place, position)

    def _dropped(self, cursor: SharedCursor) -> None:
        cursor.abandon()
        there = {each.position for each in self._cursors}
        self._kept = {at: rest for at, rest in self._kept.items() if at in there}


class PositionListener(Protocol):
    """A group member that is notified when positions have moved."""

    closed: bool
    topics: Collection[str]

    def on_positions_moved(self) -> None: ...


class PartitionTails:
    """The shared readers of all partitions of a cluster that members of this process read.

    If only skipped messages have moved a position, the members are notified periodically instead of at once.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._fetching: Fetcher | None = None
        self._tails: dict[Partition, FetchedTail] = {}
        self._members: list[PositionListener] = []
        self._timer: asyncio.TimerHandle | None = None
        self._silent: Counter[int] = Counter()  # heartbeats without an answer, by node

    def of(self, place: Partition) -> PartitionTail:
        if place not in self._tails:
            most = self._settings.max_poll_records
            self._tails[place] = FetchedTail(self._fetches(), place, most, self._moved)
        return self._tails[place]

    async def beat(self, node: int, request: Any) -> Any:
        """Send a heartbeat on a connection of its own, because a connection with a waiting fetch would delay
        it. Without an answer in time, the next heartbeat opens another connection. Raises KafkaError, OSError or
        TimeoutError."""
        connection = f"heartbeats {self._silent[node]}"
        try:
            async with asyncio.timeout(patience_of(self._settings.session_timeout)):
                return await self._fetches().ask(node, request, connection)
        except TimeoutError:
            self._silent[node] += 1
            raise

    def _fetches(self) -> Fetcher:
        if self._fetching is None:
            self._fetching = Fetcher(self._settings)
        return self._fetching

    def add(self, member: PositionListener) -> None:
        self._members.append(member)

    def tidy(self) -> None:
        """Remove the shared readers of topics that no open member reads. Called when a member was closed."""
        self._members = [each for each in self._members if not each.closed]
        topics = {topic for each in self._members for topic in each.topics}
        self._tails = {place: tail for place, tail in self._tails.items() if place.topic in topics}
        if self._fetching is not None:
            self._fetching.only(topics)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            await self._fetching.close()
            self._fetching = None

    def _moved(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._settings.passed_interval, self._look)

    def _look(self) -> None:
        self._timer = None
        for member in self._members:
            member.on_positions_moved()
