"""Ranges of the log once more, for whoever pulls: as ``replaying``, but what is finished is a row."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import aclosing

from msgspec.structs import replace

from app.delivery.replay_range import ReplayRange
from app.errors import PositionOutOfRange, StaleOwner
from app.interfaces import Clock, Log, Replay, Store
from app.model.message import Message, Partition
from app.worker.attempts import AttemptLog
from app.worker.intake import Held, Intake
from app.worker.shelf import PAGE, Shelf

_log = logging.getLogger("skybridge.worker")


class _Range:
    """A row under way. ``last``: the position offered last, for logs whose positions cannot be counted: it
    is read again, and passed over."""

    def __init__(self, row: Replay) -> None:
        self.row = row
        self.place = ReplayRange(row.next, row.done)
        self.last = ""
        self.next_at = 0.0  # when its rate allows more

    @property
    def progress(self) -> Replay:
        return replace(self.row, next=self.place.next, done=self.place.done)


class OfferingRanges:
    """A page of one range at a time. Each step raises StoreUnavailable or BrokerError and may be repeated:
    a page that was offered before its progress was noted is offered again, and is there already."""

    def __init__(
        self,
        subscription: str,
        log: Log,
        store: Store,
        clock: Clock,
        intake: Intake,
        shelf: Shelf,
        attempts: AttemptLog,
    ) -> None:
        self._subscription = subscription
        self._log = log
        self._rows = store.replays
        self._clock = clock
        self._intake = intake
        self._shelf = shelf
        self._attempts = attempts
        self._ranges: dict[int, _Range] = {}
        self._outdated = True  # the store, or what is ours, changed since it was read

    def look(self) -> None:
        """There may be new ones, or partitions of ours that were not ours before."""
        self._outdated = True

    @property
    def due(self) -> bool:
        """Whether there is anything to offer now."""
        now = self._clock.monotonic()
        return self._outdated or any(each.next_at <= now for each in self._ranges.values())

    async def offer(self, epochs: Mapping[Partition, int], most: int) -> int:
        """A page, of the range that waits for longest; how many events are rows now."""
        if self._outdated:
            self._outdated = False
            await self._read(epochs)
        now = self._clock.monotonic()
        one = min(self._ranges.values(), key=lambda each: each.next_at, default=None)
        if one is None or one.next_at > now:
            return 0
        if one.row.partition not in epochs:
            del self._ranges[one.row.id]
            return 0
        page, ended = await self._page(one, min(most, PAGE))
        held = self._wanted(page, epochs[one.row.partition])
        await self._shelf.offer_range(held)
        await self._note(one, page, epochs[one.row.partition], ended=ended)
        one.next_at = now + len(page) / one.row.rate if one.row.rate else now
        return len(held)

    async def _read(self, epochs: Mapping[Partition, int]) -> None:
        try:
            rows = await self._rows.all(self._subscription)
        except BaseException:
            self._outdated = True
            raise
        known = self._ranges
        self._ranges = {
            row.id: known.get(row.id) or _Range(row) for row in rows if row.partition in epochs
        }

    async def _page(self, one: _Range, most: int) -> tuple[list[Message], bool]:
        """Messages, and whether they are the last."""
        if one.row.rate:
            most = min(most, max(1, int(one.row.rate)))
        page: list[Message] = []
        try:
            begin, until = one.place.next, one.row.until
            async with aclosing(self._log.read(one.row.partition, begin, until)) as messages:
                async for message in messages:
                    if message.position == one.last:
                        continue
                    if len(page) == most:
                        return page, False
                    page.append(message)
        except PositionOutOfRange as error:
            return [], self._gone(one, error)
        return page, True

    def _gone(self, one: _Range, error: PositionOutOfRange) -> bool:
        """What retention has dropped since it was asked for is gone for good: said, and left out. True:
        nothing of it is left."""
        _log.warning("%s: a replay begins later: %s", self._subscription, error)
        if error.earliest in ("", one.place.next):
            return True
        one.place = ReplayRange(error.earliest, one.place.done)
        return False

    def _wanted(self, page: list[Message], epoch: int) -> list[Held]:
        """What is no event became a dead letter when it came first."""
        wanted = []
        for message in page:
            held = self._intake.read(replace(message, epoch=epoch))
            if isinstance(held, str):
                self._attempts.finished(held)
            elif held.decoded is not None:
                wanted.append(held)
        return wanted

    async def _note(self, one: _Range, page: list[Message], epoch: int, *, ended: bool) -> None:
        for message in page:
            one.place.take(message.offset, message.position)
            one.place.finish(message.offset)
            one.last = message.position
        try:
            await self._rows.save(one.progress, epoch)
        except StaleOwner as error:
            _log.info("%s: %s", self._subscription, error)
            self._ranges.pop(one.row.id, None)
            return
        if ended:
            await self._rows.end(one.row.id)
            self._ranges.pop(one.row.id, None)
