"""Read a topic without a group: one page of it, or all messages from now on.

Positions are opaque. So a tail asks for the end of the topic (``latest``) from time to time, and reads up to
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

from app.api.http.slices import Slices
from app.api.http.start_points import StartPoint, text_of
from app.brokers.portable import size_of
from app.errors import BrokerRefused, BrokerUnavailable, PositionOutOfRange
from app.interfaces import Log
from app.model.message import Message, Partition
from app.model.metadata import PartitionMetadata

READ = 4  # units of a record that is read, wanted or not
LOOK_EVERY = 0.25  # seconds between reads of a topic without new messages
HEARTBEAT_EVERY = 15.0  # seconds until a comment keeps proxies from closing an idle stream


class PageBounds(NamedTuple):
    """The limits of one page: the number of messages, the bytes of their records, and the seconds. A page has
    at least one message, even if this message exceeds the limit of bytes."""

    messages: int
    bytes: int
    seconds: float


MessageFilter = Callable[[Message], bool]
"""A function that returns True for a message that a reader wants."""


def accept_every(_: Message) -> bool:
    """Accept every message."""
    return True


class RecordPage:
    """A page of messages, and the places at which the next page starts. ``looked_at`` counts all messages
    that were read, including those that were not wanted."""

    def __init__(
        self, bounds: PageBounds, places: dict[int, StartPoint], wanted: MessageFilter
    ) -> None:
        self.messages: list[Message] = []
        self.looked_at = 0
        self.next = dict(places)
        self._wanted = wanted
        self.complete = False
        self._bounds = bounds
        self._bytes = 0

    def take(self, message: Message) -> bool:
        """Add a message to the page if the reader wants it. Return False if the page is full; the next page
        then starts with this message."""
        number = message.partition.number
        if not self._wanted(message):
            self.looked_at += 1
            self.next[number] = StartPoint(message.position, after=True)
            return True
        size = size_of(message.record)
        if self.messages and (
            len(self.messages) == self._bounds.messages or self._bytes + size > self._bounds.bytes
        ):
            self.next[number] = StartPoint(message.position)
            return False
        self.looked_at += 1
        self.messages.append(message)
        self._bytes += size
        self.next[number] = StartPoint(message.position, after=True)
        return True


class Gap(NamedTuple):
    """A range of records that retention deleted before they were read. Reading continues at ``earliest``."""

    partition: int
    place: StartPoint
    earliest: str


Item = Message | Gap | None
"""An item of a tail: a message, a gap, or None from time to time while nothing arrives."""


async def partitions_of(log: Log, topic: str) -> tuple[PartitionMetadata, ...] | None:
    """Return the partitions of a topic, or None if it does not exist."""
    found = await log.metadata([topic])
    return next((each.partitions for each in found.topics if each.name == topic), None)


async def peek(
    log: Log,
    topic: str,
    ends: Sequence[PartitionMetadata],
    places: dict[int, StartPoint],
    bounds: PageBounds,
    wanted: MessageFilter = accept_every,
) -> RecordPage:
    """Read a page from ``places`` to ``ends``, partition after partition. Raise BrokerUnavailable if no
    record arrived in time."""
    page = RecordPage(bounds, places, wanted)
    try:
        async with asyncio.timeout(bounds.seconds):
            page.complete = await _fill_page(page, log, topic, ends)
    except TimeoutError:
        if not page.looked_at:
            raise BrokerUnavailable(
                f"{topic} sent no records within {bounds.seconds:g} s", broker=log.name
            ) from None
    return page


async def _fill_page(
    page: RecordPage, log: Log, topic: str, ends: Sequence[PartitionMetadata]
) -> bool:
    """Read messages into the page. Return True if all partitions were read to their end."""
    slices = Slices()
    for each in ends:
        place = page.next[each.number]
        async with aclosing(read(log, topic, each, place)) as messages:
            async for message in messages:
                await slices.spend(READ + (size_of(message.record) >> 10))
                if not page.take(message):
                    return False
        page.next[each.number] = StartPoint(each.latest)
    return True


async def read(
    log: Log, topic: str, end: PartitionMetadata, place: StartPoint
) -> AsyncGenerator[Message, None]:
    """Yield the messages of one partition from ``place`` up to the latest position in ``end``."""
    if place.position == end.latest:
        return
    partition = Partition(topic, end.number)
    async with aclosing(log.read(partition, place.position, end.latest)) as messages:
        async for message in messages:
            if not (place.after and message.position == place.position):
                yield message


@dataclass(eq=False)
class TopicTail:
    """A reader of one topic that yields all messages from ``places`` on, until ``stopped``.

    ``places`` is updated as messages are read. A client that lost the stream can continue at its last ``at``.
    A partition that is created later is read from its earliest record, unless only the partition ``only`` is
    read.
    """

    log: Log
    topic: str
    places: dict[int, StartPoint]
    stopped: asyncio.Event
    only: int | None = None

    @property
    def at(self) -> str:
        """Return the current places as text, from which a client can continue."""
        return text_of(self.places)

    def items(self) -> AsyncGenerator[Item, None]:
        """Yield the items of this topic alone, as ``follow`` does."""
        return follow((self,), self.stopped)

    async def news(self) -> AsyncGenerator[Message | Gap, None]:
        """Yield the messages and gaps since the last call, up to the current ends of the partitions. Raise
        BrokerRefused if the topic was deleted."""
        ends = await partitions_of(self.log, self.topic)
        if not ends:
            raise BrokerRefused(
                f"topic {self.topic} was deleted", kind="unknown-topic", broker=self.log.name
            )
        for end in ends:
            if self.only in (None, end.number) and end.latest:  # an election leaves the end unknown
                async with aclosing(self._partition_past_gaps(end)) as items:
                    async for item in items:
                        yield item

    async def _partition_past_gaps(
        self, end: PartitionMetadata
    ) -> AsyncGenerator[Message | Gap, None]:
        """Yield the messages and gaps of a partition up to its end. After a gap, reading continues at once,
        because the caller may not call again."""
        for _ in range(2):
            item: Message | Gap | None = None
            async for item in self._partition(end):
                yield item
            if not isinstance(item, Gap):
                return

    async def _partition(self, end: PartitionMetadata) -> AsyncGenerator[Message | Gap, None]:
        """Yield the messages of a partition up to its end. Yield one gap and stop if retention deleted the
        records at the current place."""
        place = self.places.setdefault(end.number, StartPoint(end.earliest))
        try:
            async with aclosing(read(self.log, self.topic, end, place)) as messages:
                async for message in messages:
                    self.places[end.number] = StartPoint(message.position, after=True)
                    yield message
        except PositionOutOfRange as error:
            earliest = error.earliest or end.earliest
            gap = Gap(end.number, self.places[end.number], earliest)
            self.places[end.number] = StartPoint(earliest)
            yield gap
        else:
            self.places[end.number] = StartPoint(end.latest)


async def follow(tails: Sequence[TopicTail], stopped: asyncio.Event) -> AsyncGenerator[Item, None]:
    """Yield all items of the tails, topic after topic, and None from time to time while nothing arrives.

    Messages that exist already are always yielded. If ``stopped`` is set from the start, the stream ends at
    the current end. Raises BrokerError if a broker fails or a topic is deleted.
    """
    last_item = time.monotonic()
    while True:
        last_look = stopped.is_set()
        for tail in tails:
            async with aclosing(tail.news()) as news:
                async for item in news:
                    last_item = time.monotonic()
                    yield item
        if last_look:
            return
        if time.monotonic() - last_item >= HEARTBEAT_EVERY:
            last_item = time.monotonic()
            yield None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                await stopped.wait()
