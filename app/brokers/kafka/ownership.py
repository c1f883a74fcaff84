"""The partitions that a group member owns, and the commit position of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from aiokafka import TopicPartition

from app.delivery.offsets import FinishedRuns
from app.model.message import Message, Partition


class OwnedPartitions:
    """The partitions that a member owns in one generation of the group. Each generation has a new object."""

    def __init__(self, epoch: int, runs: Mapping[Partition, FinishedRuns]) -> None:
        self.epoch = epoch
        self._runs = dict(runs)
        self._committed = {place: _commit(runs) for place, runs in self._runs.items()}
        self._written = dict.fromkeys(
            self._runs, -inf
        )  # when this member committed; -inf for commits found at the start

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(sorted(self._runs, key=lambda each: (each.topic, each.number)))

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._runs

    def take(self, partition: Partition, offset: int) -> bool:
        """Mark a message as handed out. Return False if its partition is not owned, or if the message was
        already finished."""
        runs = self._runs.get(partition)
        return runs is not None and runs.take(offset)

    def skip_to(self, partition: Partition, position: int) -> None:
        """Count messages before ``position`` as finished if they were not handed out, because a filter
        excluded them."""
        runs = self._runs.get(partition)
        if runs is not None:
            runs.pass_over(position)

    def settle(self, messages: Iterable[Message]) -> None:
        """Mark messages as finished. Messages of an older epoch are ignored."""
        for message in messages:
            if message.epoch == self.epoch and message.partition in self._runs:
                self._runs[message.partition].finish(message.offset)

    def window(self, partition: Partition) -> int:
        runs = self._runs.get(partition)
        return 0 if runs is None else runs.window

    def has(self, message: Message) -> bool:
        return message.epoch == self.epoch and message.partition in self._runs

    def has_open(self, partition: Partition) -> bool:
        runs = self._runs.get(partition)
        return runs is not None and runs.open

    @property
    def open(self) -> bool:
        """Return True if any message that was handed out is not finished."""
        return any(runs.open for runs in self._runs.values())

    def due(self, before: float = -inf) -> dict[TopicPartition, tuple[int, str]]:
        """Return the positions that must be committed now, as the offset and metadata of each partition.

        The offset is that of the lowest unfinished message. The metadata lists the finished ranges above
        it.

        Args:
            before: A time in seconds of the local clock. Positions that were committed before this time are
                committed again, even if unchanged.
        """
        return {
            TopicPartition(place.topic, place.number): commit
            for place, runs in self._runs.items()
            if (commit := _commit(runs)) != self._committed[place] or self._written[place] < before
        }

    def committed(self, offsets: Mapping[TopicPartition, tuple[int, str]], now: float) -> None:
        for where, commit in offsets.items():
            place = Partition(where.topic, where.partition)
            self._committed[place], self._written[place] = commit, now


def _commit(runs: FinishedRuns) -> tuple[int, str]:
    return runs.commit, runs.metadata()
