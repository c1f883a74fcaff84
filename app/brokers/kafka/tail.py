"""A partition of a cluster, as what many groups read from at once: each record is fetched and decoded once
for all of a process that stand at the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException

from app.brokers.cursor import Cursor
from app.brokers.kafka.fetching import Fetching
from app.brokers.kafka.reader import message_of
from app.brokers.kafka.records import PatientRecords
from app.brokers.kafka.settings import KafkaSettings
from app.brokers.tail import Tail
from app.model.message import Message, Page, Partition

MOST_BYTES = 1 << 20
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
        self._rest: tuple[int, PatientRecords] | None = None  # of a fetch, and from where

    async def page(self, position: int, until: int, most: int) -> Page:
        page = self._page(await self._records(position), until, most)
        if page.next_offset > position:
            return page
        page = self._page(await self._fetched(position), until, most)  # there was no rest
        if page.next_offset > position:
            return page
        raise CorruptRecordException(f"{self.place} has records at {position} that say nothing")

    def _page(self, records: PatientRecords, until: int, most: int) -> Page:
        messages: list[Message] = []
        size = 0
        for raw in records:
            messages.append(message_of(raw, self.place, _NO_EPOCH))
            size += len(raw.value or b"")
            if len(messages) >= most or records.next_fetch_offset >= until:
                self._rest = records.next_fetch_offset, records
                break
        return Page(tuple(messages), records.next_fetch_offset, size)

    async def _records(self, position: int) -> PatientRecords:
        rest, self._rest = self._rest, None
        if rest is not None and rest[0] == position:
            return rest[1]
        return await self._fetched(position)

    async def _fetched(self, position: int) -> PatientRecords:
        return await self._fetching.records(self._kafka_place, position)

    def _dropped(self, cursor: Cursor) -> None:
        cursor.abandon()
        if not self._cursors:
            self._rest = None


class Looks(Protocol):
    """What is told that positions have moved."""

    closed: bool

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
        if self._fetching is None:
            self._fetching = Fetching(self._settings)
        if place not in self._tails:
            most = self._settings.max_poll_records
            self._tails[place] = FetchedTail(self._fetching, place, most, self._moved)
        return self._tails[place]

    def add(self, member: Looks) -> None:
        self._members = [each for each in self._members if not each.closed]
        self._members.append(member)

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
            if not member.closed:
                member.look()
