"""Group members whose partitions are read by shared cursors.

A member hands out the messages that are ready, and its partitions take turns. When no message is ready, the
member asks the cursors for more.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from typing import Generic, TypeVar

from app.brokers.cursor import SharedCursor
from app.brokers.member import GroupMember
from app.brokers.tail import PartitionTail
from app.interfaces import ConsumerFilter
from app.model.message import Message, Partition


class PartitionReader:
    """A partition that this member owns. It is a follower of a shared cursor, which skips messages that the
    member does not want.

    Args:
        tail: The shared reader of the partition.
        epoch: The number of this ownership.
        position: The offset at which reading begins.
        wanted: The filter of the member. None means that it wants all messages.
        stirred: Called when messages are ready, or when ``error`` is set.

    Attributes:
        error: The last error of reading. The member raises it from its next poll and clears it.
        paused: Whether the caller has paused the partition.
    """

    __slots__ = (
        *(
            "_counted",
            "_failed",
            "_position",
            "_ready",
            "_ready_bytes",
            "_stirred",
            "_tail",
            "_taken",
            "_wanted",
        ),
        *("absent", "cursor", "decode", "epoch", "error", "paused", "selection"),
    )  # a worker may have 40,000

    def __init__(
        self,
        tail: PartitionTail,
        epoch: int,
        position: int,
        wanted: ConsumerFilter | None,
        stirred: Callable[[PartitionReader], None],
    ) -> None:
        self.epoch = epoch
        self.selection = None if wanted is None else wanted.selection
        self.decode = None if wanted is None else wanted.decode
        self.cursor: SharedCursor | None = None
        self.absent = 0
        self.paused = False
        self.error: Exception | None = None
        self._wanted = wanted
        self._tail = tail
        self._stirred = stirred
        self._ready: list[Message] = []
        self._ready_bytes = 0
        self._position = position  # used while there is no cursor
        self._counted = position  # the offset up to which ``ConsumerFilter.passed`` has been called
        self._taken = 0  # messages handed out since then
        self._failed: list[
            int
        ] = []  # offsets since then on which a filter expression failed, in order

    @property
    def position(self) -> int:
        """Return the offset before which all messages were handed out or skipped."""
        if self._ready:
            return self._ready[0].offset
        return self._position if self.cursor is None else self.cursor.position

    def join(self) -> None:
        """Join a shared cursor without asking for messages yet. The cursor skips messages that the member
        does not want."""
        self._tail.join(self, self._position)

    def ask(self) -> None:
        """Ask the cursor for more messages."""
        self._tail.ask(self, self._position)

    def pause(self) -> None:
        """Stop handing out messages. Ready messages are discarded and read again later, and ``error`` is
        cleared."""
        self.paused = True
        self.error = None
        self.leave()

    def leave(self) -> None:
        position = self.position
        self._tail.leave(self)
        self._ready, self._ready_bytes = [], 0
        self.left(position)

    def take(self) -> list[Message]:
        """Return all ready messages and remove them."""
        ready, self._ready, self._ready_bytes = self._ready, [], 0
        self._taken += len(ready)
        return ready

    def count(self) -> None:
        """Report to the filter how many messages were skipped since the last call."""
        position, absent = self.position, 0 if self.cursor is None else self.cursor.absent
        passed = position - self._counted - self._taken - (self.absent + absent)
        if passed > 0 and self._wanted is not None:
            failed = bisect_left(self._failed, position)
            del self._failed[:failed]
            self._wanted.passed(passed - failed, failed)
        self._counted, self._taken, self.absent = position, 0, -absent

    # The methods of ``cursor.CursorFollower``.

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
        del self._failed[bisect_left(self._failed, position) :]  # these messages will be read again

    def failed(self, error: Exception) -> None:
        self.leave()  # ready messages will be read again
        self.error = error
        self._stirred(self)


Owned = TypeVar("Owned", bound=PartitionReader)


class PartitionReadingMember(GroupMember, Generic[Owned]):
    """A group member that reads its partitions through shared cursors. ``page_records`` is the usual size
    of a batch."""

    def __init__(self, page_records: int) -> None:
        super().__init__()
        self._page_records = page_records
        self._owned: dict[Partition, Owned] = {}
        self._ready: dict[
            PartitionReader, None
        ] = {}  # partitions with messages or an error, in turn
        self._content: set[PartitionReader] = set()  # partitions that have not asked for more
        self._leaving = False  # set during a revocation, when reading has stopped

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
    def _take(self, owned: PartitionReader) -> Iterable[Message]:
        """Return the ready messages of a partition, without those that were finished before a restart."""

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

    def _stirred(self, owned: PartitionReader) -> None:
        self._ready[owned] = None
        self._news.set()

    async def _batch(self) -> tuple[Message, ...]:
        self._ask()  # first, so that a busy partition does not keep others from asking
        messages = self._hand_out()
        if not messages:
            self._ask()
        return messages

    def _hand_out(self) -> tuple[Message, ...]:
        """Return the ready messages of all partitions in turn, until the batch is full.

        If a partition has an error, raise it when its turn comes, once. The next poll reads the partition
        again.
        """
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
