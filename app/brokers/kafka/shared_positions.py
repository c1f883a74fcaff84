"""The positions of all subscriptions of a shared group in one partition, and the floor of the partition (ADR 0055).

Most subscriptions are at a shared cursor and have nothing unfinished. They need no work here, because the cursor has
their position. Only the other ones are *watched*: they have unfinished messages, are paused, or catch up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec.structs import replace

from app.brokers.cursor import CursorFollower, SharedCursor
from app.brokers.tail import PartitionTail
from app.delivery.offsets import FinishedRuns
from app.interfaces import Progress
from app.model.message import Partition

BEHIND = 1_000  # offsets from the newest reader down to the lowest position that follows the floor
SHOWN_EVERY = 10.0  # seconds between two rows of a subscription that only skips messages


class Reading(Protocol):
    """The reader of one subscription in the partition.

    Attributes:
        place_in_group: The position of the subscription.
        position: The offset before which all messages were handed out or skipped.
        cursor: The shared cursor, or None while the subscription does not read.
        waiting: Whether messages are ready that were not handed out.
    """

    place_in_group: SharedPosition

    @property
    def position(self) -> int: ...
    @property
    def cursor(self) -> SharedCursor | None: ...
    @property
    def waiting(self) -> bool: ...


class SharedPosition:
    """The position of one subscription in the partition, and its finished messages.

    ``stored`` is the row that the store has. ``apart`` is True if the subscription has left the floor. ``reader`` is
    None until the subscription has joined.
    """

    __slots__ = (
        "_offset",
        "_runs",
        "apart",
        "dirty",
        "group",
        "held",
        "reader",
        "stored",
        "written",
    )

    def __init__(self, held: SharedPartition, group: str, stored: Progress) -> None:
        self.held = held
        self.group = group
        self.stored = stored
        self.apart = stored.apart
        self.reader: Reading | None = None
        self.dirty = False  # messages were finished since the last batch
        self.written = 0.0  # when the row was last written, in seconds
        self._runs: FinishedRuns | None = None
        self._restore(stored)

    @property
    def begin(self) -> int:
        """Return the offset at which a new reader begins."""
        return self._offset

    @property
    def open(self) -> bool:
        """Return True if a message that was handed out is unfinished."""
        return self._runs is not None and self._runs.open

    @property
    def at_rest(self) -> bool:
        """Return True if the subscription reads nothing and has nothing unfinished. Its position then is constant."""
        reader = self.reader
        return not self.open and (reader is None or (reader.cursor is None and not reader.waiting))

    @property
    def follows_cursor(self) -> bool:
        """Return True if the position is that of a cursor, so that it need not be watched."""
        reader = self.reader
        return (
            reader is not None
            and reader.cursor is not None
            and not reader.waiting
            and self._runs is None
            and not self.apart
        )

    @property
    def window(self) -> int:
        """Return the distance from the lowest unfinished message to the newest message that was handed out."""
        if self._runs is None or not self._runs.open:
            return 0
        self._runs.pass_over(self._position())
        return self._runs.window

    def take(self, offset: int) -> bool:
        """Mark a message as handed out. Return False if it was finished before a restart."""
        if self._runs is None:
            self._runs = FinishedRuns(offset)
        return self._runs.take(offset)

    def finish(self, offset: int) -> None:
        if self._runs is not None:
            self._runs.finish(offset)
            self.dirty = True
            self.watch()

    def watch(self) -> None:
        """Examine the position at the next batch, because it no longer follows from that of a cursor."""
        self.held.watch(self)

    def now(self) -> Progress:
        """Return the lowest unfinished offset and the finished ranges above it."""
        position, runs = self._position(), self._runs
        if runs is None:
            return Progress(position, "", self.apart)
        runs.pass_over(position)
        finished = runs.metadata()
        if not finished and not runs.open:
            self._runs = None
        return Progress(runs.commit, finished, self.apart)

    def detach(self) -> None:
        """Keep the position for a later reader, because the reader has ended. Unfinished messages are read again."""
        self._restore(self.now())
        self.reader = None
        self.watch()

    def _restore(self, progress: Progress) -> None:
        self._offset = progress.offset
        self._runs = None
        if progress.finished:
            self._runs = FinishedRuns.restore(progress.offset, progress.finished)

    def _position(self) -> int:
        return self._offset if self.reader is None else self.reader.position


class SharedPartition:
    """One partition of a shared group while this process owns it.

    Args:
        place: The partition.
        epoch: The generation of the group.
        floor: The floor that the store has.
        rows: The positions that the store has, by group.
        tail: The shared reader of the partition.
    """

    def __init__(
        self,
        place: Partition,
        epoch: int,
        floor: int,
        rows: Mapping[str, Progress],
        tail: PartitionTail,
    ) -> None:
        self.place = place
        self.epoch = epoch
        self.floor = floor
        self.tail = tail
        self.positions: dict[str, SharedPosition] = {}
        self._watched: dict[SharedPosition, None] = {}
        self._resting: dict[SharedPosition, int] = {}  # constant offsets that hold the floor
        self._apart: dict[SharedPosition, None] = {}
        self._lowest: int | None = None  # of ``_resting``; None means unknown
        for group, row in rows.items():
            self.replace(group, row)

    def replace(self, group: str, row: Progress) -> None:
        """Set the position of a subscription that joins to its row."""
        self.remove(group)
        self.positions[group] = position = SharedPosition(self, group, row)
        position.apart = row.apart or row.offset < self.floor
        self.watch(position)

    def remove(self, group: str) -> SharedPosition | None:
        """Remove the position of a subscription that was moved or deleted."""
        position = self.positions.pop(group, None)
        if position is not None:
            self._watched.pop(position, None)
            self._apart.pop(position, None)
            self._wake(position)
        return position

    def watch(self, position: SharedPosition) -> None:
        """Examine a position at the next batch, unless it was removed or replaced. The reader of such a position may end
        later. Its row then belongs to another process, or to another reader."""
        if self.positions.get(position.group) is position:
            self._watched[position] = None
            self._wake(position)

    @property
    def open(self) -> bool:
        """Return True if any subscription has unfinished messages."""
        return any(each.open for each in self._watched)

    @property
    def minimum(self) -> int:
        """Return the lowest stored position of all subscriptions."""
        return min((each.stored.offset for each in self._apart), default=self.floor)

    def batch(self, now: float) -> Mapping[str, Progress]:
        """Raise the floor, and return the rows to write with it.

        Subscriptions with a much lower position leave the floor, and those that have caught up return to it. The rows and
        the floor must be stored in one transaction.

        Args:
            now: The monotonic time in seconds.
        """
        head = max(self.tail.positions(self._reads), default=self.floor)
        self._wake_below(head - BEHIND)
        found = [(each, each.now()) for each in self._watched]
        for position, progress in found:
            if progress.offset < head - BEHIND:
                position.apart = True
        self._raise_floor(progress.offset for each, progress in found if not each.apart)
        rows = {}
        for position, progress in found:
            if position.apart and progress.offset >= max(self.floor, head - BEHIND // 2):
                position.apart = False
            if _is_due(position, progress, now):
                rows[position.group] = replace(progress, apart=position.apart)
            position.dirty = False
            self._sort(position, progress)
        return rows

    def stored(self, rows: Mapping[str, Progress], now: float) -> None:
        """Note the rows that a batch has stored."""
        for group, row in rows.items():
            if (position := self.positions.get(group)) is not None:
                position.stored, position.written = row, now

    def failed(self, rows: Mapping[str, Progress]) -> None:
        """Write the rows again with the next batch."""
        for group in rows:
            if (position := self.positions.get(group)) is not None:
                position.dirty = True
                self.watch(position)

    def _raise_floor(self, watched: Iterable[int]) -> None:
        lows = [*watched, *self.tail.positions(self._follows)]
        if self._resting:
            lows.append(self._lowest_at_rest())
        self.floor = max(self.floor, min(lows, default=self.floor))

    def _sort(self, position: SharedPosition, progress: Progress) -> None:
        """Stop watching a position that is constant or follows from a cursor."""
        if position.apart:
            self._apart[position] = None
        else:
            self._apart.pop(position, None)
        if position.follows_cursor:
            del self._watched[position]
        elif position.at_rest:
            del self._watched[position]
            if not position.apart:
                self._resting[position] = progress.offset
                if self._lowest is not None:
                    self._lowest = min(self._lowest, progress.offset)

    def _wake(self, position: SharedPosition) -> None:
        if self._resting.pop(position, None) == self._lowest:
            self._lowest = None

    def _wake_below(self, offset: int) -> None:
        if self._resting and self._lowest_at_rest() < offset:
            for position, at in [*self._resting.items()]:
                if at < offset:
                    self.watch(position)

    def _lowest_at_rest(self) -> int:
        if self._lowest is None:
            self._lowest = min(self._resting.values())
        return self._lowest

    def _reads(self, follower: CursorFollower) -> bool:
        position = getattr(follower, "place_in_group", None)
        return position is not None and position.held is self

    def _follows(self, follower: CursorFollower) -> bool:
        return self._reads(follower) and not follower.place_in_group.apart  # type: ignore[attr-defined]


def _is_due(position: SharedPosition, progress: Progress, now: float) -> bool:
    """Return True if the row of a position must be written.

    A position that follows the floor and has moved past skipped messages only needs no row.
    """
    stored = position.stored
    if position.apart != stored.apart or progress.finished != stored.finished:
        return True
    if progress.offset == stored.offset:
        return False
    shown = position.at_rest or now - position.written >= SHOWN_EVERY
    return position.dirty or (position.apart and shown)
