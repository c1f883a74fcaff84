"""A partition of the embedded log that a group member owns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.brokers.partition_reader import PartitionReader
from app.brokers.tail import PartitionTail
from app.delivery.offsets import FinishedRuns
from app.interfaces import ConsumerFilter
from app.log.groups.positions import CommittedOffset
from app.model.message import Message


class EmbeddedPartition(PartitionReader):
    """A partition that a group member owns, with its finished and committed offsets."""

    def __init__(
        self,
        tail: PartitionTail,
        epoch: int,
        committed: CommittedOffset,
        wanted: ConsumerFilter | None,
        stirred: Callable[[PartitionReader], None],
    ) -> None:
        super().__init__(tail, epoch, committed.offset, wanted, stirred)
        self._runs = FinishedRuns.restore(committed.offset, committed.metadata)
        self._committed = committed

    @property
    def window(self) -> int:
        return self._runs_with_skipped().window if self._runs.open else 0

    def take_unfinished(self) -> Sequence[Message]:
        """Return the ready messages. Messages that were finished before a restart are left out."""
        return [message for message in self.take() if self._runs.take(message.offset)]

    def finish(self, message: Message) -> None:
        """Note that a message is finished. A message of an earlier ownership is ignored."""
        if message.epoch == self.epoch:
            self._runs.finish(message.offset)

    def to_commit(self) -> CommittedOffset | None:
        """Return the position to commit, or None if it is committed already."""
        if not self._runs.open and self.position == self._committed.offset:
            return None  # the fast path for idle partitions
        runs = self._runs_with_skipped()
        now = CommittedOffset(runs.commit, runs.metadata())
        return None if now == self._committed else now

    def committed(self, committed: CommittedOffset) -> None:
        self._committed = committed

    def _runs_with_skipped(self) -> FinishedRuns:
        self._runs.pass_over(self.position)
        return self._runs
