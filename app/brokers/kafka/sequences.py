"""The producer id and the next sequence number of each partition, by which Kafka recognises a repeated wire batch.

At most one wire batch of a partition is unanswered at a time, so its number is certain when it is written. The
number advances when the broker confirms the batch. A batch that the broker rejects without storing it leaves the
number as it is. In all other cases the partition gets a new producer id. After a gap in its numbers a broker would
reject every further batch. A batch with a number that the broker knows would be taken for a repetition, and lost.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from app.brokers.aiokafka_adapter import batch_builder
from app.brokers.kafka.produce_request import NO_PRODUCER_ID, ProducerId

_CODECS = {None: 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_LAST = 0x7FFFFFFF  # the sequence number before 0


class Sequences:
    """The numbering of all partitions that one connection publishes to.

    Each partition is named by its batcher. If a topic is forgotten and looked up again, its partitions have other batchers.
    A batch of a former batcher may still be unanswered then, so the later one begins with a new producer id.

    Attributes:
        identity: The producer id for partitions that need a new one, or None if it was used up.
    """

    def __init__(self, *, idempotent: bool, batch_bytes: int, compression: str | None) -> None:
        self.identity: ProducerId | None = None if idempotent else NO_PRODUCER_ID
        self._idempotent = idempotent
        self._bytes, self._codec = batch_bytes, _CODECS[compression]
        self._next: dict[Hashable, list[int]] = {}  # producer id, epoch, sequence number

    def builder(self, batcher: Hashable) -> Any | None:
        """Return an empty wire batch for a partition, or None if the partition needs a new producer id."""
        numbers = self._next.get(batcher)
        if numbers is None:
            if self.identity is None:
                return None
            numbers = self._next[batcher] = [*self.identity, 0 if self._idempotent else -1]
        return batch_builder(self._bytes, self._codec, *numbers)

    def count_stored(self, batcher: Hashable, count: int) -> None:
        """Advance the number of a partition, because the broker has stored a wire batch of ``count`` records."""
        numbers = self._next.get(batcher)
        if numbers is not None and self._idempotent:
            numbers[2] = numbers[2] + count & _LAST

    def forget(self, *batchers: Hashable) -> None:
        """Let the next wire batch of these partitions have a producer id that the partitions never had."""
        for batcher in batchers:
            numbers = self._next.pop(batcher, None)
            if self._idempotent and numbers is not None and tuple(numbers[:2]) == self.identity:
                self.identity = None
