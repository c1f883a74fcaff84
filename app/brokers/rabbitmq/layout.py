"""Count the queues of a topic, again and again while it is in use, for queues come and go (ADR 0013).

Producer, members and admin of one process share what was seen, and one of them asks for all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import msgspec

from app.brokers.asking import BOUND
from app.errors import BrokerRefused

AHEAD = 16
"""Numbers in a row that may lack a queue: one that follows more of them is not found."""
WIDE = 6
"""One of so many looks asks for all queues, and so far ahead. The others ask for what is missing, and for the
next number alone: RabbitMQ logs each question for a queue that is not there."""
NEVER = float("-inf")

Name = tuple[str, str]
"""Topic, and the group whose queues they are; "" where groups share them."""


class Layout(msgspec.Struct, frozen=True):
    """Partitions 0 to ``count``, exclusive. Those in ``missing`` have no queue now."""

    count: int
    missing: tuple[int, ...] = ()

    @property
    def there(self) -> list[int]:
        return [number for number in range(self.count) if number not in self.missing]


class Look(NamedTuple):
    """The queues to ask for: numbers below ``least`` that are not ``there``, and ``ahead`` more after the last."""

    least: int = 0
    there: frozenset[int] = frozenset()
    ahead: int = AHEAD

    def end(self, found: set[int]) -> int:
        return max(self.least, max(found, default=-1) + 1 + self.ahead)


def look_after(known: Layout | None, *, wide: bool) -> Look:
    if known is None:
        return Look()
    return Look(known.count) if wide else Look(known.count, frozenset(known.there), 1)


class Seen:
    """The last layout of one topic, and the time of it by the loop's clock."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.layout: Layout | None = None
        self.at = self.wide_at = NEVER


class Layouts:
    """``age``: seconds between looks."""

    def __init__(self, age: float) -> None:
        self._age = age
        self._seen: dict[Name, Seen] = {}

    async def of(self, name: Name, age: float, ask: Callable[[Look], Awaitable[Layout]]) -> Layout:
        """Return what was seen in the last ``age`` seconds, or ask; with 0 for all queues. A queue that was seen once is
        counted until its whole topic is gone: its keys must not move when it vanishes."""
        seen = self._of(name)
        async with seen.lock:
            now = asyncio.get_running_loop().time()
            known = seen.layout
            if known is not None and now - seen.at < age:
                return known
            wide = not age or now - seen.wide_at >= WIDE * self._age
            try:
                seen.layout = layout = await ask(look_after(known, wide=wide))
            except BrokerRefused:
                seen.layout = None
                raise
            seen.at = now
            seen.wide_at = now if wide else seen.wide_at
            return layout

    @contextlib.asynccontextmanager
    async def changing(self, name: Name) -> AsyncIterator[Layout | None]:
        """Keep others from counting while queues are made. What was seen before is given, and is old
        from then on."""
        seen = self._of(name)
        async with seen.lock:
            try:
                yield seen.layout
            finally:
                seen.at = seen.wide_at = NEVER

    def expire(self, name: Name) -> None:
        if (seen := self._seen.get(name)) is not None:
            seen.at = seen.wide_at = NEVER

    def _of(self, name: Name) -> Seen:
        if len(self._seen) >= BOUND and name not in self._seen:  # names come from templates
            self._seen.clear()
        return self._seen.setdefault(name, Seen())
