"""A partition while this consumer owns it: what is taken, what is finished, what is committed."""

from __future__ import annotations

from collections.abc import Sequence

from app.delivery.offsets import FinishedRuns
from app.log.catalogue import PartitionLog
from app.log.positions import Committed
from app.log.reader import Page
from app.model.message import Message, Partition


class OwnedPartition:
    def __init__(self, log: PartitionLog, epoch: int, committed: Committed) -> None:
        self.log = log
        self.place: Partition = log.place
        self.epoch = epoch
        self.paused = False
        self.position = committed.offset  # the next one to read
        self._runs = FinishedRuns.restore(committed.offset, committed.metadata)
        self._committed = committed

    @property
    def readable(self) -> bool:
        return not self.paused and self.position != self.log.next_offset

    @property
    def window(self) -> int:
        return self._runs.window

    def take(self, page: Page) -> Sequence[Message]:
        """The messages to hand out: those that were finished before a restart are left out."""
        self.position = page.next_offset
        take = self._runs.take
        return [message for message in page.messages if take(message.offset)]

    def finish(self, message: Message) -> bool:
        """False: it was handed out under another ownership, and is not ours to finish."""
        if message.epoch != self.epoch:
            return False
        self._runs.finish(message.offset)
        return True

    def to_commit(self) -> Committed | None:
        """What the log should know; None when it knows."""
        now = Committed(self._runs.commit, self._runs.metadata())
        return None if now == self._committed else now

    def committed(self, committed: Committed) -> None:
        self._committed = committed
