"""What this member owns now, how far it is settled, and until when it may be sure of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest
from aiokafka.structs import OffsetAndMetadata

from app.brokers.kafka.connection import shut
from app.delivery.offsets import FinishedRuns
from app.model.message import Message, Partition

_ALIVE = (0, 27)  # no error; a rebalance is under way, and the member still counts
NOBODY = -1  # the generation of a member that the group has thrown out


class Owned:
    """The partitions of one generation. A new generation is a new object."""

    def __init__(self, epoch: int, runs: Mapping[Partition, FinishedRuns]) -> None:
        self.epoch = epoch
        self._runs = dict(runs)
        self._committed = {place: _commit(runs) for place, runs in self._runs.items()}

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(sorted(self._runs, key=lambda each: (each.topic, each.number)))

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


class Membership:
    """What aiokafka knows of our place in the group and does not say: the generation, the commits'
    metadata, and when the group last heard of us. The only place that looks inside its consumer;
    ``test_ownership`` guards what is found there.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        session_timeout: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._session_timeout = session_timeout
        self._monotonic = monotonic
        self._sure_until = 0.0
        self._client: Any = consumer._client  # noqa: SLF001
        self._send = self._client.send
        self._client.send = self._observe

    @property
    def generation(self) -> int:
        """Grows with every rebalance of the group: the epoch of ownership."""
        generation: int = self._consumer._coordinator.generation  # noqa: SLF001
        return generation

    @property
    def thrown_out(self) -> bool:
        """The group went on without us: what we held is somebody else's by now."""
        return self.generation == NOBODY

    def sure(self) -> bool:
        """Whether the group cannot yet have given our partitions away, by our own clock (rule 5).

        Counted from when the last heartbeat that was answered *left*: the group's own clock for our
        session started after that.
        """
        return self._monotonic() < self._sure_until

    async def committed(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        coordinator: Any = self._consumer._coordinator  # noqa: SLF001
        offsets: Mapping[
            TopicPartition, OffsetAndMetadata
        ] = await coordinator.fetch_committed_offsets(list(places))
        return offsets

    async def leave(self, within: float) -> None:
        """Give everything back and hang up. Bounded."""
        await shut(self._consumer, self._client, within)

    async def _observe(self, node: int, request: Any, **options: Any) -> Any:
        left = self._monotonic()
        answer = await self._send(node, request, **options)
        if isinstance(request, HeartbeatRequest | SyncGroupRequest) and answer.error_code in _ALIVE:
            self._sure_until = left + self._session_timeout
        return answer
