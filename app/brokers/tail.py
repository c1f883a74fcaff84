"""The readers of a partition: cursors in the order of their positions, each with its followers.

A reader at the position of a cursor joins it. A cursor reads up to the next one and becomes one with it
there, in one step: no gap and no duplicate. So those who are at the end share one cursor, and so do
those who come back from the same place; who is slow has one of his own, until he has caught up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter

from app.brokers.cursor import Cursor, Follower
from app.model.message import MessagePage, Partition

_position = attrgetter("position")


class Tail(ABC):
    """One partition. ``most`` records and ``most_bytes`` of a page. ``moved``: followers stand further on.
    ``by_headers``: as a cursor's source."""

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
        self._told_moved = moved
        self._cursors: list[Cursor] = []  # no two at one position

    @property
    @abstractmethod
    def end(self) -> int:
        """Up to where there may be something to read now."""

    def _dropped(self, cursor: Cursor) -> None:  # noqa: B027 - a reading that ends by itself may be left alone
        """Nobody follows it any more."""

    def at_hand(self, position: int, until: int, most: int) -> MessagePage | None:  # noqa: ARG002
        """What need not be waited for; None: ``page`` has to."""
        return None

    @abstractmethod
    async def page(self, position: int, until: int, most: int) -> MessagePage:
        """Raises what the followers are told: PositionOutOfRange, BrokerUnavailable."""

    def join(self, follower: Follower, position: int) -> Cursor:
        """It is with the cursor at ``position`` from now on, if it is not with one already."""
        if follower.cursor is None:
            self._at(position).add(follower, asking=False)
        assert follower.cursor is not None  # noqa: S101 - just added
        return follower.cursor

    def ask(self, follower: Follower, position: int) -> None:
        """It wants more."""
        self.join(follower, position).ask(follower)

    def leave(self, follower: Follower) -> None:
        """It wants no more for now."""
        cursor = follower.cursor
        if cursor is not None:
            position = cursor.position
            cursor.remove(follower)
            self._drop_if_empty(cursor)
            follower.left(position)

    def fits(self, records: int, size: int) -> bool:
        """Whether so much may lie ready for one follower."""
        return records <= self._most and size <= self._most_bytes

    def grown(self) -> None:
        """There may be more at the end."""
        if self._cursors:  # the others read up to this one only
            self._cursors[-1].stir()

    def _at(self, position: int) -> Cursor:
        index = bisect_left(self._cursors, position, key=_position)
        if index < len(self._cursors) and self._cursors[index].position == position:
            return self._cursors[index]
        cursor = Cursor(self, position, self._most, self._limit, self._moved)
        self._cursors.insert(index, cursor)
        return cursor

    def _limit(self, cursor: Cursor) -> int:
        following = self._after(cursor)
        return self.end if following is None else following.position

    def _after(self, cursor: Cursor) -> Cursor | None:
        index = self._index(cursor) + 1
        return self._cursors[index] if index < len(self._cursors) else None

    def _index(self, cursor: Cursor) -> int:
        """It is the first at its position, also in the moment in which it has reached the next."""
        return bisect_left(self._cursors, cursor.position, key=_position)

    def _moved(self, cursor: Cursor) -> None:
        self._told_moved()
        following = self._after(cursor)
        if not cursor.followers:
            self._drop_if_empty(cursor)
        elif following is not None and following.position == cursor.position:
            self._unite(cursor, following)

    def _unite(self, one: Cursor, other: Cursor) -> None:
        """The few go to the many. What the emptied one is just reading is not handed out."""
        few, many = sorted((one, other), key=lambda cursor: len(cursor.followers))
        for follower in tuple(few.followers):
            asking = few.asks(follower)
            few.remove(follower)
            many.add(follower, asking=asking)
        self._cursors.remove(few)
        self._dropped(few)
        many.stir()

    def _drop_if_empty(self, cursor: Cursor) -> None:
        if not cursor.followers:
            del self._cursors[self._index(cursor)]
            self._dropped(cursor)
