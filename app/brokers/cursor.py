"""A place in a partition from which many read at once: each page is read once, each record decoded once,
and a follower that wants nothing of a page costs nothing: its position is the cursor's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from app.bindings.record import Decoded, Record
from app.brokers.header_type import type_in
from app.errors import SenderError
from app.filters.selection import Selection
from app.filters.type_index import TypeIndex
from app.model.message import Message, MessagePage, Partition

LOOKS = 20_000  # filters evaluated, and messages handed out, between two turns of the event loop
FAILURE = 16  # of them that a filter costs in which an expression fails


class Follower(Protocol):
    """A partition as one consumer owns it. ``selection``: the events that it wants, None for everything, as
    ``decode`` reads them. ``absent``: offsets without a record that it passed, less those that its ``cursor`` had
    passed when it came."""

    epoch: int
    selection: Selection | None
    decode: Callable[[Record], Decoded] | None
    cursor: Cursor | None
    absent: int

    def offered(self, messages: list[Message], size: int) -> bool:
        """Take these, of so many bytes; False: no room, it leaves before the first of them."""

    def filter_failed(self, offset: int) -> None:
        """Note that the message of this offset is passed over because an expression failed on it."""

    def left(self, position: int) -> None:
        """It follows no more, and has been handed or passed over all that lies before ``position``."""

    def failed(self, error: Exception) -> None:
        """Reading from here came to this; it has left."""


class Source(Protocol):
    """What is read. ``by_headers``: an event's type is told by its headers, where they tell it. Raises
    PositionOutOfRange, BrokerUnavailable."""

    place: Partition
    by_headers: bool

    def at_hand(self, position: int, until: int, most: int) -> MessagePage | None:
        """Without waiting; None: ``page`` has to."""

    async def page(self, position: int, until: int, most: int) -> MessagePage: ...


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
        self._decode: Callable[[Record], Decoded] | None = None  # None: nobody filters
        self._unfiltered: dict[Follower, None] = {}
        self._units = 0  # filters of all followers together
        self._looks = 0  # since the event loop had its turn
        self._rest: MessagePage | None = (
            None  # at ``position``: what is left of a page that took too many looks
        )
        self._reading: asyncio.Task[None] | None = None

    def add(self, follower: Follower, *, asking: bool) -> None:
        follower.cursor = self
        follower.absent -= self.absent
        self.followers[follower] = None
        if follower.selection is None:
            self._unfiltered[follower] = None
        else:
            self._index.add(follower, follower.selection.types)
            self._units += follower.selection.units
            self._decode = follower.decode
        if asking:
            self._asking.add(follower)

    def remove(self, follower: Follower) -> None:
        follower.cursor = None
        follower.absent += self.absent
        del self.followers[follower]
        self._asking.discard(follower)
        if follower.selection is None:
            del self._unfiltered[follower]
        else:
            self._index.remove(follower, follower.selection.types)
            self._units -= follower.selection.units

    def ask(self, follower: Follower) -> None:
        self._asking.add(follower)
        self.stir()

    def asks(self, follower: Follower) -> bool:
        return follower in self._asking

    def stir(self) -> None:
        """There may be something to read, or somebody who asks for it."""
        if self._rest is None and self._reading is None and self._due():
            self._hand_out_at_hand()
        self._begin()

    def _begin(self) -> None:
        if self._reading is None and self._due():
            name = f"cursor {self._source.place}"
            self._reading = asyncio.create_task(self._read_on(), name=name)

    def _hand_out_at_hand(self) -> None:
        page = self._source.at_hand(self.position, self._limit(self), self._most)
        if page is None:
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
                page = self._rest
                if page is None:
                    page = await self._source.page(self.position, self._limit(self), self._most)
                if not self.followers:
                    return
                self._hand_out(page)
                if self._rest is not None:
                    await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001 - each consumer raises it where it is polled
            if self.followers:
                self._give_up(error)
        finally:
            self._reading = None

    def _hand_out(self, page: MessagePage) -> None:
        """Hand out a page, or the first part of one that takes too many looks. A cursor may have come to stand within
        the page while it was read: up to there only."""
        messages, end = page.messages, min(page.next_offset, self._limit(self))
        if end < page.next_offset:
            messages = tuple(message for message in messages if message.offset < end)
        chosen, done = self._choose(messages)
        self._rest = None
        if done < len(messages):
            end = messages[done].offset
            left = len(page.messages) - done
            size = page.bytes * left // len(page.messages)
            self._rest = MessagePage(page.messages[done:], page.next_offset, size)
            messages = messages[:done]
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

    def _choose(self, messages: Sequence[Message]) -> tuple[dict[Follower, list[Message]], int]:
        """Return what each follower gets, and how many messages were looked at."""
        chosen: dict[Follower, list[Message]] = {}
        look = len(self._unfiltered) < len(self.followers)
        self._looks = 0
        for number, message in enumerate(messages):
            if self._looks >= LOOKS:
                return chosen, number
            kind = type_in(message.record.headers) if look and self._by_headers else None
            if kind is not None and not self._may_want(kind):
                continue  # most of what a busy topic holds may be of other types
            decoded = self._event_in(message.record) if look else None
            whom = self._who_wants(message, decoded, kind) if look else self._unfiltered
            self._looks += 1 + len(whom)
            for follower in whom:
                own = _for(follower.epoch, message, decoded)
                batch = chosen.get(follower)
                if batch is None:
                    chosen[follower] = [own]
                else:
                    batch.append(own)
        return chosen, len(messages)

    def _event_in(self, record: Record) -> Decoded | None:
        try:
            return None if self._decode is None else self._decode(record)
        except SenderError:
            return None

    def _who_wants(
        self, message: Message, decoded: Decoded | None, kind: str | None
    ) -> Sequence[Follower]:
        """Return the followers that get a message. A record that is no event goes to all that may want the ``kind``
        that its headers name, because each of them decides what becomes of it."""
        if decoded is None:
            return tuple(self.followers) if kind is None else self._may_want(kind)
        event, found = decoded.event, []
        asked = self._may_want(event.attributes.get("type", ""))
        for one in asked:
            selection = one.selection
            if selection is None or selection.holds(event):
                found.append(one)
            elif selection.failed:
                self._looks += FAILURE * selection.units
                one.filter_failed(message.offset)
        self._looks += len(asked) * self._units // len(self.followers)
        return found

    def _may_want(self, kind: str) -> list[Follower]:
        return [*self._unfiltered, *self._index.of(kind), *self._index.anything]

    def _give_up(self, error: Exception) -> None:
        """Each follower may begin again from here by itself."""
        for follower in tuple(self.followers):
            self.remove(follower)
            follower.left(self.position)
            follower.failed(error)
        self._moved(self)


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
