"""The states of idempotent producers, in memory and in the file.

A commit group checks each numbered batch with ``judge``: against the stored states, and against those that the
group itself has staged (``SequenceCheck``). The new states are written in the transaction of the records."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import islice

import apsw
import msgspec

from app.access.quota import share_of
from app.errors import BrokerRefused
from app.log.partitions import PartitionLog
from app.log.sequences import Batch, ProducerState, begin_state, judge_batch
from app.model.message import Partition

Key = tuple[int, Partition]
_write = msgspec.json.encode
_read = msgspec.json.Decoder(tuple[tuple[int, int, int], ...]).decode


class Producers:
    """The states of idempotent producers, at most ``bound``, with a share per user. Used in the writer thread only.

    A state belongs to the user of its last batch, and after a restart to none until the next batch. If a user
    exceeds its share, its longest idle state is dropped. Beyond the bound, the user with most states loses its
    longest idle state."""

    def __init__(self, bound: int = 100_000) -> None:
        self._states: dict[Key, ProducerState] = {}
        self._owners: dict[Key, str] = {}
        self._by_age: dict[str, OrderedDict[Key, None]] = {}  # by owner, the longest idle first
        self._ids: Counter[int] = Counter()  # partitions of each producer
        self._bound, self._share = bound, share_of(bound)

    def load(self, db: apsw.Connection) -> None:
        """Read all states from the file."""
        for producer, topic, number, epoch, time_ms, batches in db.execute(
            "SELECT id, topic, partition, epoch, time_ms, batches FROM producers ORDER BY time_ms"
        ):
            state = ProducerState(epoch, _read(batches), time_ms)
            self.keep((producer, Partition(topic, number)), state, "")

    def begin(self) -> SequenceCheck:
        """Start the check of the numbered batches of a commit group."""
        return SequenceCheck(self)

    def get(self, key: Key) -> ProducerState | None:
        return self._states.get(key)

    def keep(self, key: Key, state: ProducerState, owner: str) -> None:
        """Remember a state that was just stored."""
        if key in self._states:
            self._by_age[self._owners[key]].pop(key)
        else:
            self._ids[key[0]] += 1
        self._states[key], self._owners[key] = state, owner
        self._by_age.setdefault(owner, OrderedDict())[key] = None

    def drop(self, key: Key) -> None:
        """Drop a state that is no longer in the file."""
        del self._states[key]
        self._by_age[self._owners.pop(key)].pop(key)
        self._ids[key[0]] -= 1
        if not self._ids[key[0]]:
            del self._ids[key[0]]

    def excess(self, staged: Mapping[Key, str]) -> list[Key]:
        """Return the stored states that must be dropped, so that the staged states can be kept.

        Args:
            staged: the keys of the staged states with their users.
        """
        moved = {key: owner for key, owner in staged.items() if self._owners.get(key) != owner}
        gone: list[Key] = []
        for owner, count in Counter(moved.values()).items():
            if owner:
                over = len(self._by_age.get(owner, ())) + count - self._share
                gone += self._oldest(owner, over, staged)
        new = sum(key not in self._states for key in moved)
        over = len(self._states) + new - len(gone) - self._bound
        if over > 0:
            most = max(self._by_age, key=lambda owner: len(self._by_age[owner]), default="")
            gone += self._oldest(most, over, {*staged, *gone})
        return gone

    def _oldest(self, owner: str, count: int, but: Container[Key]) -> list[Key]:
        quiet = (key for key in self._by_age.get(owner, ()) if key not in but)
        return list(islice(quiet, max(0, count)))

    def reserve_id(self, db: apsw.Connection) -> int:
        """Reserve a producer id that no producer has had. The id is durable before it is returned.

        Ids that a producer brought from another log, or invented, are skipped. Otherwise records of one producer
        would be taken for repeats of another, and acknowledged without being stored."""
        newest = db.execute("SELECT value FROM identity WHERE name = 'producer-id'").fetchone()
        number = 0 if newest is None else int(newest[0]) + 1
        while number in self._ids:
            number += 1
        with db:
            db.execute("INSERT OR REPLACE INTO identity VALUES('producer-id', ?)", (number,))
        return number

    def forget_before(self, db: apsw.Connection, time_ms: int) -> int:
        """Drop producers that have stored nothing since the given time (ms since the epoch). Return their number."""
        gone = [key for key, state in self._states.items() if state.time_ms < time_ms]
        if gone:
            with db:
                _delete(db, gone)
            for key in gone:
                self.drop(key)
        return len(gone)

    def forget_topic(self, db: apsw.Connection, topic: str) -> Callable[[], None]:
        """Delete the states of a topic in the current transaction. Return the function to call after the commit."""
        db.execute("DELETE FROM producers WHERE topic = ?", (topic,))

        def forget() -> None:
            for key in [key for key in self._states if key[1].topic == topic]:
                self.drop(key)

        return forget

    @property
    def oldest_ms(self) -> int:
        """Return when the longest idle producer stored its last batch, in ms since the epoch. Return a time in the far
        future if there is no producer."""
        return min((state.time_ms for state in list(self._states.values())), default=1 << 62)


class SequenceCheck:
    """The numbered batches of one commit group. Nothing is changed in memory before ``publish`` is called."""

    def __init__(self, known: Producers) -> None:
        self._known = known
        self._staged: dict[Key, ProducerState] = {}
        self._owners: dict[Key, str] = {}  # users of the staged states
        self._gone: list[Key] = []

    def judge(self, partition: PartitionLog, batch: Batch) -> int | None:
        """Return the offset of a batch that was stored before, or None for a new batch.

        Raises:
            BrokerRefused: a newer epoch of the producer is known (``fenced``), or a number was skipped
                (``out-of-order``).
        """
        key = (batch.producer, partition.place)
        match judge_batch(self._staged.get(key) or self._known.get(key), batch):
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

    def stage(
        self, partition: PartitionLog, batch: Batch, offset: int, time_ms: int, owner: str = ""
    ) -> None:
        """Stage a new batch.

        Args:
            partition: the partition of the batch.
            batch: the producer, epoch and numbers.
            offset: the offset of the first record.
            time_ms: the time of the records, in ms since the epoch.
            owner: the user that sent the batch, or "".
        """
        key = (batch.producer, partition.place)
        known = self._staged.get(key) or self._known.get(key)
        if known is None:
            self._staged[key] = begin_state(batch, offset, time_ms)
        else:
            self._staged[key] = known.with_batch(batch, offset, time_ms)
        self._owners[key] = owner

    def store(self, db: apsw.Connection) -> None:
        """Write the staged states in the transaction of the records."""
        if not self._staged:
            return
        self._gone = self._known.excess(self._owners)
        _delete(db, self._gone)
        db.executemany(
            "INSERT OR REPLACE INTO producers VALUES(?, ?, ?, ?, ?, ?)",
            [
                (producer, place.topic, place.number, state.epoch, state.time_ms,
                 _write(state.batches).decode())
                for (producer, place), state in self._staged.items()
            ],
        )  # fmt: skip

    def publish(self) -> None:
        """Apply the staged states in memory after the commit."""
        for key in self._gone:
            self._known.drop(key)
        for key, state in self._staged.items():
            self._known.keep(key, state, self._owners[key])


def _delete(db: apsw.Connection, keys: Iterable[Key]) -> None:
    db.executemany(
        "DELETE FROM producers WHERE id = ? AND topic = ? AND partition = ?",
        [(producer, place.topic, place.number) for producer, place in keys],
    )
