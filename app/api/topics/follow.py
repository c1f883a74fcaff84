"""Reading a topic without a group: a page of it, or all that comes from now on.

Positions are opaque (design: Log), so following goes from one ``latest`` to the next.
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

READ = 4  # units of a record that is read and perhaps passed over
LOOK_EVERY = 0.25  # seconds between two looks at a topic that rests
HEARTBEAT_EVERY = 15.0  # seconds; a comment then keeps proxies from closing the stream


class Bounds(NamedTuple):
    """Of one page: messages, bytes of their records, seconds. The first message is always in it."""

    messages: int
    bytes: int
    seconds: float


Wanted = Callable[[Message], bool]


def everything(_: Message) -> bool:
    return True


class Page:
    """What was read, and the places that come next. ``looked_at``: messages, whether wanted or not."""

    def __init__(self, bounds: Bounds, places: dict[int, StartPoint], wanted: Wanted) -> None:
        self.messages: list[Message] = []
        self.looked_at = 0
        self.next = dict(places)
        self._wanted = wanted
        self.complete = False
        self._bounds = bounds
        self._bytes = 0

    def take(self, message: Message) -> bool:
        """False: it is full, and the message is the next one."""
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
    """What was to be read is gone by now: retention was faster. It goes on at ``earliest``."""

    partition: int
    place: StartPoint
    earliest: str


Item = Message | Gap | None


async def partitions_of(log: Log, topic: str) -> tuple[PartitionMetadata, ...] | None:
    """None: there is no such topic."""
    found = await log.metadata([topic])
    return next((each.partitions for each in found.topics if each.name == topic), None)


async def peek(
    log: Log,
    topic: str,
    ends: Sequence[PartitionMetadata],
    places: dict[int, StartPoint],
    bounds: Bounds,
    wanted: Wanted = everything,
) -> Page:
    """From ``places`` to ``ends``, partition after partition. Raises BrokerUnavailable where nothing at
    all came in time."""
    page = Page(bounds, places, wanted)
    try:
        async with asyncio.timeout(bounds.seconds):
            page.complete = await _fill(page, log, topic, ends)
    except TimeoutError:
        if not page.looked_at:
            raise BrokerUnavailable(
                f"{topic} sent no records within {bounds.seconds:g} s", broker=log.name
            ) from None
    return page


async def _fill(page: Page, log: Log, topic: str, ends: Sequence[PartitionMetadata]) -> bool:
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
    """One partition from ``place`` to its end as it was."""
    if place.position == end.latest:
        return
    partition = Partition(topic, end.number)
    async with aclosing(log.read(partition, place.position, end.latest)) as messages:
        async for message in messages:
            if not (place.after and message.position == place.position):
                yield message


@dataclass(eq=False)
class Tail:
    """Every message from ``places`` on, until ``stopped``.

    ``places`` moves along: a client that lost the stream goes on with what ``at`` said last. A partition
    that appears later is read from its earliest (rule 10), unless one alone is followed (``only``).
    """

    log: Log
    topic: str
    places: dict[int, StartPoint]
    stopped: asyncio.Event
    only: int | None = None

    @property
    def at(self) -> str:
        return text_of(self.places)

    def items(self) -> AsyncGenerator[Item, None]:
        """As ``follow``."""
        return follow((self,), self.stopped)

    async def news(self) -> AsyncGenerator[Message | Gap, None]:
        """From where we are to the ends as they are now."""
        ends = await partitions_of(self.log, self.topic)
        if not ends:
            raise BrokerRefused(
                f"topic {self.topic} was deleted", kind="unknown-topic", broker=self.log.name
            )
        for end in ends:
            if self.only in (None, end.number) and end.latest:  # else nobody can say now
                async with aclosing(self._behind_gaps(end)) as items:
                    async for item in items:
                        yield item

    async def _behind_gaps(self, end: PartitionMetadata) -> AsyncGenerator[Message | Gap, None]:
        """What is left behind a gap comes at once: there may be no next look."""
        for _ in range(2):
            item: Message | Gap | None = None
            async for item in self._partition(end):
                yield item
            if not isinstance(item, Gap):
                return

    async def _partition(self, end: PartitionMetadata) -> AsyncGenerator[Message | Gap, None]:
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


async def follow(tails: Sequence[Tail], stopped: asyncio.Event) -> AsyncGenerator[Item, None]:
    """All that comes, topic after topic; None now and then while nothing does. What is there already is
    given in any case: with ``stopped`` from the start it goes to the end and no further. Raises
    BrokerError when the broker goes away, or a topic."""
    spoke = time.monotonic()
    while True:
        last_look = stopped.is_set()
        for tail in tails:
            async with aclosing(tail.news()) as news:
                async for item in news:
                    spoke = time.monotonic()
                    yield item
        if last_look:
            return
        if time.monotonic() - spoke >= HEARTBEAT_EVERY:
            spoke = time.monotonic()
            yield None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), LOOK_EVERY)
