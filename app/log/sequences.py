"""Sequence numbers of idempotent producers, as in Kafka: a batch that is sent twice is stored once.

The state is a row in the transaction of the records, so a crash loses both or none."""

from __future__ import annotations

from typing import Literal

import msgspec

SEQUENCES = 1 << 31  # a sequence number has 31 bits and wraps to 0
REMEMBERED = 5  # batches that are recognised when repeated: as many as a producer has in flight

Verdict = Literal["append", "out-of-order", "fenced"]


class Batch(msgspec.Struct, frozen=True):
    """A batch of ``count`` records, numbered from ``first`` on by one producer for one partition."""

    producer: int
    epoch: int
    first: int
    count: int

    @property
    def last(self) -> int:
        """Return the sequence number of the last record."""
        return (self.first + self.count - 1) % SEQUENCES


class ProducerState(msgspec.Struct, frozen=True):
    """The state of a producer in one partition.

    ``batches`` are its newest stored batches, oldest first: first sequence number, number of records, and offset of
    the first record. ``time_ms`` is when the newest was stored, in ms since the epoch."""

    epoch: int
    batches: tuple[tuple[int, int, int], ...]
    time_ms: int = 0

    @property
    def sequence(self) -> int:
        """Return the sequence number of the last stored record."""
        first, count, _ = self.batches[-1]
        return (first + count - 1) % SEQUENCES

    def with_batch(self, batch: Batch, offset: int, time_ms: int) -> ProducerState:
        """Return the state after storing one more batch."""
        kept = self.batches if batch.epoch == self.epoch else ()
        batches = (*kept, (batch.first, batch.count, offset))[-REMEMBERED:]
        return ProducerState(batch.epoch, batches, time_ms)


def begin_state(batch: Batch, offset: int, time_ms: int) -> ProducerState:
    """Return the state after the first batch of an unknown producer."""
    return ProducerState(batch.epoch, ((batch.first, batch.count, offset),), time_ms)


def judge_batch(known: ProducerState | None, batch: Batch) -> Verdict | int:
    """Return the offset of a batch that was stored before, or the verdict on a new one.

    An unknown producer may start at any number, because its state may have expired. A new epoch starts at 0. Within
    an epoch no number may be missing."""
    if known is None:
        return "append"
    if batch.epoch < known.epoch:
        return "fenced"
    if batch.epoch > known.epoch:
        return "append" if batch.first == 0 else "out-of-order"
    for first, count, offset in reversed(known.batches):
        if (first, count) == (batch.first, batch.count):
            return offset
    if batch.first == (known.sequence + 1) % SEQUENCES:
        return "append"
    return "out-of-order"
