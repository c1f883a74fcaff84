"""Deliveries that are rows of the store: save a row, turn it into a dead letter, or delete it.

Delivered rows are deleted many at a time, and no delivery waits for the deletion."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import DeadLetter, Parked
from app.model.message import Partition
from app.telemetry.light_event import LightEvent
from app.worker.delivery import Delivery, DeliveryOrigin
from app.worker.owned_partition import OwnedPartition, group_by_ownership
from app.worker.shared import DispatcherContext, DispatcherPart

AT_ONCE = 1_000  # rows of one transaction

_log = logging.getLogger("skybridge.worker")


class RowListener(Protocol):
    """The reader of a stored row, which is notified when the row is closed or deleted."""

    def row_closed(self, row: Parked, *, done: bool, due: float = 0.0) -> None:
        """Note that the row is no longer held in memory.

        Args:
            row: the row.
            done: whether the row is deleted or about to be.
            due: when the row may be tried again, in monotonic seconds; 0 if that is not known.
        """

    def row_deleted(self, row: Parked) -> None:
        """Note that the row is gone from the store."""


class StoredRow(DeliveryOrigin):
    """The origin of a delivery that is a row of the store. ``row`` has the epoch of ``owned``."""

    def __init__(
        self, row: Parked, owned: OwnedPartition, rows: StoredRows, listener: RowListener
    ) -> None:
        super().__init__(owned)
        self.row = row
        self.parked_since_ms = row.at_ms
        self.holds_lane = not row.redriven  # live events do not wait for a redriven one
        self.listener = listener
        self._rows = rows

    def goes_before(self, other: Delivery) -> bool:
        """Return True if both rows were redriven and this one is of the earlier dead letter."""
        origin = other.origin
        if not isinstance(origin, StoredRow) or origin.holds_lane:
            return False
        return self.row.letter < origin.row.letter

    def finish(self, delivery: Delivery) -> None:  # noqa: ARG002 - the row is enough
        held = (
            not self.owned.lost or self.owned.holds()
        )  # a revoked partition may be held for a while
        if held:
            self._rows.finished(self)
        self.listener.row_closed(self.row, done=held)

    async def save(self, delivery: Delivery, due: float) -> None:
        await self._rows.save(self.row, delivery, due)

    async def dead_letter(self, delivery: Delivery, letter: DeadLetter) -> None:  # noqa: ARG002
        await self._rows.letters.add(letter, self.row.id)
        self.listener.row_deleted(self.row)
        self.listener.row_closed(self.row, done=True)

    def release(self, delivery: Delivery) -> None:  # noqa: ARG002
        self.listener.row_closed(self.row, done=False)

    def retry_at(self, delivery: Delivery, due: float) -> None:  # noqa: ARG002
        self.listener.row_closed(self.row, done=False, due=due)


class StoredRows(DispatcherPart):
    """Writes and deletes stored rows of one subscription. ``deleted`` is set whenever rows are gone from the store."""

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._task: asyncio.Task[None] | None = None
        self._leaving: dict[int, StoredRow] = {}  # by id of the row
        self.letters = shared.store.letters
        self.deleted = LightEvent()

    async def save(self, row: Parked, delivery: Delivery, due: float) -> None:
        """Write the delivery's steps, attempts and last cause to its row, due at ``due`` (monotonic seconds).

        Raises:
            StoreUnavailable: the store did not answer.
            StaleOwner: a newer owner has the partition.
        """
        wall = self._store.clock.now() + due - self._clock.monotonic()
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
        """Queue the row of a delivered or expired event for deletion."""
        self._leaving[row.row.id] = row
        if self._task is None:
            self._task = self._scope.spawn(self._delete_all(), "row cleanup")

    def leaving(self) -> Iterable[int]:
        """Return the ids of finished rows that are not deleted yet."""
        return self._leaving.keys()

    def busy_with(self, partitions: set[Partition]) -> bool:
        """Return True if rows of these partitions are still to be deleted."""
        return any(each.row.message.partition in partitions for each in self._leaving.values())

    def look(self) -> None:
        """Wake the tasks that wait for deletions, because partitions were revoked."""
        self.deleted.set()

    async def _delete_all(self) -> None:
        try:
            while self._leaving:
                went = False
                for owned, rows in group_by_ownership(
                    self._leaving.values(), lambda row: row.owned
                ).items():
                    went |= await self._deleted(owned, rows[:AT_ONCE])
                self.deleted.set()
                if not went:
                    await self._clock.sleep(self.retry_delay())
        finally:
            self._task = None

    async def _deleted(self, owned: OwnedPartition, rows: Sequence[StoredRow]) -> bool:
        try:
            if owned.holds():
                await self._store.parked.unpark([each.row for each in rows])
            elif not owned.lost:  # the lease is in doubt; a Revoked or Lost may follow
                return False
        except StaleOwner as error:
            owned.replaced(error)
        except StoreUnavailable as error:
            self.trouble = f"delivered rows cannot be deleted: {error}"
            return False
        self.clear_trouble()
        for each in rows:
            self._leaving.pop(each.row.id, None)
            each.listener.row_deleted(each.row)
        return True
