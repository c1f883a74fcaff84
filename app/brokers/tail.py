"""All cursors of one partition, in the order of their positions, each with its followers.

Read one partition for all group members of this process (its followers) with as few cursors as possible. A
follower that is at the position of a cursor joins this cursor. A cursor reads up to the position of the next
cursor, and then both merge in one step, without a gap or duplicate. So all followers at the end of the log
share one cursor. A slow follower has its own cursor until it has caught up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter

from app.brokers.cursor import CursorFollower, SharedCursor
from app.model.message import MessagePage, Partition

_position = attrgetter("position")


class PartitionTail(ABC):
    """The shared reader of one partition. It has the cursors at which the partition is read, and the group
    members (followers) of each cursor. A subclass implements how pages are read.

    Args:
        place: The partition.
        most: Most records of a page.
        most_bytes: Most bytes of a page.
        moved: Called when the position of any follower has advanced.
        by_headers: Whether the type of an event may be read from its headers alone.
    """

    def __init__(
        self,
        place: Partition,
        most: int,
        most_bytes: int,
        moved: Callable[[], None],
        *,
        by_headers: bool = False,
    ) -> None:
        self.place = place
        self.by_headers = by_headers
        self._most = most
        self._most_bytes = most_bytes
        self._on_moved = moved
        self._cursors: list[SharedCursor] = []  # no two at one position

    @property
    @abstractmethod
    def end(self) -> int:
        """Return the offset up to which there may be records to read now."""

    def _dropped(self, cursor: SharedCursor) -> None:  # noqa: B027 - a reading that ends by itself may be left alone
        """React to the fact that the last follower has left ``cursor``."""

    def at_hand(self, position: int, until: int, most: int) -> MessagePage | None:  # noqa: ARG002
        """Return a page that is already in memory, or None if ``page`` must read it."""
        return None

    @abstractmethod
    async def page(self, position: int, until: int, most: int) -> MessagePage:
        """Read one page of at most ``most`` records between two offsets.

        Raises:
            PositionOutOfRange: The partition no longer holds ``position``.
            BrokerUnavailable: The broker could not be read.
        """

    def join(self, follower: CursorFollower, position: int) -> SharedCursor:
        """Add the follower to the cursor at ``position``. If the follower has a cursor already, do nothing.
        Return the follower's cursor."""
        if follower.cursor is None:
            self._at(position).add(follower, asking=False)
        assert follower.cursor is not None  # noqa: S101 - just added
        return follower.cursor

    def ask(self, follower: CursorFollower, position: int) -> None:
        """Request more messages for the follower, from ``position`` if it has no cursor yet."""
        self.join(follower, position).ask(follower)

    def leave(self, follower: CursorFollower) -> None:
        """Remove the follower from its cursor, because it wants no messages for now."""
        cursor = follower.cursor
        if cursor is not None:
            position = cursor.position
            cursor.remove(follower)
            self._drop_if_empty(cursor)
            follower.left(position)

    def fits(self, records: int, size: int) -> bool:
        """Return True if one follower may hold this many records and bytes that are not yet handed out."""
        return records <= self._most and size <= self._most_bytes

    def positions(self, counts: Callable[[CursorFollower], bool]) -> list[int]:
        """Return the positions of the cursors that have a follower for which ``counts`` returns True."""
        return [each.position for each in self._cursors if any(map(counts, each.followers))]

    def grown(self) -> None:
        """Continue to read at the end of the log, because it may have new records."""
        if self._cursors:  # other cursors read up to the position of the last one only
            self._cursors[-1].stir()

    def _at(self, position: int) -> SharedCursor:
        index = bisect_left(self._cursors, position, key=_position)
        if index < len(self._cursors) and self._cursors[index].position == position:
            return self._cursors[index]
        cursor = SharedCursor(self, position, self._most, self._limit, self._moved)
        self._cursors.insert(index, cursor)
        return cursor

    def _limit(self, cursor: SharedCursor) -> int:
        following = self._after(cursor)
        return self.end if following is None else following.position

    def _after(self, cursor: SharedCursor) -> SharedCursor | None:
        index = self._index(cursor) + 1
        return self._cursors[index] if index < len(self._cursors) else None

    def _index(self, cursor: SharedCursor) -> int:
        """Return the index of the cursor in the list of cursors. If the cursor has just reached the position
        of the next cursor, it is the first of the two."""
        return bisect_left(self._cursors, cursor.position, key=_position)

    def _moved(self, cursor: SharedCursor) -> None:
        self._on_moved()
        following = self._after(cursor)
        if not cursor.followers:
            self._drop_if_empty(cursor)
        elif following is not None and following.position == cursor.position:
            self._unite(cursor, following)

    def _unite(self, one: SharedCursor, other: SharedCursor) -> None:
        """Merge two cursors at one position. The cursor with fewer followers gives them to the other cursor.

        A page that the empty cursor is reading is discarded.
        """
        few, many = sorted((one, other), key=lambda cursor: len(cursor.followers))
        for follower in tuple(few.followers):
            asking = few.asks(follower)
            few.remove(follower)
            many.add(follower, asking=asking)
        self._cursors.remove(few)
        self._dropped(few)
        many.stir()

    def _drop_if_empty(self, cursor: SharedCursor) -> None:
        if not cursor.followers:
            del self._cursors[self._index(cursor)]
            self._dropped(cursor)
