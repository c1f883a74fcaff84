"""Idempotent producers at work: what is known of each, in memory and in the file.

A commit group asks ``judge`` of each numbered batch as it stages it, beside what it has staged itself
(``Numbering``), and its states go into the transaction of its records.
"""

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
    """At most ``bound`` states, and of one user a share of them. In the writer thread only.

    A state belongs to the user that it was stored for last; after a restart to nobody, until then. Where there
    are too many, the state that has been quiet for longest is forgotten: of that user, or of the one with most.
    """

    def __init__(self, bound: int = 100_000) -> None:
        self._states: dict[Key, ProducerState] = {}
        self._owners: dict[Key, str] = {}
        self._quiet: dict[str, OrderedDict[Key, None]] = {}  # by owner, the longest quiet first
        self._ids: Counter[int] = Counter()  # partitions of each producer
        self._bound, self._share = bound, share_of(bound)

    def load(self, db: apsw.Connection) -> None:
        for producer, topic, number, epoch, time_ms, batches in db.execute(
            "SELECT id, topic, partition, epoch, time_ms, batches FROM producers ORDER BY time_ms"
        ):
            state = ProducerState(epoch, _read(batches), time_ms)
            self.keep((producer, Partition(topic, number)), state, "")

    def begin(self) -> Numbering:
        return Numbering(self)

    def get(self, key: Key) -> ProducerState | None:
        return self._states.get(key)

    def keep(self, key: Key, state: ProducerState, owner: str) -> None:
        """Remember a state that was just stored."""
        if key in self._states:
            self._quiet[self._owners[key]].pop(key)
        else:
            self._ids[key[0]] += 1
        self._states[key], self._owners[key] = state, owner
        self._quiet.setdefault(owner, OrderedDict())[key] = None

    def drop(self, key: Key) -> None:
        """Forget a state that is no more in the file."""
        del self._states[key]
        self._quiet[self._owners.pop(key)].pop(key)
        self._ids[key[0]] -= 1
        if not self._ids[key[0]]:
            del self._ids[key[0]]

    def excess(self, staged: Mapping[Key, str]) -> list[Key]:
        """Return the states that have to go before ``staged``, keys with their owners, are kept."""
        moved = {key: owner for key, owner in staged.items() if self._owners.get(key) != owner}
        gone: list[Key] = []
        for owner, count in Counter(moved.values()).items():
            if owner:
                over = len(self._quiet.get(owner, ())) + count - self._share
                gone += self._oldest(owner, over, staged)
        new = sum(key not in self._states for key in moved)
        over = len(self._states) + new - len(gone) - self._bound
        if over > 0:
            most = max(self._quiet, key=lambda owner: len(self._quiet[owner]), default="")
            gone += self._oldest(most, over, {*staged, *gone})
        return gone

    def _oldest(self, owner: str, count: int, but: Container[Key]) -> list[Key]:
        quiet = (key for key in self._quiet.get(owner, ()) if key not in but)
        return list(islice(quiet, max(0, count)))

    def reserve_id(self, db: apsw.Connection) -> int:
        """A producer id that nobody has had: durable before it is handed out. A producer that outlived its log, or
        invented its id, is known by one that was never handed out: what another sent under it would be taken
        for a repeat, and acknowledged without being stored."""
        newest = db.execute("SELECT value FROM identity WHERE name = 'producer-id'").fetchone()
        number = 0 if newest is None else int(newest[0]) + 1
        while number in self._ids:
            number += 1
        with db:
            db.execute("INSERT OR REPLACE INTO identity VALUES('producer-id', ?)", (number,))
        return number

    def forget_before(self, db: apsw.Connection, time_ms: int) -> int:
        """Producers that have stored nothing since; returns how many."""
        gone = [key for key, state in self._states.items() if state.time_ms < time_ms]
        if gone:
            with db:
                _delete(db, gone)
            for key in gone:
                self.drop(key)
        return len(gone)

    def forget_topic(self, db: apsw.Connection, topic: str) -> Callable[[], None]:
        """In the transaction that deletes it. Returns what to do once that is committed."""
        db.execute("DELETE FROM producers WHERE topic = ?", (topic,))

        def forget() -> None:
            for key in [key for key in self._states if key[1].topic == topic]:
                self.drop(key)

        return forget

    @property
    def oldest_ms(self) -> int:
        """When the one stored last that has been quiet for longest; far off where there is none."""
        return min((state.time_ms for state in list(self._states.values())), default=1 << 62)


class Numbering:
    """The numbered batches of one commit group. Dropped without ``publish``, nothing happened."""

    def __init__(self, known: Producers) -> None:
        self._known = known
        self._staged: dict[Key, ProducerState] = {}
        self._owners: dict[Key, str] = {}  # of what is staged
        self._gone: list[Key] = []

    def judge(self, partition: PartitionLog, batch: Batch) -> int | None:
        """The offset of a batch that was stored before; None for a new one. Raises BrokerRefused."""
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
        """Note a new batch; ``owner``: the user that sent it."""
        key = (batch.producer, partition.place)
        known = self._staged.get(key) or self._known.get(key)
        if known is None:
            self._staged[key] = begin_state(batch, offset, time_ms)
        else:
            self._staged[key] = known.with_batch(batch, offset, time_ms)
        self._owners[key] = owner

    def store(self, db: apsw.Connection) -> None:
        """In the transaction of the records."""
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
        """After the commit."""
        for key in self._gone:
            self._known.drop(key)
        for key, state in self._staged.items():
            self._known.keep(key, state, self._owners[key])


def _delete(db: apsw.Connection, keys: Iterable[Key]) -> None:
    db.executemany(
        "DELETE FROM producers WHERE id = ? AND topic = ? AND partition = ?",
        [(producer, place.topic, place.number) for producer, place in keys],
    )
