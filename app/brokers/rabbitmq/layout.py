"""Remember the queues of each topic, and count them again from time to time while the topic is in use (ADR
0013).

The publisher, the members and the admin client of one process share one cache, so one request serves all of
them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import msgspec

from app.brokers.topic_resolver import BOUND
from app.errors import BrokerRefused

AHEAD = 16
"""The longest gap of numbers without a queue. A queue after a longer gap is not found."""
WIDE = 6
"""Every sixth count of a topic's queues asks for all queues, and for ``AHEAD`` numbers after the last one.
The other counts ask only for missing queues and the next number. RabbitMQ logs each request for a queue
that does not exist."""
NEVER = float("-inf")

Name = tuple[str, str]
"""The topic, and the group that has its own queues. The group is "" if all groups share the queues."""


class QueueLayout(msgspec.Struct, frozen=True):
    """The partitions of a topic, from 0 to ``count`` - 1. The partitions in ``missing`` have no queue now."""

    count: int
    missing: tuple[int, ...] = ()

    @property
    def there(self) -> list[int]:
        return [number for number in range(self.count) if number not in self.missing]


class QueueProbe(NamedTuple):
    """The queue numbers to ask for. They are the numbers below ``least`` that are not in ``there``, and
    ``ahead`` numbers after the last queue that was found."""

    least: int = 0
    there: frozenset[int] = frozenset()
    ahead: int = AHEAD

    def end(self, found: set[int]) -> int:
        return max(self.least, max(found, default=-1) + 1 + self.ahead)


def next_probe(known: QueueLayout | None, *, wide: bool) -> QueueProbe:
    if known is None:
        return QueueProbe()
    return QueueProbe(known.count) if wide else QueueProbe(known.count, frozenset(known.there), 1)


class KnownLayout:
    """The result of the last count of one topic's queues, and when it was counted, by the event loop's
    clock."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.layout: QueueLayout | None = None
        self.at = self.wide_at = NEVER


class LayoutCache:
    """The last counts of the queues of all topics. ``age`` is the time in seconds after which a topic is
    counted again."""

    def __init__(self, age: float) -> None:
        self._age = age
        self._seen: dict[Name, KnownLayout] = {}

    async def of(
        self, name: Name, age: float, ask: Callable[[QueueProbe], Awaitable[QueueLayout]]
    ) -> QueueLayout:
        """Return the queues of a topic. They are counted again unless the last count is at most ``age``
        seconds old.

        With age 0, all queues are counted. A queue that was seen once counts as a partition until the whole
        topic is deleted, so that keys keep their partitions.
        """
        seen = self._of(name)
        async with seen.lock:
            now = asyncio.get_running_loop().time()
            known = seen.layout
            if known is not None and now - seen.at < age:
                return known
            wide = not age or now - seen.wide_at >= WIDE * self._age
            try:
                seen.layout = layout = await ask(next_probe(known, wide=wide))
            except BrokerRefused:
                seen.layout = None
                raise
            seen.at = now
            seen.wide_at = now if wide else seen.wide_at
            return layout

    @contextlib.asynccontextmanager
    async def changing(self, name: Name) -> AsyncIterator[QueueLayout | None]:
        """Prevent that queues are counted while the caller creates some. Afterwards discard the last count.

        Yield the result of the last count, or None.
        """
        seen = self._of(name)
        async with seen.lock:
            try:
                yield seen.layout
            finally:
                seen.at = seen.wide_at = NEVER

    def expire(self, name: Name) -> None:
        if (seen := self._seen.get(name)) is not None:
            seen.at = seen.wide_at = NEVER

    def _of(self, name: Name) -> KnownLayout:
        if (
            len(self._seen) >= BOUND and name not in self._seen
        ):  # names come from templates, so producers choose them
            self._seen.clear()
        return self._seen.setdefault(name, KnownLayout())
