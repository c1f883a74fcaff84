"""A member whose partitions follow the cursors of their tails: what lies ready is handed out in turn, and
more is asked for when nothing does.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from app.brokers.cursor import Cursor
from app.brokers.member import Member
from app.brokers.tail import Tail
from app.interfaces import ConsumerFilter
from app.model.message import Message, Partition


class Following:
    """A partition while this member owns it. It follows a cursor of the partition's tail, which passes over
    what is not wanted. ``stirred`` is called when there is something to take, or an ``error`` to raise."""

    def __init__(
        self,
        tail: Tail,
        epoch: int,
        position: int,
        wanted: ConsumerFilter | None,
        stirred: Callable[[Following], None],
    ) -> None:
        self.epoch = epoch
        self.selection = None if wanted is None else wanted.selection
        self.decode = None if wanted is None else wanted.decode
        self.cursor: Cursor | None = None
        self.absent = 0
        self.paused = False
        self.error: Exception | None = None
        self._wanted = wanted
        self._tail = tail
        self._stirred = stirred
        self._ready: list[Message] = []
        self._ready_bytes = 0
        self._position = position  # where it is while it follows no cursor
        self._told = position  # up to here ``ConsumerFilter.passed`` knows
        self._taken = 0  # messages since then
        self._failed: list[int] = []  # offsets since then that an expression failed on, in order

    @property
    def position(self) -> int:
        """All before it was handed out or passed over."""
        if self._ready:
            return self._ready[0].offset
        return self._position if self.cursor is None else self.cursor.position

    def join(self) -> None:
        """Stand with the others before anything is asked for: what it does not want passes it by."""
        self._tail.join(self, self._position)

    def ask(self) -> None:
        """There is room for more."""
        self._tail.ask(self, self._position)

    def pause(self) -> None:
        """Hand out nothing; what was ready will be read again, and what went wrong tried again."""
        self.paused = True
        self.error = None
        self.leave()

    def leave(self) -> None:
        position = self.position
        self._tail.leave(self)
        self._ready, self._ready_bytes = [], 0
        self.left(position)

    def take(self) -> list[Message]:
        """All that is ready."""
        ready, self._ready, self._ready_bytes = self._ready, [], 0
        self._taken += len(ready)
        return ready

    def count(self) -> None:
        """Report how many messages were passed over since the last time."""
        position, absent = self.position, 0 if self.cursor is None else self.cursor.absent
        passed = position - self._told - self._taken - (self.absent + absent)
        if passed > 0 and self._wanted is not None:
            failed = bisect_left(self._failed, position)
            del self._failed[:failed]
            self._wanted.passed(passed - failed, failed)
        self._told, self._taken, self.absent = position, 0, -absent

    # of a follower

    def offered(self, messages: list[Message], size: int) -> bool:
        if self._ready and not self._tail.fits(
            len(self._ready) + len(messages), self._ready_bytes + size
        ):
            return False
        self._ready += messages
        self._ready_bytes += size
        self._stirred(self)
        return True

    def filter_failed(self, offset: int) -> None:
        self._failed.append(offset)

    def left(self, position: int) -> None:
        self._position = position
        del self._failed[bisect_left(self._failed, position) :]  # these will be read again

    def failed(self, error: Exception) -> None:
        self.leave()  # what is ready will be read again
        self.error = error
        self._stirred(self)


Owned = TypeVar("Owned", bound=Following)


class FollowingMember(Member, Generic[Owned]):
    """``page_records``: most messages of one batch, about."""

    def __init__(self, page_records: int) -> None:
        super().__init__()
        self._page_records = page_records
        self._owned: dict[Partition, Owned] = {}
        self._ready: dict[Following, None] = {}  # with something to hand out, in turn
        self._content: set[Following] = set()  # have not asked for more
        self._leaving = False  # nothing more is read until the partitions are given up

    def pause(self, partitions: Collection[Partition]) -> None:
        for owned in self._of(partitions):
            owned.pause()
            self._ready.pop(owned, None)
            self._content.discard(owned)

    def resume(self, partitions: Collection[Partition]) -> None:
        for owned in self._of(partitions):
            if owned.paused:
                owned.paused = False
                self._content.add(owned)
        self._news.set()

    @abstractmethod
    def _take(self, owned: Following) -> Iterable[Message]:
        """What is ready, without what was finished before a restart."""

    def _own(self, place: Partition, owned: Owned) -> None:
        self._owned[place] = owned
        self._content.add(owned)

    def _stop_reading(self) -> None:
        for owned in self._owned.values():
            owned.leave()
        self._ready.clear()
        self._content.clear()
        self._leaving = True

    def _disown(self) -> None:
        self._stop_reading()
        self._owned = {}
        self._leaving = False

    def _stirred(self, owned: Following) -> None:
        self._ready[owned] = None
        self._news.set()

    async def _batch(self) -> tuple[Message, ...]:
        self._ask()  # a partition of which much is ready, always, must not keep others from asking
        messages = self._hand_out()
        if not messages:
            self._ask()
        return messages

    def _hand_out(self) -> tuple[Message, ...]:
        """What lies ready, of all partitions in turn, until a batch is full. Raises what went wrong
        with the one whose turn it is, once; it begins again at the next poll."""
        batch: list[Message] = []
        while self._ready and len(batch) < self._page_records:
            owned = next(iter(self._ready))
            if owned.error is not None and batch:
                break
            del self._ready[owned]
            self._content.add(owned)
            if owned.error is not None:
                error, owned.error = owned.error, None
                raise error
            batch += self._take(owned)
        return tuple(batch)

    def _ask(self) -> None:
        if self._leaving:
            return
        asking = self._content - self._ready.keys()
        self._content -= asking
        for owned in asking:
            owned.ask()

    def _of(self, partitions: Collection[Partition]) -> list[Owned]:
        return [self._owned[each] for each in partitions if each in self._owned]
