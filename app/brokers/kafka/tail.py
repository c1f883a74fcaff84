"""A partition of a cluster, as what many groups read from at once: each record is fetched and decoded once
for all of a process that stand at the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException

from app.brokers.cursor import Cursor
from app.brokers.kafka.fetching import Fetching
from app.brokers.kafka.reader import message_of
from app.brokers.kafka.records import FetchedRecords
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.tail import Tail
from app.model.message import Message, MessagePage, Partition

MOST_BYTES = 1 << 20
RESTS = 4  # of fetches, kept for a partition at most
_NO_EPOCH = 0


class FetchedTail(Tail):
    """Where it ends only a fetch can tell: one at the end waits for what comes."""

    end = 2**63

    def __init__(
        self, fetching: Fetching, place: Partition, most: int, moved: Callable[[], None]
    ) -> None:
        super().__init__(place, most, MOST_BYTES, moved, by_headers=True)
        self._fetching = fetching
        self._kafka_place = TopicPartition(place.topic, place.number)
        self._rests: dict[int, FetchedRecords] = {}  # of fetches, by where they go on

    async def page(self, position: int, until: int, most: int) -> MessagePage:
        page = self._page(await self._records(position), until, most)
        if page.next_offset > position:
            return page
        page = self._page(await self._fetched(position), until, most)  # there was no rest
        if page.next_offset > position:
            return page
        raise CorruptRecordException(f"{self.place} has records at {position} that say nothing")

    def _page(self, records: FetchedRecords, until: int, most: int) -> MessagePage:
        messages: list[Message] = []
        size = 0
        try:
            for raw in records:
                messages.append(message_of(raw, self.place, _NO_EPOCH))
                size += len(raw.value or b"")
                if (
                    len(messages) >= most
                    or size >= MOST_BYTES  # it may have come compressed
                    or records.next_fetch_offset >= until
                ):
                    self._keep(records)
                    break
        except CorruptRecordException:
            if not messages:  # what lies before the damage is good
                raise
        return MessagePage(tuple(messages), records.next_fetch_offset, size)

    async def _records(self, position: int) -> FetchedRecords:
        rest = self._rests.pop(position, None)
        return await self._fetched(position) if rest is None else rest

    def _keep(self, records: FetchedRecords) -> None:
        if len(self._rests) >= RESTS:
            del self._rests[next(iter(self._rests))]
        self._rests[records.next_fetch_offset] = records

    async def _fetched(self, position: int) -> FetchedRecords:
        return await self._fetching.records(self._kafka_place, position)

    def _dropped(self, cursor: Cursor) -> None:
        cursor.abandon()
        there = {each.position for each in self._cursors}
        self._rests = {at: rest for at, rest in self._rests.items() if at in there}


class Looks(Protocol):
    """What is told that positions have moved."""

    closed: bool
    topics: Collection[str]

    def look(self) -> None: ...


class Tails:
    """All of a cluster. Positions that messages only passed are looked at now and then, of all members."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._fetching: Fetching | None = None
        self._tails: dict[Partition, FetchedTail] = {}
        self._members: list[Looks] = []
        self._timer: asyncio.TimerHandle | None = None

    def of(self, place: Partition) -> Tail:
        if place not in self._tails:
            most = self._settings.max_poll_records
            self._tails[place] = FetchedTail(self._fetches(), place, most, self._moved)
        return self._tails[place]

    async def beat(self, node: int, request: Any) -> Any:
        """A heartbeat, on a connection beside those of the fetches, which wait for news."""
        return await self._fetches().ask(node, request, "heartbeats")

    def _fetches(self) -> Fetching:
        if self._fetching is None:
            self._fetching = Fetching(self._settings)
        return self._fetching

    def add(self, member: Looks) -> None:
        self._members.append(member)

    def tidy(self) -> None:
        """A member has gone: nothing is kept of topics that were only its."""
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
            member.look()
