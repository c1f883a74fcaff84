"""Ranges of the log once more, for one subscription, beside what it gets anyway.

The owner of a partition reads it again without a group and sends what is wanted through the lanes of
live messages: one in flight a key, the same retries, parking and dead letters. Nothing of it is settled
with the group; how far it is stands in the store, fenced by the epoch of the ownership. After a crash it
goes on at the first message that was not finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from msgspec.structs import replace

from app.delivery.backoff import try_again_in
from app.delivery.replay_range import ReplayRange
from app.errors import BrokerError, PositionOutOfRange, StaleOwner, StoreUnavailable
from app.interfaces import DeadLetters, Log, Replay
from app.model.message import Message, Partition
from app.telemetry.slices import Turns
from app.worker.budget import MOST_HELD
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.origins import Park, Unstored
from app.worker.owned_partition import OwnedPartition
from app.worker.parking import Parking
from app.worker.request_bounds import read_ahead
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherPart, Shared
from app.worker.timing import happened

SAVE = 1.0  # seconds between notes of how far it is: what is finished since is sent again after a crash

_log = logging.getLogger("skybridge.worker")


class ReplayedRange(Unstored):
    """The origin of what is read again, under the epoch of our ownership: one row of the store under way.

    ``open``  deliveries that are held, of ``held`` bytes. ``landed``: set whenever one of them is not held any more.
    """

    ages = False

    def __init__(
        self, row: Replay, owned: OwnedPartition, letters: DeadLetters, park: Park
    ) -> None:
        super().__init__(owned, letters, park)
        self.row = row
        self.range = ReplayRange(row.next, row.done)
        self.noted = row  # how far it is, as the store knows
        self.open = self.held = 0
        self.landed = asyncio.Event()
        self.next_at = 0.0  # when its rate allows the next one
        self.task: asyncio.Task[None] | None = None

    @property
    def progress(self) -> Replay:
        return replace(self.row, next=self.range.next, done=self.range.done)

    def finish(self, delivery: Delivery) -> None:
        """Delivered, parked or a dead letter: all of these are kept."""
        self.range.finish(delivery.message.offset)
        self.release(delivery)

    def release(self, delivery: Delivery) -> None:
        self.open -= 1
        self.held -= delivery.size
        self.landed.set()


@dataclass(eq=False, repr=False)
class Replays(DispatcherPart):
    """``ready``: the partitions that are ours and loaded."""

    _log: Log
    _reader: DeliveryReader
    _scheduler: Scheduler
    _parking: Parking
    _ready: Mapping[Partition, OwnedPartition]

    def __post_init__(self, shared: Shared) -> None:
        super().__post_init__(shared)
        self._most = read_ahead(shared.subscription)  # of each range that are held at a time
        self._rows = shared.store.replays
        self._runs: dict[int, ReplayedRange] = {}
        self._search: asyncio.Task[None] | None = None
        self._outdated = False  # the store changed since it was read

    @property
    def busy(self) -> bool:
        return bool(self._runs)

    def look(self) -> None:
        """There may be new ones, or partitions of ours that were not ours before."""
        self._outdated = True
        if self._search is None:
            self._search = self._scope.spawn(self._find(), f"{self._subscription.id} replays")

    def drop(self, partitions: set[Partition]) -> None:
        """They are others' now, and so is how far they are."""
        for run in list(self._runs.values()):
            if run.row.partition in partitions:
                self._forget(run)

    async def note(self) -> None:
        """How far all of them are, once more before the end."""
        for run in list(self._runs.values()):
            try:
                await self._save(run)
            except (StoreUnavailable, StaleOwner) as error:
                _log.info("%s: a replay goes on a little earlier: %s", run.row.subscription, error)

    async def _find(self) -> None:
        while self._outdated:
            self._outdated = False
            try:
                self._take(await self._rows.all(self._subscription.id))
            except StoreUnavailable as error:
                self._outdated, self.trouble = True, f"replays cannot be read: {error}"
                await self._clock.sleep(self.pause())
            else:
                self.well()
        self._search = None

    def _take(self, rows: Sequence[Replay]) -> None:
        asked = {row.id for row in rows}
        for run in list(self._runs.values()):
            if run.row.id not in asked:  # it was cancelled
                self._forget(run)
        for row in rows:
            owned = self._ready.get(row.partition)
            if row.id not in self._runs and owned is not None:
                run = ReplayedRange(row, owned, self._store.letters, self._parking.follow)
                name = f"{self._subscription.id} replay {row.id}"
                run.task = self._scope.spawn(self._keep(run), name)
                self._runs[row.id] = run

    def _forget(self, run: ReplayedRange) -> None:
        self._runs.pop(run.row.id, None)
        if run.task is not None:
            run.task.cancel()

    async def _keep(self, run: ReplayedRange) -> None:
        """Until all of it is finished and that is noted, or it concerns others."""
        failures = 0
        while True:
            try:
                await self._go_through(run)
                if run.range.is_finished:  # else some were released: they are the next owner's
                    await self._rows.end(run.row.id)
                break
            except StaleOwner as error:
                _log.info("%s: %s", run.row.subscription, error)
                break
            except (BrokerError, PositionOutOfRange, StoreUnavailable) as error:
                failures += 1
                self.trouble = f"a replay of {run.row.partition} waits: {error}"
                while run.open:  # else what is open would be sent twice
                    run.landed.clear()
                    await run.landed.wait()
                if not isinstance(error, PositionOutOfRange) or not self._passes_over(run, error):
                    await self._clock.sleep(try_again_in(failures, self._jitter()))
        self.trouble = ""
        self._runs.pop(run.row.id, None)

    def _passes_over(self, run: ReplayedRange, error: PositionOutOfRange) -> bool:
        """What retention has dropped since it was asked for is gone for good: said, and left out."""
        _log.warning("%s: a replay begins later: %s", run.row.subscription, error)
        if error.earliest in ("", run.range.next):
            return False
        run.range = ReplayRange(error.earliest, run.range.done)
        return True

    async def _go_through(self, run: ReplayedRange) -> None:
        run.range.restart()
        turns, saved = Turns(), self._clock.monotonic()
        begin, until = run.range.next, run.row.until
        async with aclosing(self._log.read(run.row.partition, begin, until)) as messages:
            async for message in messages:
                await self._room(run)
                await turns.spend(self._reader.units)
                self._hand_over(run, message)
                if self._clock.monotonic() - saved >= SAVE:
                    saved = self._clock.monotonic()
                    await self._save(run)
        while run.open:
            await self._landed(run)

    async def _landed(self, run: ReplayedRange) -> None:
        """One of its deliveries is not held any more, or how far it is was noted."""
        run.landed.clear()
        if not await happened(run.landed, self._clock, SAVE):
            await self._save(run)

    async def _save(self, run: ReplayedRange) -> None:
        progress = run.progress
        if progress != run.noted:
            await self._rows.save(progress, run.owned.epoch)
            run.noted = progress

    async def _room(self, run: ReplayedRange) -> None:
        """Until another may be held: by the bound of the range, by the process, by its rate."""
        while run.open and (run.open >= self._most or self._is_crowded(run)):
            await self._landed(run)
        wait = run.next_at - self._clock.monotonic()
        if wait > 0:
            await self._clock.sleep(wait)

    def _is_crowded(self, run: ReplayedRange) -> bool:
        """Live events have the other half of what a subscription may hold."""
        return run.held > MOST_HELD // 2 or not self._part.may_hold()

    def _hand_over(self, run: ReplayedRange, message: Message) -> None:
        run.range.take(message.offset, message.position)
        delivery = self._reader.read(replace(message, epoch=run.owned.epoch), run)  # it had none
        if isinstance(delivery, str):
            run.range.finish(message.offset)
            self._attempts.finished(delivery)
            return
        run.open += 1
        run.held += delivery.size
        if run.row.rate:
            run.next_at = max(run.next_at, self._clock.monotonic()) + 1 / run.row.rate
        self._scheduler.add(delivery)
        self._scheduler.wake()
