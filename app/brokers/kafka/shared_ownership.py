"""The partitions that a shared group owns, and the rows of the store with the positions in them (ADR 0055).

All rows that changed are written together, in the transaction that checks the epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from app.brokers.kafka.shared_positions import SharedPartition
from app.brokers.tail import PartitionTail
from app.errors import BrokerUnavailable, StaleOwner, StoreUnavailable
from app.interfaces import Progress, ProgressStore
from app.model.message import Partition

log = logging.getLogger(__name__)

AGAIN_AFTER = 1.0  # seconds
CONFIRMED = 5.0  # seconds after which the group has notified a member that was replaced
SHARE = 10  # a batch may take one tenth of the time
MINIMUM_EVERY = 5.0  # seconds between commits of the minimum to Kafka

Held = Mapping[Partition, SharedPartition]


class GroupEnds(NamedTuple):
    """Functions of the group that the ownership calls.

    Attributes:
        has_lease: Returns True if the group cannot yet have given the partitions to another process.
        commit: Commits offsets to Kafka, for Kafka's own tools.
        forget: Called with the group of each subscription whose positions are gone.
        fail: Called with an error that ends the membership.
    """

    has_lease: Callable[[], bool]
    commit: Callable[[Mapping[Partition, int]], Awaitable[bool]]
    forget: Callable[[str], None]
    fail: Callable[[BaseException], None]


class SharedOwnership:
    """The partitions that a member owns, with the positions of all subscriptions.

    Args:
        broker: The name of the cluster.
        group: The name of the group.
        store: The rows.
        tail: A function that returns the shared reader of a partition.
        ends: The functions of the group.
        interval: The seconds between two batches of rows.
        monotonic: A clock in seconds.

    Attributes:
        held: The partitions, while they are owned.
        trouble: Why positions cannot be read or stored, or "".
    """

    def __init__(
        self,
        broker: str,
        group: str,
        store: ProgressStore,
        tail: Callable[[Partition], PartitionTail],
        ends: GroupEnds,
        interval: float,
        monotonic: Callable[[], float],
    ) -> None:
        self.held: Held = {}
        self.trouble = ""
        self._broker = broker
        self._group = group
        self._store = store
        self._tail = tail
        self._ends = ends
        self._interval = interval
        self._monotonic = monotonic
        self._refused: int | None = None  # the epoch that the store refused as stale
        self._due = asyncio.Event()
        self._lock = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None  # a batch that has not begun
        self._floors: dict[Partition, int] = {}  # as stored
        self._minimum: Mapping[Partition, int] = {}  # as committed to Kafka
        self._minimum_at = 0.0

    @property
    def epoch(self) -> int:
        """Return the epoch of the owned partitions, of which there must be one."""
        return next(iter(self.held.values())).epoch

    async def load(self, places: Sequence[Partition], epoch: int) -> Held:
        """Become the owner of partitions in the store, and return them with their positions. Repeat it while the store
        is unavailable, or has a newer owner."""
        while True:
            # The next try after a refusal replaces the stored epoch, if the group still confirms this one.
            newest = epoch != self._refused or not self._ends.has_lease()
            try:
                floors, rows = await self._store.own(
                    self._broker, self._group, epoch, places, newest=newest
                )
            except StaleOwner as error:
                # Either another process is the owner, and a revocation will follow. Or the cluster has forgotten the
                # group and counts from one again.
                self._refused, delay = epoch, CONFIRMED
                self.trouble = f"the store refused the ownership, next try in {delay:g} s: {error}"
            except StoreUnavailable as error:
                delay = AGAIN_AFTER
                self.trouble = f"positions cannot be loaded, so nothing is delivered: {error}"
            else:
                self.trouble, self._refused = "", None
                self._floors = dict(floors)
                return {
                    at: SharedPartition(at, epoch, floors[at], rows[at], self._tail(at))
                    for at in places
                }
            await asyncio.sleep(delay)

    def soon(self) -> None:
        """Schedule a batch."""
        self._due.set()

    async def write(self) -> None:
        """Store positions after messages were finished, so that one batch covers many of them. Runs until it is
        cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            await asyncio.sleep(self._interval)
            begun = self._monotonic()
            await self.flush()
            took = self._monotonic() - begun
            await asyncio.sleep(max(0.0, SHARE * took - self._interval))
            if self._monotonic() - self._minimum_at >= MINIMUM_EVERY:
                await self.commit_minimum()

    async def flush(self) -> None:
        """Store the floors, and the positions that have changed. If the store is unavailable, they are stored later.

        Calls that come while a batch is written share the next one.
        """
        batch = self._next
        if batch is None:
            batch = self._next = asyncio.create_task(self._flush(), name=f"batch {self._group}")
        await asyncio.wait({batch})
        batch.result()

    async def _flush(self) -> None:
        async with self._lock:
            self._next = None  # what is finished from now on belongs to another batch
            held = self.held
            rows = {at: each.batch(self._monotonic()) for at, each in held.items()}
            floors = {
                at: each.floor
                for at, each in held.items()
                if rows[at] or each.floor != self._floors.get(at)
            }
            if floors:
                await self._save(held, floors, {at: each for at, each in rows.items() if each})

    async def _save(
        self,
        held: Held,
        floors: Mapping[Partition, int],
        rows: Mapping[Partition, Mapping[str, Progress]],
    ) -> None:
        epoch = next(iter(held.values())).epoch
        try:
            missing = await self._store.save(self._broker, self._group, epoch, floors, rows)
        except StoreUnavailable as error:
            self.trouble = f"positions cannot be stored, so a kill would repeat more: {error}"
            _write_again(held, rows)
            self._due.set()
            return
        except StaleOwner as error:  # another process owns a partition, and a revocation follows
            log.warning("%s", error)
            _write_again(held, rows)
            if self._ends.has_lease():
                self._ends.fail(BrokerUnavailable(f"the store and the group differ: {error}"))
            return
        self.trouble = ""
        self._floors |= floors
        for at, each in rows.items():
            held[at].stored(each, self._monotonic())
        for group in {group for group, _ in missing}:
            for partition in self.held.values():
                partition.remove(group)
            self._ends.forget(group)

    async def commit_minimum(self) -> None:
        """Commit the lowest position of all subscriptions to Kafka, for Kafka's own tools."""
        self._minimum_at = self._monotonic()
        offsets = {at: min(each.minimum, self._floors[at]) for at, each in self.held.items()}
        if offsets and offsets != self._minimum and await self._ends.commit(offsets):
            self._minimum = offsets


def _write_again(held: Held, rows: Mapping[Partition, Mapping[str, Progress]]) -> None:
    for at, each in rows.items():
        held[at].failed(each)
