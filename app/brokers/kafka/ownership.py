"""What this member owns now, and how far it is settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokafka import TopicPartition

from app.delivery.offsets import FinishedRuns
from app.model.message import Message, Partition


class Owned:
    """The partitions of one generation. A new generation is a new object."""

    def __init__(self, epoch: int, runs: Mapping[Partition, FinishedRuns]) -> None:
        self.epoch = epoch
        self._runs = dict(runs)
        self._committed = {place: _commit(runs) for place, runs in self._runs.items()}

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(sorted(self._runs, key=lambda each: (each.topic, each.number)))

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._runs

    def take(self, partition: Partition, offset: int) -> bool:
        """Whether this message is to be handed out: ours, and not finished before a restart."""
        runs = self._runs.get(partition)
        return runs is not None and runs.take(offset)

    def settle(self, messages: Iterable[Message]) -> None:
        """Those of an older epoch are void."""
        for message in messages:
            if message.epoch == self.epoch and message.partition in self._runs:
                self._runs[message.partition].finish(message.offset)

    def window(self, partition: Partition) -> int:
        runs = self._runs.get(partition)
        return 0 if runs is None else runs.window

    def has(self, message: Message) -> bool:
        return message.epoch == self.epoch and message.partition in self._runs

    def due(self) -> dict[TopicPartition, tuple[int, str]]:
        """What a commit would change: the lowest unfinished offset, and the finished runs above it."""
        return {
            TopicPartition(place.topic, place.number): commit
            for place, runs in self._runs.items()
            if (commit := _commit(runs)) != self._committed[place]
        }

    def committed(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        for place, commit in offsets.items():
            self._committed[Partition(place.topic, place.partition)] = commit


def _commit(runs: FinishedRuns) -> tuple[int, str]:
    return runs.commit, runs.metadata()
