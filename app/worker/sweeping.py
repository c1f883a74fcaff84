"""Rows that were delivered go from the store: many at a time, and no delivery waits for that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from app.delivery.backoff import doubling
from app.delivery.parked_lanes import ParkedLanes
from app.errors import StaleOwner, StoreUnavailable
from app.interfaces import Clock, Store
from app.model.message import Message, Partition
from app.worker.intake import Held

AT_ONCE = 1_000  # rows of one transaction
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds between tries at a store that does not answer
RECHECK = 0.2  # seconds until rows whose partition is in doubt are looked at again

_log = logging.getLogger("skybridge.worker")


class Sweeper:
    """``left``: set whenever rows are gone from the store."""

    def __init__(
        self, store: Store, clock: Clock, jitter: Callable[[], float], lanes: ParkedLanes
    ) -> None:
        self._store = store
        self._clock = clock
        self._jitter = jitter
        self._lanes = lanes
        self._holds: Callable[[Message], bool] = lambda _: False
        self._tasks: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving: dict[int, Held] = {}  # by id of the row
        self.left = asyncio.Event()
        self.trouble = ""

    def begin(self, tasks: asyncio.TaskGroup, holds: Callable[[Message], bool]) -> None:
        self._tasks, self._holds = tasks, holds

    def end(self) -> None:
        self._tasks = None
        if self._task is not None:
            self._task.cancel()

    def finished(self, held: Held) -> None:
        """The row was delivered, or expired: it goes."""
        if held.row is None:
            return
        held.done = True
        self._leaving[held.row.id] = held
        if self._task is None and self._tasks is not None:
            self._task = self._tasks.create_task(self._sweep(), name="sweeper")

    def leaving(self) -> Iterable[int]:
        """Ids of rows that were delivered and are not gone yet."""
        return self._leaving.keys()

    def busy(self, partitions: set[Partition]) -> bool:
        return any(held.message.partition in partitions for held in self._leaving.values())

    def drop(self, partitions: set[Partition]) -> None:
        """They concern others now."""
        for held in self._leaving.values():
            held.gone = held.gone or held.message.partition in partitions
        self.left.set()

    def uncount(self, held: Held) -> None:
        """Its row is gone from the store."""
        if held.parked is not None:
            held.parked.open -= 1
            self._lanes.count(held.parked, -1)

    async def _sweep(self) -> None:
        failures = 0
        try:
            while self._leaving:
                went = False
                for (partition, _), items in by_owner(self._leaving.values()).items():
                    went |= await self._swept(partition, items[:AT_ONCE])
                self.left.set()
                failures = 0 if went or not self.trouble else failures + 1
                if not went:
                    await self._clock.sleep(pause_after(failures, self._jitter))
        finally:
            self._task = None

    async def _swept(self, partition: Partition, items: Sequence[Held]) -> bool:
        try:
            if self._holds(items[0].message):
                await self._store.parked.unpark([held.row for held in items if held.row])
            elif not items[0].gone:  # rule 5; a Revoked or Lost will say more
                return False
        except StaleOwner as error:
            replaced(partition, items, self._holds, error)
        except StoreUnavailable as error:
            self.trouble = f"rows that were delivered cannot be deleted: {error}"
            return False
        self.trouble = ""
        for held in items:
            if held.row is not None:
                self._leaving.pop(held.row.id, None)
                self.uncount(held)
        return True


def pause_after(failures: int, jitter: Callable[[], float]) -> float:
    """Seconds, when the store refused so often in a row; 0: it did not, the partition is in doubt."""
    return doubling(FIRST_WAIT, LONGEST_WAIT, failures, jitter()) if failures else RECHECK


def replaced(
    partition: Partition,
    items: Sequence[Held],
    holds: Callable[[Message], bool],
    error: StaleOwner,
) -> None:
    """A newer owner has the partition: whatever comes of these concerns it. Raises StaleOwner where the
    log says that we have it all the same."""
    if any(not held.gone for held in items) and holds(items[0].message):
        raise StaleOwner(f"{partition}: the store and the log differ on its owner") from error
    _log.warning("%s", error)
    for held in items:
        held.gone = True


def by_owner(items: Iterable[Held]) -> dict[tuple[Partition, int], list[Held]]:
    """By partition and epoch: some may have been taken from us and given back."""
    found: dict[tuple[Partition, int], list[Held]] = {}
    for held in items:
        found.setdefault((held.message.partition, held.message.epoch), []).append(held)
    return found


def by_partition(items: Iterable[Held]) -> dict[Partition, list[Held]]:
    found: dict[Partition, list[Held]] = {}
    for held in items:
        found.setdefault(held.message.partition, []).append(held)
    return found
