"""Sequence numbers of idempotent producers, as Kafka has them: what is sent twice is stored once.

The state is a row of the same transaction as the records: after a crash both are there or neither.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SEQUENCES = 1 << 31  # a sequence number is 31 bits and starts again at 0

Verdict = Literal["append", "duplicate", "out-of-order", "fenced"]


class ProducerState(msgspec.Struct, frozen=True):
    """``sequence``  of the last record stored, ``offset`` where it is, ``count`` its batch's size."""

    epoch: int
    sequence: int
    offset: int
    count: int


class Batch(msgspec.Struct, frozen=True):
    """``count`` records numbered from ``first`` on, by one producer for one partition."""

    producer: int
    epoch: int
    first: int
    count: int

    @property
    def last(self) -> int:
        return (self.first + self.count - 1) % SEQUENCES


def judge_batch(known: ProducerState | None, batch: Batch) -> Verdict:
    """A new producer may start anywhere (its earlier state may be gone with retention); a new epoch
    starts at 0; within an epoch nothing may be missing."""
    if known is None:
        return "append"
    if batch.epoch < known.epoch:
        return "fenced"
    if batch.epoch > known.epoch:
        return "append" if batch.first == 0 else "out-of-order"
    if batch.first == (known.sequence + 1) % SEQUENCES:
        return "append"
    if batch.last == known.sequence and batch.count == known.count:
        return "duplicate"
    return "out-of-order"
