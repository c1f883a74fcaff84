"""Sequence numbers of idempotent producers, as Kafka has them: what is sent twice is stored once.

The state is a row of the same transaction as the records: after a crash both are there or neither.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SEQUENCES = 1 << 31  # a sequence number is 31 bits and starts again at 0
REMEMBERED = 5  # batches of a producer that may be sent again: as many as one has in flight

Verdict = Literal["append", "out-of-order", "fenced"]


class Batch(msgspec.Struct, frozen=True):
    """``count`` records numbered from ``first`` on, by one producer for one partition."""

    producer: int
    epoch: int
    first: int
    count: int

    @property
    def last(self) -> int:
        return (self.first + self.count - 1) % SEQUENCES


class ProducerState(msgspec.Struct, frozen=True):
    """``batches``: the newest ones stored, oldest first, as first sequence number, count of records and
    offset of the first. ``time_ms``: when the newest was stored."""

    epoch: int
    batches: tuple[tuple[int, int, int], ...]
    time_ms: int = 0

    @property
    def sequence(self) -> int:
        """Of the last record stored."""
        first, count, _ = self.batches[-1]
        return (first + count - 1) % SEQUENCES

    def with_batch(self, batch: Batch, offset: int, time_ms: int) -> ProducerState:
        kept = self.batches if batch.epoch == self.epoch else ()
        batches = (*kept, (batch.first, batch.count, offset))[-REMEMBERED:]
        return ProducerState(batch.epoch, batches, time_ms)


def begin_state(batch: Batch, offset: int, time_ms: int) -> ProducerState:
    """Of a producer that nothing is known of."""
    return ProducerState(batch.epoch, ((batch.first, batch.count, offset),), time_ms)


def judge_batch(known: ProducerState | None, batch: Batch) -> Verdict | int:
    """The offset of a batch that was stored before. A new producer may start anywhere (its earlier state
    may be gone with its age); a new epoch starts at 0; within an epoch nothing may be missing."""
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
