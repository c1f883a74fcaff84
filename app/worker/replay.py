"""Replay ranges of the log for one subscription, in parallel with its live deliveries.

The owner of a partition reads the range without a group. It sends wanted messages through the queues of live
messages, with the same order, retries, parking and dead letters. Nothing is committed to the group. The progress is
stored with the ownership's epoch. After a crash the replay goes on at the first unfinished message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from msgspec.structs import replace

from app.delivery.backoff import backoff_delay
from app.delivery.replay_range import ReplayRange
from app.errors import BrokerError, PositionOutOfRange, StaleOwner, StoreUnavailable
from app.interfaces import DeadLetters, Log, Replay
from app.model.message import Message, Partition
from app.model.position import is_before
from app.telemetry.slices import Turns
from app.worker.budget import MOST_HELD
from app.worker.decode_and_filter import DeliveryReader
from app.worker.delivery import Delivery
from app.worker.origins import Park, UnstoredOrigin
from app.worker.owned_partition import OwnedPartition
from app.worker.parking import KeyParking
from app.worker.request_bounds import read_ahead
from app.worker.scheduler import Scheduler
from app.worker.shared import DispatcherContext, DispatcherPart
from app.worker.timing import wait_for_event

SAVE = 1.0  # seconds between saves of the progress; a crash repeats what was finished since the last one

_log = logging.getLogger("skybridge.worker")


class ReplayedRange(UnstoredOrigin):
    """A running replay of one range, which is also the origin of its deliveries.

    ``open_deliveries`` counts the held deliveries, and ``held_bytes`` their size. ``released`` is set when one of
    them is no longer held."""

    age_limited = False

    def __init__(
        self, row: Replay, owned: OwnedPartition, letters: DeadLetters, park: Park
    ) -> None:
        super().__init__(owned, letters, park)
        self.row = row
        self.range = ReplayRange(row.next, row.done)
        self.saved = row  # the progress in the store
        self.open_deliveries = self.held_bytes = 0
        self.released = asyncio.Event()
        self.next_at = (
            0.0  # when the rate of the replay allows the next delivery, in monotonic seconds
        )
        self.task: asyncio.Task[None] | None = None

    @property
    def progress(self) -> Replay:
        """Return the row of the replay with its current position and count."""
        return replace(self.row, next=self.range.next, done=self.range.done)

    def finish(self, delivery: Delivery) -> None:
        """Mark the message as done in the replay, because it was delivered, parked or dead-lettered."""
        self.range.finish(delivery.message.offset)
        self.release(delivery)

    def release(self, delivery: Delivery) -> None:
        """Count a delivery of the replay that is no longer held in memory."""
        self.open_deliveries -= 1
        self.held_bytes -= delivery.size
        self.released.set()


@dataclass(eq=False, repr=False)
class ReplayRunner(DispatcherPart):
    """Runs the replays of one subscription on the partitions that this process owns.

    ``_ready`` are the owned partitions that may be delivered from."""

    _log: Log
    _reader: DeliveryReader
    _scheduler: Scheduler
    _parking: KeyParking
    _ready: Mapping[Partition, OwnedPartition]

    def __post_init__(self, shared: DispatcherContext) -> None:
        super().__post_init__(shared)
        self._most = read_ahead(
            shared.subscription
        )  # deliveries of one range that are held at once
        self._rows = shared.store.replays
        self._runs: dict[int, ReplayedRange] = {}
        self._search: asyncio.Task[None] | None = None
        self._stale = False  # the store has changed since the last read

    @property
    def busy(self) -> bool:
        """Return True if a replay is running."""
        return bool(self._runs)

    def look(self) -> None:
        """Read the replays from the store again, because replays or owned partitions may be new."""
        self._stale = True
        if self._search is None:
            self._search = self._scope.spawn(self._find(), f"{self._subscription.id} replays")

    def drop(self, partitions: set[Partition]) -> None:
        """Cancel the replays of partitions that this process no longer owns."""
        for run in list(self._runs.values()):
            if run.row.partition in partitions:
                self._cancel(run)

    async def save_all(self) -> None:
        """Save the progress of all replays before the dispatcher ends."""
        for run in list(self._runs.values()):
            try:
                await self._save(run)
            except (StoreUnavailable, StaleOwner) as error:
                _log.info(
                    "%s: the progress of a replay is not saved, so some messages are repeated: %s",
                    run.row.subscription,
                    error,
                )

    async def _find(self) -> None:
        while self._stale:
            self._stale = False
            try:
                self._start_new(await self._rows.all(self._subscription.id))
            except StoreUnavailable as error:
                self._stale, self.trouble = True, f"replays cannot be read: {error}"
                await self._clock.sleep(self.retry_delay())
            else:
                self.clear_trouble()
        self._search = None

    def _start_new(self, rows: Sequence[Replay]) -> None:
        asked = {row.id for row in rows}
        for run in list(self._runs.values()):
            if run.row.id not in asked:  # it was cancelled
                self._cancel(run)
        for row in rows:
            owned = self._ready.get(row.partition)
            if row.id not in self._runs and owned is not None:
                run = ReplayedRange(row, owned, self._store.letters, self._parking.add)
                name = f"{self._subscription.id} replay {row.id}"
                run.task = self._scope.spawn(self._run_to_end(run), name)
                self._runs[row.id] = run

    def _cancel(self, run: ReplayedRange) -> None:
        self._runs.pop(run.row.id, None)
        if run.task is not None:
            run.task.cancel()

    async def _run_to_end(self, run: ReplayedRange) -> None:
        """Run one replay until all its messages are finished, or until another process owns the partition."""
        failures = 0
        while True:
            try:
                await self._read_range(run)
                if (
                    run.range.is_finished
                ):  # else the next owner continues with the released messages
                    await self._rows.end(run.row.id)
                break
            except StaleOwner as error:
                _log.info("%s: %s", run.row.subscription, error)
                break
            except (BrokerError, PositionOutOfRange, StoreUnavailable) as error:
                failures += 1
                self.trouble = f"a replay of {run.row.partition} waits: {error}"
                while run.open_deliveries:  # else the next read would send them twice
                    run.released.clear()
                    await run.released.wait()
                if not isinstance(error, PositionOutOfRange) or not self._skips_expired(run, error):
                    await self._clock.sleep(backoff_delay(failures, self._jitter()))
        self.trouble = ""
        self._runs.pop(run.row.id, None)

    def _skips_expired(self, run: ReplayedRange, error: PositionOutOfRange) -> bool:
        """Move the replay on to the earliest position that the log still has. Return False if that is no progress.

        A replay never moves back. A position after the last message means that the log has lost messages, or that a
        broker does not have them yet.
        """
        if not is_before(run.range.next, error.earliest):
            return False
        _log.warning("%s: a replay skips messages that are gone: %s", run.row.subscription, error)
        run.range = ReplayRange(error.earliest, run.range.done)
        return True

    async def _read_range(self, run: ReplayedRange) -> None:
        run.range.restart()
        turns, saved = Turns(), self._clock.monotonic()
        begin, until = run.range.next, run.row.until
        async with aclosing(self._log.read(run.row.partition, begin, until)) as messages:
            async for message in messages:
                await self._wait_for_room(run)
                await turns.spend(self._reader.units)
                self._schedule(run, message)
                if self._clock.monotonic() - saved >= SAVE:
                    saved = self._clock.monotonic()
                    await self._save(run)
        while run.open_deliveries:
            await self._wait_for_release(run)

    async def _wait_for_release(self, run: ReplayedRange) -> None:
        """Wait until one delivery of the replay is no longer held. Save the progress if that takes long."""
        run.released.clear()
        if not await wait_for_event(run.released, self._clock, SAVE):
            await self._save(run)

    async def _save(self, run: ReplayedRange) -> None:
        progress = run.progress
        if progress != run.saved:
            await self._rows.save(progress, run.owned.epoch)
            run.saved = progress

    async def _wait_for_room(self, run: ReplayedRange) -> None:
        """Wait until another delivery may be held, by the bounds of the replay and the process, and by the rate."""
        while run.open_deliveries and (run.open_deliveries >= self._most or self._is_crowded(run)):
            await self._wait_for_release(run)
        wait = run.next_at - self._clock.monotonic()
        if wait > 0:
            await self._clock.sleep(wait)

    def _is_crowded(self, run: ReplayedRange) -> bool:
        """Return True if the replay may hold no more. Live events keep half of the subscription's memory."""
        return run.held_bytes > MOST_HELD // 2 or not self._budget.may_hold()

    def _schedule(self, run: ReplayedRange, message: Message) -> None:
        run.range.take(message.offset, message.position)
        delivery = self._reader.read(replace(message, epoch=run.owned.epoch), run)
        if isinstance(delivery, str):
            run.range.finish(message.offset)
            self._attempts.count_finished(delivery)
            return
        run.open_deliveries += 1
        run.held_bytes += delivery.size
        if run.row.rate:
            run.next_at = max(run.next_at, self._clock.monotonic()) + 1 / run.row.rate
        self._scheduler.add(delivery)
        self._scheduler.wake()
