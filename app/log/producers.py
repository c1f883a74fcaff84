"""Idempotent producers at work: a numbered batch is stored together with its producer's state."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from app.bindings.record import Record
from app.errors import BrokerRefused, StaleOwner
from app.log.catalogue import PartitionLog
from app.log.commit import CommitGroup
from app.log.sequences import Batch, ProducerState, judge_batch
from app.model.message import Partition


class Producers:
    """In the writer thread only."""

    def __init__(self) -> None:
        self._states: dict[tuple[int, Partition], ProducerState] = {}

    def load(self, db: apsw.Connection) -> None:
        for row in db.execute("SELECT * FROM producers"):
            producer, topic, number, epoch, sequence, offset, count = row
            state = ProducerState(epoch, sequence, offset, count)
            self._states[producer, Partition(topic, number)] = state

    def store(
        self,
        db: apsw.Connection,
        group: CommitGroup,
        partition: PartitionLog,
        batch: Batch,
        records: Sequence[Record],
    ) -> int:
        """The offset of the batch's first record, also when it was stored before. Raises StaleOwner
        for an old epoch and BrokerRefused for a gap in the numbers."""
        known = self._states.get((batch.producer, partition.place))
        match judge_batch(known, batch):
            case "fenced":
                raise StaleOwner(f"producer {batch.producer} has a newer epoch than {batch.epoch}")
            case "out-of-order":
                raise BrokerRefused(
                    f"producer {batch.producer} skipped a sequence number before {batch.first}",
                    kind="out-of-order",
                )
            case "duplicate":
                assert known is not None  # noqa: S101 - only a known one can be repeated
                return known.offset - known.count + 1
            case "append":
                return self._append(db, group, partition, batch, records)

    def _append(
        self,
        db: apsw.Connection,
        group: CommitGroup,
        partition: PartitionLog,
        batch: Batch,
        records: Sequence[Record],
    ) -> int:
        first = partition.next_offset
        state = ProducerState(batch.epoch, batch.last, first + batch.count - 1, batch.count)
        place = partition.place
        group.add_to(partition, records)
        group.encode()
        with db:
            group.store(db)
            db.execute(
                "INSERT OR REPLACE INTO producers VALUES(?, ?, ?, ?, ?, ?, ?)",
                (
                    batch.producer,
                    place.topic,
                    place.number,
                    state.epoch,
                    state.sequence,
                    state.offset,
                    state.count,
                ),
            )
        self._states[batch.producer, place] = state
        return first
