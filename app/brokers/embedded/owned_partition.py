"""A partition while this consumer owns it: what is ready, what is taken, what is finished, what is
committed. It follows a cursor of the partition's tail, which passes over what is not wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.brokers.embedded.cursor import Cursor
from app.brokers.embedded.tail import Tail
from app.delivery.offsets import FinishedRuns
from app.interfaces import Wanted
from app.log.positions import Committed
from app.model.message import Message


class OwnedPartition:
    """``stirred`` is called when there is something to take, or an ``error`` to raise."""

    def __init__(
        self,
        tail: Tail,
        epoch: int,
        committed: Committed,
        wanted: Wanted | None,
        stirred: Callable[[OwnedPartition], None],
    ) -> None:
        self.epoch = epoch
        self.wanted = wanted
        self.cursor: Cursor | None = None
        self.paused = False
        self.error: Exception | None = None
        self._tail = tail
        self._stirred = stirred
        self._ready: list[Message] = []
        self._ready_bytes = 0
        self._position = committed.offset  # where it is while it follows no cursor
        self._runs = FinishedRuns.restore(committed.offset, committed.metadata)
        self._committed = committed
        self._told = committed.offset  # up to here ``wanted.passed`` knows
        self._taken = 0  # messages since then

    @property
    def position(self) -> int:
        """All before it was handed out or passed over."""
        if self._ready:
            return self._ready[0].offset
        return self._position if self.cursor is None else self.cursor.position

    @property
    def window(self) -> int:
        return self._passed_over().window if self._runs.open else 0

    def join(self) -> None:
        """Stand with the others before anything is asked for: what it does not want passes it by."""
        self._tail.join(self, self._position)

    def ask(self) -> None:
        """There is room for more."""
        self._tail.ask(self, self._position)

    def pause(self) -> None:
        """Hand out nothing; what was ready will be read again."""
        self.paused = True
        self.leave()

    def leave(self) -> None:
        position = self.position
        self._tail.leave(self)
        self._ready, self._ready_bytes = [], 0
        self._position = position

    def take(self) -> Sequence[Message]:
        """The messages to hand out: those that were finished before a restart are left out."""
        ready, self._ready, self._ready_bytes = self._ready, [], 0
        self._taken += len(ready)
        take = self._runs.take
        return [message for message in ready if take(message.offset)]

    def finish(self, message: Message) -> None:
        """One that was handed out under another ownership is not ours to finish."""
        if message.epoch == self.epoch:
            self._runs.finish(message.offset)

    def to_commit(self) -> Committed | None:
        """What the log should know; None when it knows."""
        if not self._runs.open and self.position == self._committed.offset:
            return None  # a thousand at rest are asked again and again
        runs = self._passed_over()
        now = Committed(runs.commit, runs.metadata())
        return None if now == self._committed else now

    def committed(self, committed: Committed) -> None:
        self._committed = committed

    def count(self) -> None:
        """Tell how many were passed over since the last time: offsets have no gaps."""
        position = self.position
        passed = position - self._told - self._taken
        if passed > 0 and self.wanted is not None:
            self.wanted.passed(passed)
        self._told, self._taken = position, 0

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

    def left(self, position: int) -> None:
        self._position = position

    def failed(self, error: Exception) -> None:
        self.leave()  # what is ready will be read again
        self.error = error
        self._stirred(self)

    def _passed_over(self) -> FinishedRuns:
        self._runs.pass_over(self.position)
        return self._runs
