"""Idempotent producers at work: what is known of each, in memory and in the file.

A commit group asks ``judge`` of each numbered batch as it stages it, beside what it has staged itself
(``Numbering``), and its states go into the transaction of its records.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw
import msgspec

from app.errors import BrokerRefused
from app.log.catalogue import PartitionLog
from app.log.sequences import Batch, ProducerState, begin_state, judge_batch
from app.model.message import Partition

Key = tuple[int, Partition]
_write = msgspec.json.encode
_read = msgspec.json.Decoder(tuple[tuple[int, int, int], ...]).decode


class Producers:
    """In the writer thread only."""

    def __init__(self) -> None:
        self._states: dict[Key, ProducerState] = {}

    def load(self, db: apsw.Connection) -> None:
        for producer, topic, number, epoch, time_ms, batches in db.execute(
            "SELECT id, topic, partition, epoch, time_ms, batches FROM producers"
        ):
            state = ProducerState(epoch, _read(batches), time_ms)
            self._states[producer, Partition(topic, number)] = state

    def begin(self) -> Numbering:
        return Numbering(self._states)

    def reserve_id(self, db: apsw.Connection) -> int:
        """A producer id that nobody has had: durable before it is handed out. A producer that outlived its log, or
        invented its id, is known by one that was never handed out: what another sent under it would be taken
        for a repeat, and acknowledged without being stored."""
        known = {producer for producer, _ in self._states}
        newest = db.execute("SELECT value FROM identity WHERE name = 'producer-id'").fetchone()
        number = 0 if newest is None else int(newest[0]) + 1
        while number in known:
            number += 1
        with db:
            db.execute("INSERT OR REPLACE INTO identity VALUES('producer-id', ?)", (number,))
        return number

    def forget_before(self, db: apsw.Connection, time_ms: int) -> int:
        """Producers that have stored nothing since; returns how many."""
        gone = [key for key, state in self._states.items() if state.time_ms < time_ms]
        if gone:
            with db:
                db.executemany(
                    "DELETE FROM producers WHERE id = ? AND topic = ? AND partition = ?",
                    [(producer, place.topic, place.number) for producer, place in gone],
                )
            for key in gone:
                del self._states[key]
        return len(gone)

    def forget_topic(self, db: apsw.Connection, topic: str) -> Callable[[], None]:
        """In the transaction that deletes it. Returns what to do once that is committed."""
        db.execute("DELETE FROM producers WHERE topic = ?", (topic,))

        def forget() -> None:
            for key in [key for key in self._states if key[1].topic == topic]:
                del self._states[key]

        return forget

    @property
    def oldest_ms(self) -> int:
        """When the one stored last that has been quiet for longest; far off where there is none."""
        return min((state.time_ms for state in list(self._states.values())), default=1 << 62)


class Numbering:
    """The numbered batches of one commit group. Dropped without ``publish``, nothing happened."""

    def __init__(self, states: dict[Key, ProducerState]) -> None:
        self._states = states
        self._staged: dict[Key, ProducerState] = {}

    def judge(self, partition: PartitionLog, batch: Batch) -> int | None:
        """The offset of a batch that was stored before; None for a new one. Raises BrokerRefused."""
        key = (batch.producer, partition.place)
        match judge_batch(self._staged.get(key) or self._states.get(key), batch):
            case int(offset):
                return offset
            case "fenced":
                raise BrokerRefused(
                    f"producer {batch.producer} has a newer epoch than {batch.epoch}", kind="fenced"
                )
            case "out-of-order":
                raise BrokerRefused(
                    f"producer {batch.producer} skipped a sequence number before {batch.first}",
                    kind="out-of-order",
                )
        return None

    def stage(self, partition: PartitionLog, batch: Batch, offset: int, time_ms: int) -> None:
        key = (batch.producer, partition.place)
        known = self._staged.get(key) or self._states.get(key)
        if known is None:
            self._staged[key] = begin_state(batch, offset, time_ms)
        else:
            self._staged[key] = known.with_batch(batch, offset, time_ms)

    def store(self, db: apsw.Connection) -> None:
        """In the transaction of the records."""
        db.executemany(
            "INSERT OR REPLACE INTO producers VALUES(?, ?, ?, ?, ?, ?)",
            [
                (producer, place.topic, place.number, state.epoch, state.time_ms,
                 _write(state.batches).decode())
                for (producer, place), state in self._staged.items()
            ],
        )  # fmt: skip

    def publish(self) -> None:
        """After the commit."""
        self._states.update(self._staged)
