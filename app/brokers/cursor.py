"""A place in a partition from which many read at once: each page is read once, each record decoded once,
and a follower that wants nothing of a page costs nothing: its position is the cursor's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from app.bindings.record import Decoded
from app.bindings.table import BINDINGS
from app.brokers.header_type import type_in
from app.errors import SenderError
from app.filters.type_index import TypeIndex
from app.interfaces import Wanted
from app.model.message import Message, Page, Partition

LOOKS = 20_000  # filters evaluated before the event loop gets its turn again, about
FEWEST = 16  # records of a page, however many filters look at each

_decode = BINDINGS["embedded"].decode


class Follower(Protocol):
    """A partition as one consumer owns it. ``wanted``: None for everything. ``absent``: offsets without a
    record that it passed, less those that its ``cursor`` had passed when it came."""

    epoch: int
    wanted: Wanted | None
    cursor: Cursor | None
    absent: int

    def offered(self, messages: list[Message], size: int) -> bool:
        """Take these, of so many bytes; False: no room, it leaves before the first of them."""

    def left(self, position: int) -> None:
        """It follows no more, and has been handed or passed over all that lies before ``position``."""

    def failed(self, error: Exception) -> None:
        """Reading from here came to this; it has left."""


class Source(Protocol):
    """What is read. ``by_headers``: an event's type is told by its headers, where they tell it. Raises
    PositionOutOfRange, BrokerUnavailable."""

    place: Partition
    by_headers: bool

    def at_hand(self, position: int, until: int, most: int) -> Page | None:
        """Without waiting; None: ``page`` has to."""

    async def page(self, position: int, until: int, most: int) -> Page: ...


class Cursor:
    """Reads while a follower asks for more, and hands to all: those that did not ask keep it until they
    do, or leave. Nobody waits for anybody.

    ``absent`` how many of the offsets that it passed have no record.
    ``limit``  up to where this cursor reads now: the next cursor, or the end of the log.
    ``moved``  it stands somewhere else now.
    """

    def __init__(
        self,
        source: Source,
        position: int,
        most: int,
        limit: Callable[[Cursor], int],
        moved: Callable[[Cursor], None],
    ) -> None:
        self.position = position
        self.absent = 0
        self.followers: dict[Follower, None] = {}
        self._source = source
        self._by_headers = source.by_headers
        self._most = most
        self._limit = limit
        self._moved = moved
        self._asking: set[Follower] = set()
        self._index: TypeIndex[Follower] = TypeIndex()
        self._unfiltered: dict[Follower, None] = {}
        self._reading: asyncio.Task[None] | None = None

    def add(self, follower: Follower, *, asking: bool) -> None:
        follower.cursor = self
        follower.absent -= self.absent
        self.followers[follower] = None
        if follower.wanted is None:
            self._unfiltered[follower] = None
        else:
            self._index.add(follower, follower.wanted.types)
        if asking:
            self._asking.add(follower)

    def remove(self, follower: Follower) -> None:
        follower.cursor = None
        follower.absent += self.absent
        del self.followers[follower]
        self._asking.discard(follower)
        if follower.wanted is None:
            del self._unfiltered[follower]
        else:
            self._index.remove(follower, follower.wanted.types)

    def ask(self, follower: Follower) -> None:
        self._asking.add(follower)
        self.stir()

    def asks(self, follower: Follower) -> bool:
        return follower in self._asking

    def stir(self) -> None:
        """There may be something to read, or somebody who asks for it."""
        if self._reading is not None or not self._due():
            return
        page = self._source.at_hand(self.position, self._limit(self), self._page_size())
        if page is None:
            name = f"cursor {self._source.place}"
            self._reading = asyncio.create_task(self._read_on(), name=name)
            return
        try:
            self._hand_out(page)
        except Exception as error:  # noqa: BLE001 - as in ``_read_on``
            self._give_up(error)

    def abandon(self) -> None:
        """Nobody follows any more: what it is reading is of no use."""
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()

    def _due(self) -> bool:
        return bool(self._asking) and self.position < self._limit(self)

    async def _read_on(self) -> None:
        try:
            while self._due():
                page = await self._source.page(self.position, self._limit(self), self._page_size())
                if not self.followers:
                    return
                self._hand_out(page)
        except Exception as error:  # noqa: BLE001 - each consumer raises it where it is polled
            if self.followers:
                self._give_up(error)
        finally:
            self._reading = None

    def _page_size(self) -> int:
        looks = 1 + len(self._index.anything) + len(self._unfiltered)
        return min(self._most, max(FEWEST, LOOKS // looks))

    def _hand_out(self, page: Page) -> None:
        """A cursor may have come to stand within the page while it was read: up to there only."""
        messages, end = page.messages, min(page.next_offset, self._limit(self))
        if end < page.next_offset:
            messages = tuple(message for message in messages if message.offset < end)
        chosen = self._choose(messages)
        self.absent += end - self.position - len(messages)
        full: list[tuple[Follower, int]] = []
        for follower, batch in chosen.items():
            self._asking.discard(follower)
            if not follower.offered(batch, page.bytes * len(batch) // len(page.messages)):
                full.append((follower, batch[0].offset))
        self.position = end
        for follower, position in full:
            self.remove(follower)
            follower.left(position)
        self._moved(self)

    def _choose(self, messages: Sequence[Message]) -> dict[Follower, list[Message]]:
        chosen: dict[Follower, list[Message]] = {}
        look = len(self._unfiltered) < len(self.followers)
        for message in messages:
            kind = type_in(message.record.headers) if look and self._by_headers else None
            if kind is not None and not self._may_want(kind):
                continue  # most of what a busy topic holds may be of other types
            decoded = _event_in(message) if look else None
            whom = self._who_wants(decoded, kind) if look else self._unfiltered
            for follower in whom:
                own = _for(follower.epoch, message, decoded)
                batch = chosen.get(follower)
                if batch is None:
                    chosen[follower] = [own]
                else:
                    batch.append(own)
        return chosen

    def _who_wants(self, decoded: Decoded | None, kind: str | None) -> Sequence[Follower]:
        """A record that is no event goes to all: what becomes of it is not the log's to say. ``kind``: where its
        headers tell a type, to those that may want one of it."""
        if decoded is None:
            return tuple(self.followers) if kind is None else self._may_want(kind)
        event = decoded.event
        found = self._may_want(event.attributes.get("type", ""))
        return [one for one in found if one.wanted is None or one.wanted.holds(event)]

    def _may_want(self, kind: str) -> list[Follower]:
        return [*self._unfiltered, *self._index.of(kind), *self._index.anything]

    def _give_up(self, error: Exception) -> None:
        """Each follower may begin again from here by itself."""
        for follower in tuple(self.followers):
            self.remove(follower)
            follower.left(self.position)
            follower.failed(error)
        self._moved(self)


def _event_in(message: Message) -> Decoded | None:
    try:
        return _decode(message.record)
    except SenderError:
        return None


def _for(epoch: int, message: Message, decoded: Decoded | None) -> Message:
    return Message(
        message.record,
        message.partition,
        message.position,
        message.offset,
        message.time_ms,
        epoch,
        decoded,
    )
