"""Deliveries that are rows of the store: how a row is written again, becomes a dead letter, or goes.

Rows that were delivered go many at a time, and no delivery waits for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import DeadLetter, Parked
from app.model.message import Partition
from app.worker.delivery import Delivery, Origin
from app.worker.owned_partition import OwnedPartition, by_owner
from app.worker.shared import DispatcherPart, Shared

AT_ONCE = 1_000  # rows of one transaction

_log = logging.getLogger("skybridge.worker")


class Reader(Protocol):
    """What read a row of the store, and waits for its end."""

    def landed(self, row: Parked, *, done: bool, due: float = 0.0) -> None:
        """It is held no more. ``done``: its row goes, or is gone. ``due``: when it may be tried again."""

    def left(self, row: Parked) -> None:
        """The row is gone from the store."""


class StoredRow(Origin):
    """A row whose delivery is under way. ``row`` bears the epoch of ``owned``."""

    def __init__(
        self, row: Parked, owned: OwnedPartition, rows: StoredRows, reader: Reader
    ) -> None:
        super().__init__(owned)
        self.row = row
        self.since_ms = row.at_ms
        self.holds_lane = not row.redriven  # live events do not wait for a redriven one
        self.reader = reader
        self._rows = rows

    def goes_before(self, other: Delivery) -> bool:
        """Return True if both were redriven, and this one is of the earlier letter."""
        origin = other.origin
        if not isinstance(origin, StoredRow) or origin.holds_lane:
            return False
        return self.row.letter < origin.row.letter

    def finish(self, delivery: Delivery) -> None:  # noqa: ARG002 - the row says it all
        ours = not self.owned.lost or self.owned.holds()  # revoked, and still ours
        if ours:
            self._rows.finished(self)
        self.reader.landed(self.row, done=ours)

    async def save(self, delivery: Delivery, due: float) -> None:
        await self._rows.save(self.row, delivery, due)

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:  # noqa: ARG002
        await self._rows.letters.add(letter, self.row.id)
        self.reader.left(self.row)
        self.reader.landed(self.row, done=True)

    def release(self, delivery: Delivery) -> None:  # noqa: ARG002
        self.reader.landed(self.row, done=False)

    def retry_at(self, delivery: Delivery, due: float) -> None:  # noqa: ARG002
        self.reader.landed(self.row, done=False, due=due)


class StoredRows(DispatcherPart):
    """``left``: set whenever rows are gone from the store."""

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        self._task: asyncio.Task[None] | None = None
        self._leaving: dict[int, StoredRow] = {}  # by id of the row
        self.letters = shared.store.letters
        self.left = asyncio.Event()

    async def save(self, row: Parked, delivery: Delivery, due: float) -> None:
        """The row waits until ``due`` (monotonic), with the steps and attempts that the delivery has now.
        StoreUnavailable, StaleOwner."""
        wall = self._clock.now() + due - self._clock.monotonic()
        await self._store.parked.defer(
            replace(
                row,
                steps=delivery.steps,
                attempts=delivery.attempts,
                due_ms=int(wall * 1000),
                cause=delivery.last.cause,
                detail=delivery.last.detail,
            )
        )

    def finished(self, row: StoredRow) -> None:
        """It was delivered, or expired: the row goes."""
        self._leaving[row.row.id] = row
        if self._task is None:
            self._task = self._scope.spawn(self._delete_all(), "row cleanup")

    def leaving(self) -> Iterable[int]:
        """Ids of rows that were delivered and are not gone yet."""
        return self._leaving.keys()

    def busy_with(self, partitions: set[Partition]) -> bool:
        """Whether rows of these partitions are to be deleted."""
        return any(each.row.message.partition in partitions for each in self._leaving.values())

    def look(self) -> None:
        """Partitions were taken from us: nothing waits for their rows any more."""
        self.left.set()

    async def _delete_all(self) -> None:
        try:
            while self._leaving:
                went = False
                for owned, rows in by_owner(self._leaving.values(), lambda row: row.owned).items():
                    went |= await self._deleted(owned, rows[:AT_ONCE])
                self.left.set()
                if not went:
                    await self._clock.sleep(self.pause())
        finally:
            self._task = None

    async def _deleted(self, owned: OwnedPartition, rows: Sequence[StoredRow]) -> bool:
        try:
            if owned.holds():
                await self._store.parked.unpark([each.row for each in rows])
            elif not owned.lost:  # rule 5; a Revoked or Lost will say more
                return False
        except StaleOwner as error:
            owned.replaced(error)
        except StoreUnavailable as error:
            self.trouble = f"rows that were delivered cannot be deleted: {error}"
            return False
        self.well()
        for each in rows:
            self._leaving.pop(each.row.id, None)
            each.reader.left(each.row)
        return True
