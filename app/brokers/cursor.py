"""Read a partition once for several group members (followers) that are at the same position.

Each page is read once and each record is decoded once for all followers. A follower that wants no message of
a page costs nothing, because it has no position of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from app.bindings.record import Decoded, Record
from app.brokers.header_type import type_from_headers
from app.errors import SenderError
from app.filters.selection import Selection
from app.filters.type_index import FilterIndex
from app.model.message import Message, MessagePage, Partition

LOOKS = (
    20_000  # filter evaluations and messages handed out before the cursor yields to the event loop
)
RARE = (
    8  # events of unwanted types are looked for in headers if more than one in so many was unwanted
)
FAILURE = 16  # evaluations that a filter counts for if its expression fails


class CursorFollower(Protocol):
    """A partition as one group member reads it through a shared cursor.

    Attributes:
        epoch: The number of the member's ownership of the partition.
        selection: The events that the member wants. None means all.
        decode: A function that decodes a record for ``selection``.
        cursor: The cursor through which the follower reads, if any.
        absent: The number of offsets without a record that the follower has passed. While the follower has a
            cursor, the value of ``absent`` in the cursor must be added.
    """

    epoch: int
    selection: Selection | None
    decode: Callable[[Record], Decoded] | None
    cursor: SharedCursor | None
    absent: int

    def offered(self, messages: list[Message], size: int) -> bool:
        """Accept messages of ``size`` bytes together.

        Return False if there is no room. The cursor then removes the follower before the first of these
        messages.
        """

    def filter_failed(self, offset: int) -> None:
        """Note that the message at ``offset`` was skipped, because a filter expression failed on it."""

    def left(self, position: int) -> None:
        """Note that the follower has left its cursor. All messages before ``position`` were offered or
        skipped."""

    def failed(self, error: Exception) -> None:
        """Handle an error of reading. The cursor has removed the follower already."""


class PageSource(Protocol):
    """The partition from which a cursor reads pages. Reading raises PositionOutOfRange or
    BrokerUnavailable.

    ``by_headers`` is True if the type of an event may be read from its headers alone.
    """

    place: Partition
    by_headers: bool

    def at_hand(self, position: int, until: int, most: int) -> MessagePage | None:
        """Return a page that is already in memory, or None if ``page`` must read it."""

    async def page(self, position: int, until: int, most: int) -> MessagePage: ...


class SharedCursor:
    """A reader of one partition that serves all of its followers.

    The cursor reads while at least one follower has asked for more, and offers each page to all followers.
    A follower that did not ask keeps its messages until it asks or leaves. No follower waits for another.

    Args:
        source: The partition.
        position: The offset at which reading begins.
        most: Most records of a page.
        limit: Returns the offset up to which this cursor reads: the next cursor, or the end of the log.
        moved: Called after the position has changed.

    Attributes:
        absent: The count of offsets without a record that the cursor has passed.
    """

    def __init__(
        self,
        source: PageSource,
        position: int,
        most: int,
        limit: Callable[[SharedCursor], int],
        moved: Callable[[SharedCursor], None],
    ) -> None:
        self.position = position
        self.absent = 0
        self.followers: dict[CursorFollower, None] = {}
        self._source = source
        self._by_headers = source.by_headers
        self._most = most
        self._limit = limit
        self._moved = moved
        self._asking: set[CursorFollower] = set()
        self._index: FilterIndex[CursorFollower] = FilterIndex()
        self._decode: Callable[[Record], Decoded] | None = None  # None: no follower has a filter
        self._unfiltered: dict[CursorFollower, None] = {}
        self._units = 0  # filter units of all followers together
        self._types_differ = True  # whether a part of the last page was of other types
        self._looks = 0  # evaluations since the cursor last yielded
        # The unread part of a page that took too many evaluations; it begins at ``position``.
        self._rest: MessagePage | None = None
        self._reading: asyncio.Task[None] | None = None

    def add(self, follower: CursorFollower, *, asking: bool) -> None:
        follower.cursor = self
        follower.absent -= self.absent
        self.followers[follower] = None
        selection = follower.selection
        if selection is None:
            self._unfiltered[follower] = None
        else:
            self._index.add(follower, selection.types, selection.exact)
            self._units += selection.units
            self._decode = follower.decode
        if asking:
            self._asking.add(follower)

    def remove(self, follower: CursorFollower) -> None:
        follower.cursor = None
        follower.absent += self.absent
        del self.followers[follower]
        self._asking.discard(follower)
        selection = follower.selection
        if selection is None:
            del self._unfiltered[follower]
        else:
            self._index.remove(follower, selection.types, selection.exact)
            self._units -= selection.units

    def ask(self, follower: CursorFollower) -> None:
        self._asking.add(follower)
        self.stir()

    def asks(self, follower: CursorFollower) -> bool:
        return follower in self._asking

    def stir(self) -> None:
        """Start reading if a follower has asked for messages and there may be records to read."""
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
        """Cancel the read in progress, because the cursor has no follower left."""
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
        """Offer the messages of a page to the followers. If filtering takes too many evaluations, offer only
        the first part of the page.

        Another cursor may have begun within this page while the page was read. Then only the messages before
        that cursor are offered.
        """
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
        full: list[tuple[CursorFollower, int]] = []
        for follower, batch in chosen.items():
            self._asking.discard(follower)
            if not follower.offered(batch, page.bytes * len(batch) // len(page.messages)):
                full.append((follower, batch[0].offset))
        self.position = end
        for follower, position in full:
            self.remove(follower)
            follower.left(position)
        self._moved(self)

    def _choose(
        self, messages: Sequence[Message]
    ) -> tuple[dict[CursorFollower, list[Message]], int]:
        """Return the messages for each follower, and how many messages of the page were examined."""
        chosen: dict[CursorFollower, list[Message]] = {}
        look = len(self._unfiltered) < len(self.followers)
        by_headers = look and self._by_headers and self._types_differ
        self._looks = strangers = 0
        for number, message in enumerate(messages):
            if self._looks >= LOOKS:
                return chosen, number
            if by_headers and self._is_stranger(message.record):
                strangers += 1
                continue  # most events of a busy topic may be of other types
            decoded = self._event_in(message.record) if look else None
            whom = self._who_wants(message, decoded) if look else self._unfiltered
            self._looks += 1 + len(whom)
            strangers += not whom
            for follower in whom:
                own = Message(
                    message.record,
                    message.partition,
                    message.position,
                    message.offset,
                    message.time_ms,
                    follower.epoch,
                    decoded,
                )
                batch = chosen.get(follower)
                if batch is None:
                    chosen[follower] = [own]
                else:
                    batch.append(own)
        self._types_differ = strangers * RARE > len(messages)
        return chosen, len(messages)

    def _is_stranger(self, record: Record) -> bool:
        """Return True if the headers of a record show a type that no follower may want. This costs less than
        decoding."""
        kind = type_from_headers(record.headers)
        return kind is not None and self._unwanted(kind)

    def _event_in(self, record: Record) -> Decoded | None:
        try:
            return None if self._decode is None else self._decode(record)
        except SenderError:
            return None

    def _who_wants(self, message: Message, decoded: Decoded | None) -> Sequence[CursorFollower]:
        """Return the followers that get a message.

        A record that is no event goes to all followers that may want the type in its headers. Each of them
        decides what to do with it.
        """
        if decoded is None:
            kind = type_from_headers(message.record.headers) if self._by_headers else None
            return [one for one in self.followers if kind is None or _may_want(one, kind)]
        event, found = decoded.event, []
        asked = [*self._unfiltered, *self._index.of(event.attributes)]
        for one in asked:
            selection = one.selection
            if selection is None or selection.holds(event):
                found.append(one)
            elif selection.failed:
                self._looks += FAILURE * selection.units
                one.filter_failed(message.offset)
        self._looks += len(asked) * self._units // len(self.followers)
        return found

    def _unwanted(self, kind: str) -> bool:
        """Return True if no follower can want an event of this type."""
        types = self._index.by_type
        if self._unfiltered or types.anything or not self._index.knows_types_only:
            return False
        return not types.of(kind)

    def _give_up(self, error: Exception) -> None:
        """Remove all followers after an error. Each of them may begin again at this position."""
        for follower in tuple(self.followers):
            self.remove(follower)
            follower.left(self.position)
            follower.failed(error)
        self._moved(self)


def _may_want(follower: CursorFollower, kind: str) -> bool:
    selection = follower.selection
    return selection is None or selection.types is None or selection.types.holds(kind)
