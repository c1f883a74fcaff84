"""A partition while this consumer owns it: what is finished, and what is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.brokers.following import Following
from app.brokers.tail import Tail
from app.delivery.offsets import FinishedRuns
from app.interfaces import ConsumerFilter
from app.log.groups.positions import Committed
from app.model.message import Message


class OwnedPartition(Following):
    def __init__(
        self,
        tail: Tail,
        epoch: int,
        committed: Committed,
        wanted: ConsumerFilter | None,
        stirred: Callable[[Following], None],
    ) -> None:
        super().__init__(tail, epoch, committed.offset, wanted, stirred)
        self._runs = FinishedRuns.restore(committed.offset, committed.metadata)
        self._committed = committed

    @property
    def window(self) -> int:
        return self._passed_over().window if self._runs.open else 0

    def take_unfinished(self) -> Sequence[Message]:
        """The messages to hand out: those that were finished before a restart are left out."""
        return [message for message in self.take() if self._runs.take(message.offset)]

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

    def _passed_over(self) -> FinishedRuns:
        self._runs.pass_over(self.position)
        return self._runs
