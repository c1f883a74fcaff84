"""An in-memory store for tests.

The store passes the same contract as the real stores (tests/contract/test_store.py), so tests may
use it instead of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec.structs import replace

from app.errors import StaleOwner, StoreFull, StoreUnavailable
from app.interfaces import (
    Clock,
    DeadLetter,
    DeadLetterFilter,
)
from app.interfaces.clock import SYSTEM_CLOCK
from app.model.message import Partition
from app.model.metadata import LogHealth
from app.store.audit import AuditBounds
from app.store.sql import AUDITED
from memory_messages import Claim, ParkedRows, PulledRows, claim_of, known
from memory_tables import (
    AlertRows,
    AttemptRows,
    AuditRows,
    CommandRows,
    ConsentRows,
    HaltRows,
    OffsetRows,
    ProgressRows,
    ReplayRows,
    SubscriptionRows,
)


class MemoryStore:
    """A store that keeps all its tables in memory and can be made to fail.

    The class implements ``interfaces.Store``. Each table has its rows in ``rows``.

    Attributes:
        failures: Errors that the next writes of dead letters, parked and offered rows, halts and
            consents raise, in order.
        trouble: The cause why the store can neither be read nor written. Empty if it works.
        owners: The recorded owners; ``owners.epochs`` has the epoch of each partition.
    """

    def __init__(
        self,
        max_letters: int = 1_000_000,
        audited: AuditBounds = AUDITED,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.clock = clock
        self.failures: deque[Exception] = deque()
        self.trouble = ""
        self._number = 0
        self.owners = _Owners()
        self.parked = ParkedRows(self)
        self.letters = _Letters(self, max_letters)
        self.attempts = AttemptRows()
        self.halts = HaltRows(self)
        self.commands = CommandRows(self)
        self.consents = ConsentRows(self)
        self.replays = ReplayRows(self)
        self.pulled = PulledRows(self)
        self.subscriptions = SubscriptionRows(self)
        self.offsets = OffsetRows()
        self.progress = ProgressRows(self.offsets)
        self.audit = AuditRows(self, audited)
        self.alerts = AlertRows(self)

    async def start(self) -> None: ...
    async def stop(self) -> None: ...

    async def health(self) -> LogHealth:
        cause = self.trouble or self.letters.full
        return LogHealth(healthy=not cause, cause=cause)

    def fail(self) -> None:
        self.check()
        if self.failures:
            raise self.failures.popleft()

    def check(self) -> None:
        if self.trouble:
            raise StoreUnavailable(self.trouble)

    def grow(self) -> int:
        self._number += 1
        return self._number

    @property
    def revision(self) -> int:
        return self._number


class _Owners:
    """The epoch of the owner of each partition."""

    def __init__(self) -> None:
        self.noted: dict[Claim, int] = {}
        self.numbers: Counter[Claim] = Counter()

    @property
    def epochs(self) -> dict[Partition, int]:
        return {partition: epoch for (_, _, partition), epoch in self.noted.items()}

    async def own(self, *claim: Any, newest: bool = False) -> None:
        subscription, broker, partitions, epoch = claim
        for partition in partitions if newest else ():
            if self.noted.get((subscription, broker, partition), epoch) > epoch:
                raise StaleOwner(f"{partition} is owned under a greater epoch than {epoch}")
        for partition in partitions:
            self.noted[subscription, broker, partition] = epoch

    def fence(self, kept: Iterable[tuple[Claim, int]]) -> None:
        noted = dict(self.noted)
        for claim, epoch in sorted(kept, key=str):
            if epoch != noted.setdefault(claim, epoch):
                raise StaleOwner(f"{claim} is owned under epoch {noted[claim]}, refused {epoch}")
        self.noted = noted

    def number(self, claim: Claim) -> int:
        self.numbers[claim] += 1
        return self.numbers[claim]


class _Letters:
    """The table of dead letters."""

    def __init__(self, store: MemoryStore, max_rows: int) -> None:
        self._store = store
        self._max_rows = max_rows
        self._ids = count(1)
        self.rows: list[DeadLetter] = []
        self.full = ""

    async def add(self, letter: DeadLetter, parked: int | None = None) -> None:
        self._store.fail()
        noted = dict(self._store.owners.noted)
        self._store.owners.fence([claim_of(letter)])
        try:
            self.write(letter)
        except StoreFull:
            self._store.owners.noted = noted
            raise
        if parked is not None:
            self._store.parked.remove({parked})

    def write(self, letter: DeadLetter) -> None:
        self.check_room([letter])
        if not known(letter, self.rows):
            detail = letter.detail.encode("utf-8", "replace").decode().replace("\0", "�")
            self.rows.append(replace(letter, id=next(self._ids), detail=detail))

    def check_room(self, letters: Sequence[DeadLetter]) -> None:
        self.full = ""
        new = sum(not known(letter, self.rows) for letter in letters)
        if new and len(self.rows) + new > self._max_rows:
            self.full = f"{self._max_rows} dead letters are stored, which is the bound"
            raise StoreFull(self.full)

    async def find(
        self, choice: DeadLetterFilter, limit: int = 100, before: int | None = None
    ) -> list[DeadLetter]:
        found = [row for row in self._chosen(choice) if before is None or row.id < before]
        return found[::-1][:limit]

    async def count(self, choice: DeadLetterFilter) -> Mapping[tuple[str, str], int]:
        return dict(Counter((row.subscription, row.cause) for row in self._chosen(choice)))

    async def count_over_time(
        self, choice: DeadLetterFilter, every_ms: int
    ) -> Mapping[tuple[int, str], int]:
        return dict(
            Counter((row.at_ms // every_ms * every_ms, row.cause) for row in self._chosen(choice))
        )

    async def discard(self, choice: DeadLetterFilter) -> int:
        gone = self._chosen(choice)
        self.rows = [row for row in self.rows if row not in gone]
        return len(gone)

    async def redrive(
        self, choice: DeadLetterFilter, *, rate: float, now_ms: int, limit: int
    ) -> int:
        moved = self._chosen(choice)[:limit]
        self._store.parked.give_back(moved, rate, now_ms)
        self.rows = [row for row in self.rows if row not in moved]
        if moved:
            self._store.grow()
        return len(moved)

    def _chosen(self, choice: DeadLetterFilter) -> list[DeadLetter]:
        self._store.check()
        return [row for row in self.rows if _is_meant(row, choice)]


def _is_meant(row: DeadLetter, choice: DeadLetterFilter) -> bool:
    wanted = choice.type
    return (
        choice.subscription in (None, row.subscription)
        and (not choice.subscriptions or row.subscription in choice.subscriptions)
        and (not choice.causes or row.cause in choice.causes)
        and (choice.since_ms is None or row.at_ms >= choice.since_ms)
        and (choice.until_ms is None or row.at_ms < choice.until_ms)
        and choice.source in (None, row.event.source)
        and (
            wanted is None
            or (row.event.type.startswith(wanted[:-1]) if wanted.endswith("*") else False)
            or row.event.type == wanted
        )
        and choice.event_id in (None, row.event.id)
        and (not choice.ids or row.id in choice.ids)
    )
